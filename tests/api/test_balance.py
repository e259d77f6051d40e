"""The choice among targets: by their capacity, load and speed, and by what an account has spent."""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import pytest

from app.ledger.config import PriceConfig
from app.testing.upstream import (
    DONE,
    FINISH,
    Call,
    Hold,
    Step,
    Upstream,
    head,
    reply,
    send,
    serve_upstream,
    text,
    wait,
)
from app.upstreams import routes
from tests.installed import install
from tests.logged import logged
from tests.serving import HELLO, Relay, chat, serve_relay, text_of
from tests.waiting import until

ROUTE = """
[upstream.a]
base_url = "{a}"
[upstream.b]
base_url = "{b}"
{more}
[[route]]
name = "fast"
targets = [{targets}]
{route}
"""
BOTH = '{ model = "a/m", order = 1 }, { model = "b/m", order = 1 }'
USAGE = (
    'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
)
TOO_MANY = reply(
    "429 Too Many Requests",
    '{"error":{"message":"no"}}',
    retry_after="60",
    x_ratelimit_remaining_requests="0",
    x_ratelimit_reset_requests="60s",
)


def says(who: str, *, after: float = 0, **headers: str) -> list[Step]:
    return [head(**headers), wait(after), send(text(who) + FINISH + USAGE + DONE)]


@contextlib.asynccontextmanager
async def serve_two(
    tmp_path: Any, targets: str = BOTH, *, route: str = "", more: str = "", **settings: Any
) -> AsyncIterator[tuple[Relay, Upstream, Upstream]]:
    async with serve_upstream() as a, serve_upstream() as b:
        path = tmp_path / "seseragi.toml"
        urls = {"a": a.base_url, "b": b.base_url}
        path.write_text(ROUTE.format(**urls, targets=targets, route=route, more=more))
        a.script, b.script = says("a"), says("b")
        async with serve_relay(config=path, default_model="fast", **settings) as relay:
            yield relay, a, b


class Metered:
    """A provider with a limit of requests a minute, which it reports."""

    def __init__(self, limit: int) -> None:
        self.left, self.refused = limit, 0

    def answer(self, call: Call, *, after: float = 0) -> list[Step]:
        if not self.left:
            self.refused += 1
            return TOO_MANY
        self.left -= 1
        headers = {
            "x_ratelimit_remaining_requests": str(self.left),
            "x_ratelimit_reset_requests": "60s",
        }
        return says("a", after=after, **headers)


@pytest.mark.parametrize("targets", ['"a/m", "b/m"', BOTH])
async def test_a_target_whose_limit_is_used_up_is_passed_over(targets, tmp_path):
    metered = Metered(5)
    async with serve_two(tmp_path, targets, route="balance = 'random'") as (relay, a, b):
        a.choose = metered.answer
        for _ in range(20):
            events = await chat(relay)
            assert events[-1]["status"] == "completed"
    assert metered.refused == 0
    assert len(a.calls) == 5
    assert len(b.calls) == 15


async def test_overlapping_requests_exceed_no_reported_limit(tmp_path):
    metered, waits = Metered(12), random.Random(1)
    async with serve_two(tmp_path, '"a/m", "b/m"') as (relay, a, b):
        a.choose = lambda call: metered.answer(call, after=waits.random() / 5)
        await chat(relay)
        asking = []
        for _ in range(40):
            asking.append(asyncio.create_task(chat(relay)))
            await asyncio.sleep(0.01)
        await asyncio.gather(*asking)
    assert (metered.refused, metered.left) == (0, 0)
    assert len(b.calls) == 29


async def test_a_refusal_is_learnt_once(tmp_path):
    async with serve_two(tmp_path, '"a/m", "b/m"') as (relay, a, b):
        a.script = TOO_MANY
        for _ in range(3):
            await chat(relay)
    assert (len(a.calls), len(b.calls)) == (1, 3)


@pytest.mark.parametrize("limit", ["requests_per_minute = 2", "tokens_per_minute = 14"])
async def test_limits_of_the_settings_are_kept(limit, tmp_path):
    targets = f'{{ model = "a/m", {limit} }}, "b/m"'
    async with serve_two(tmp_path, targets) as (relay, a, b):
        for _ in range(5):
            await chat(relay)
    assert (len(a.calls), len(b.calls)) == (2, 3)


@pytest.mark.parametrize("model", ["a/m", "alone"])
async def test_requests_by_other_names_of_a_target_count_too(model, tmp_path):
    targets = '{ model = "a/m", requests_per_minute = 2 }, "b/m"'
    alone = '[[route]]\nname = "alone"\ntargets = ["a/m"]'
    async with serve_two(tmp_path, targets, route=alone) as (relay, a, b):
        for _ in range(2):
            await chat(relay, model=model)
        await chat(relay)
    assert (len(a.calls), len(b.calls)) == (2, 1)


async def test_limits_of_an_upstream_are_those_of_its_targets(tmp_path):
    more = "requests_per_minute = 1"  # of b
    targets = '"b/m", { model = "b/n", requests_per_minute = 2 }, "a/m"'
    async with serve_two(tmp_path, targets, more=more) as (relay, a, b):
        for _ in range(4):
            await chat(relay)
    assert [call.json["model"] for call in b.calls] == ["m", "n", "n"]
    assert len(a.calls) == 1


async def test_tokens_of_calls_without_a_stream_count(tmp_path):
    targets = '{ model = "a/m", tokens_per_minute = 11 }, "b/m"'
    vectors = {"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 9, "total_tokens": 9}}
    async with serve_two(tmp_path, targets) as (relay, a, b):
        a.script = b.script = reply("200 OK", json.dumps(vectors))
        for _ in range(3):
            answer = await relay.client.post("/v1/embeddings", json={"input": "Hello, you"})
            assert answer.status_code == 200
    assert (len(a.calls), len(b.calls)) == (1, 2)


async def test_streams_at_once_are_shared_by_load(tmp_path):
    async with serve_two(tmp_path, route="balance = 'least_busy'") as (relay, a, b):
        a.script = b.script = [head(), send(text("x")), Hold()]
        asking = [asyncio.create_task(relay.client.post("/v1/chat", json=HELLO)) for _ in range(2)]
        await asyncio.wait_for(asyncio.gather(a.called.wait(), b.called.wait()), 10)
        for one in asking:
            one.cancel()
        await asyncio.wait(asking)
    assert (len(a.calls), len(b.calls)) == (1, 1)


async def test_a_full_target_is_still_used_if_no_other_has_room(tmp_path):
    targets = (
        '{ model = "a/m", requests_per_minute = 1 }, { model = "b/m", requests_per_minute = 1 }'
    )
    async with serve_two(tmp_path, targets) as (relay, a, b):
        for _ in range(3):
            assert (await chat(relay))[-1]["status"] == "completed"
    assert (len(a.calls), len(b.calls)) == (2, 1)


async def test_the_faster_target_gets_nearly_all(tmp_path):
    async with serve_two(tmp_path, route="balance = 'latency'") as (relay, a, b):
        a.script, b.script = says("a", after=0.15), says("b")
        begun = time.monotonic()
        for _ in range(20):
            await chat(relay)
    assert len(a.calls) <= 2
    assert time.monotonic() - begun < 10


async def test_a_silent_target_is_known_to_be_slow(tmp_path):
    targets = BOTH.replace('"a/m",', '"a/m", first_event_timeout_s = 0.1,')
    async with serve_two(tmp_path, targets, route="balance = 'latency'") as (relay, a, b):
        a.script = [head(), Hold()]
        for _ in range(10):
            assert (await chat(relay))[-1]["status"] == "completed"
    assert (len(a.calls), len(b.calls)) == (1, 10)


LAST = """
from app.policies.balance import Balance

class Last(Balance):
    by_load = True

    def order(self, candidates):
        return [max(candidates, key=lambda one: (-one.running, one.name))]
"""
BROKEN = """
from app.policies.balance import Balance

class Last(Balance):
    def order(self, candidates):
        return candidates[len(candidates)]
"""


async def test_a_balance_of_another_package_chooses(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, LAST, {"seseragi.balances": {"last": "Last"}})
    targets = f'{BOTH}, {{ model = "a/n", order = 1 }}'
    async with serve_two(tmp_path, targets, route="balance = 'last'") as (relay, a, b):
        assert [text_of(await chat(relay)) for _ in range(3)] == ["b"] * 3
        b.script = [head(), send(text("b")), Hold()]
        asking = asyncio.create_task(relay.client.post("/v1/chat", json=HELLO))
        await asyncio.wait_for(b.called.wait(), 10)
        await until(lambda: len(b.calls) == 4)
        assert text_of(await chat(relay)) == "a"
        assert a.calls[-1].json["model"] == "n"
        asking.cancel()
        await asyncio.wait([asking])


async def test_targets_that_a_balance_leaves_out_follow(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, LAST, {"seseragi.balances": {"last": "Last"}})
    async with serve_two(tmp_path, route="balance = 'last'") as (relay, a, b):
        b.script = TOO_MANY
        assert text_of(await chat(relay)) == "a"
    assert (len(a.calls), len(b.calls)) == (1, 1)


async def test_a_balance_that_fails_is_replaced_by_chance(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, BROKEN, {"seseragi.balances": {"last": "Last"}})
    with logged(routes) as lines:
        async with serve_two(tmp_path, route="balance = 'last'") as (relay, a, b):
            for _ in range(20):
                assert (await chat(relay))[-1]["status"] == "completed"
    assert a.calls
    assert b.calls
    assert 1 == str(lines).count("balance failed")


PRICES = [
    PriceConfig(target="a/*", input=0, output=1000),
    PriceConfig(target="b/*", input=0, output=1),
]
SPENT = "when_spent = 0.5\nspent_target = 'b/m'\nrecord_content = false"


async def test_an_account_that_has_spent_a_share_gets_the_cheaper_target(log, tmp_path):
    limits = "[limits]\nusd_per_day = 0.01"
    settings = {"prices": PRICES, "log": log}
    async with serve_two(tmp_path, '"a/m"', route=SPENT, more=limits, **settings) as (relay, a, b):
        spent = [await chat(relay, max_tokens=2) for _ in range(5)]
    models = ["b" if any(e["type"] == "notice" for e in events) else "a" for events in spent]
    assert models == ["a", "a", "a", "b", "b"]
    notice = next(e for e in spent[-1] if e["type"] == "notice")
    assert notice["code"] == "budget"
    assert notice["message"] == "50% of the relay's usd_per_day is spent; 'b/m' answers"
    assert spent[-1][1] == notice
    target = next(e for e in spent[-1] if e["type"] == "stream.target")
    assert target["upstream"] == "b"
    assert json.loads(spent[-1][-1]["cost"]) == 0.000002
    assert (len(a.calls), len(b.calls)) == (3, 2)


class Caching:
    """A provider that caches the prompts that it has seen, and charges a tenth for them."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def answer(self, call: Call) -> list[Step]:
        prompt = json.dumps(call.json["messages"])[:-1]
        cached = max((len(one) for one in self.prompts if prompt.startswith(one)), default=0)
        self.prompts.append(prompt)
        details = {"cached_tokens": cached // 4}
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 2}
        counts = {"choices": [], "usage": {**usage, "prompt_tokens_details": details}}
        return [head(), send(text("ok") + FINISH + f"data: {json.dumps(counts)}\n\n" + DONE)]


@pytest.mark.parametrize(("balance", "saves"), [("affinity", True), ("random", False)])
async def test_a_conversation_finds_its_cache_and_costs_less(balance, saves, tmp_path):
    prices = [PriceConfig(target="*", input=1, cached_input=0.1, output=0)]
    route = f"balance = '{balance}'"
    cost, tokens, cached = 0.0, 0, 0
    async with serve_two(tmp_path, route=route, prices=prices) as (relay, a, b):
        a.choose, b.choose = Caching().answer, Caching().answer
        for conversation in range(6):
            question = f"{conversation}: {'Tell me more. ' * 40}"
            messages = [{"role": "user", "content": question}]
            for turn in range(10):
                end = (await chat(relay, {"messages": messages}))[-1]
                cost += float(end["cost"]) * 1e6
                tokens += end["usage"]["input_tokens"]
                cached += end["usage"].get("cached_input_tokens", 0)
                messages += [{"role": "assistant", "content": "ok"}]
                messages += [{"role": "user", "content": f"{turn} {'And then? ' * 20}"}]
    assert cost == pytest.approx(tokens - 0.9 * cached, rel=0.001)
    assert (cached > 0.8 * tokens) == saves


SIGNED = """
[auth]
signing_key = "{signing_key}"
[[key]]
name = "a"
sha256 = "{a}"
[[key]]
name = "b"
sha256 = "{b}"
"""


async def test_the_target_of_a_conversation_tells_nothing_of_other_clients(tmp_path):
    """Each client's conversations keep their targets, but not those of equal ones of another."""
    found: dict[tuple[str, str], list[str]] = {}
    digests = {name: sha256(f"ssk_{name}".encode()).hexdigest() for name in "ab"}
    for signing_key in ("k" * 32, "j" * 32):
        more = SIGNED.format(signing_key=signing_key, **digests)
        async with serve_two(tmp_path, more=more) as (relay, _, _):
            for name in ("a", "b", "a"):
                relay.client.headers["authorization"] = f"Bearer ssk_{name}"
                targets = [
                    text_of(await chat(relay, prompt_cache_key=f"conversation {number}"))
                    for number in range(16)
                ]
                assert targets == found.setdefault((signing_key, name), targets)
                assert {"a", "b"} == {*targets}
    assert 4 == len({*map(tuple, found.values())})
