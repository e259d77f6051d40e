"""What nobody can size before the provider does is reserved for by the model's context."""

import asyncio
from typing import Any

from app.ledger.config import LedgerConfig, LimitsConfig, PriceConfig, UsageLimits
from app.testing.upstream import DONE, FINISH, Until, head, send, serve_upstream, text
from tests.serving import Relay, serve_relay
from tests.waiting import until

PRICES = (PriceConfig(target="openai/*", input=15, output=60),)
"""A context of 200,000 tokens is 3 USD of input."""


def ledger(usd: float) -> LedgerConfig:
    return LedgerConfig(limits=LimitsConfig(relay=UsageLimits(usd_per_day=usd)), prices=PRICES)


async def ask(relay: Relay, part: dict[str, Any], *, max_tokens: int = 16) -> int:
    body = {
        "model": "openai/gpt-6-luna",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, part]}],
        "max_tokens": max_tokens,
    }
    return (await relay.client.post("/v1/chat/completions", json=body)).status_code


async def test_file_that_only_the_provider_has_takes_no_more_than_the_budget(tmp_path):
    gate = Until()
    part = {"type": "file", "file": {"file_id": "file-large"}}
    config = tmp_path / "seseragi.toml"
    config.write_text('[upstream.openai]\noptions = ["safe", "file_id"]\n')
    environ = {"SESERAGI_CONFIG": str(config)}
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, ledger=ledger(7), environ=environ) as relay,
    ):
        upstream.script = [head(), send(text("a")), gate, send(FINISH + DONE)]
        asked = [asyncio.create_task(ask(relay, part)) for _ in range(20)]
        await until(lambda: sum(task.done() for task in asked) == 18)
        assert {429} == {task.result() for task in asked if task.done()}
        await until(lambda: len(upstream.calls) == 2)
        gate.told.set()
        assert [200, 200] == sorted(await asyncio.gather(*asked))[:2]


async def test_file_that_is_sent_whole_is_sized_by_itself():
    file = {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}
    async with serve_upstream() as upstream, serve_relay(upstream, ledger=ledger(1)) as relay:
        upstream.script = [head(), send(text("a") + FINISH + DONE)]

        assert 200 == await ask(relay, {"type": "file", "file": file})


async def test_answer_is_reserved_for_no_longer_than_a_model_may_give():
    """Ten million tokens would hold a budget of 600 USD for as long as the answer runs."""
    gate = Until()
    async with serve_upstream() as upstream, serve_relay(upstream, ledger=ledger(30)) as relay:
        upstream.script = [head(), send(text("a")), gate, send(FINISH + DONE)]
        long = asyncio.create_task(ask(relay, {"type": "text", "text": "hi"}, max_tokens=10**7))
        await asyncio.wait_for(upstream.called.wait(), 20)
        (state,) = await relay.accounts.read_accounts(["relay"])
        assert 12.1e9 > state.day.held_nano_usd > 11.9e9  # 200,000 tokens
        gate.told.set()
        assert 200 == await long
