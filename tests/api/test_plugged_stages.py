"""A stage of a package: it sees an answer, changes it, or answers without a call."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.identity.principal import Principal
from app.ledger.config import PriceConfig
from app.testing.upstream import DONE, FINISH, USAGE, Upstream, head, send, serve_upstream, text
from tests.identities import bearer, known
from tests.installed import install
from tests.serving import HELLO, Relay, chat, serve_relay, text_of

CODE = """
import msgspec
from app.events import StreamEnd, TextDelta, TextEnd, TextStart
from app.generation.stages.plugged import AnswerStage

ANSWERS = {}


class Cache(AnswerStage):
    def __init__(self, context, following):
        super().__init__(context, following)
        self.key = context.owner, msgspec.json.encode(context.request)
        self.events = []

    async def recall(self):
        return ANSWERS.get(self.key)

    async def take(self, events):
        self.events += events
        end = events[-1]
        if isinstance(end, StreamEnd) and end.status == "completed":
            ANSWERS[self.key] = self.events
        return await super().take(events)


class Upper(AnswerStage):
    async def take(self, events):
        return await super().take([
            TextDelta(one.block, one.text.upper()) if isinstance(one, TextDelta) else one
            for one in events
        ])


class Seen(AnswerStage):
    pass


class Knows(AnswerStage):
    async def recall(self):
        text = TextDelta(0, "Ask me@example.com, one day")
        return [TextStart(0), text, TextEnd(0), StreamEnd("completed", "stop")]


class Broken(AnswerStage):
    async def take(self, events):
        raise ZeroDivisionError("secret")
"""
NAMES = {"cache": "Cache", "upper": "Upper", "seen": "Seen", "knows": "Knows", "broken": "Broken"}
MINE, OTHERS = Principal("t", "me", "app"), Principal("t", "you", "app")


class Served(NamedTuple):
    relay: Relay
    upstream: Upstream

    async def ask(self, who: str = "me") -> list[dict[str, Any]]:
        self.relay.client.headers.update(bearer(who))
        return await chat(self.relay)


@asynccontextmanager
async def served(folder: Path, stages: str, more: str = "") -> AsyncIterator[Served]:
    config = folder / "seseragi.toml"
    async with serve_upstream() as upstream:
        upstream.script = [
            head(),
            *(send(text(one)) for one in ("one ", "two ", "three")),
            send(FINISH + USAGE + DONE),
        ]
        config.write_text(
            f'[upstream.a]\nbase_url = "{upstream.base_url}"\n'
            f'[[route]]\nname = "fast"\ntargets = ["a/m"]\nstages = {stages}\n{more}'
        )
        prices = [PriceConfig(target="*", input=1, output=1)]
        async with serve_relay(
            config=config,
            default_model="fast",
            authenticator=known(me=MINE, you=OTHERS),
            prices=prices,
        ) as relay:
            yield Served(relay, upstream)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, CODE, {"seseragi.stages": NAMES})


async def test_an_answer_from_a_cache_calls_nobody_and_costs_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, '["cache"]') as relay:
        first, again = await relay.ask(), await relay.ask()
        assert 1 == len(relay.upstream.calls)
        others = await relay.ask("you")
        assert 2 == len(relay.upstream.calls)

    assert {"one two three"} == {text_of(one) for one in (first, again, others)}
    kinds = [one["type"] for one in again]
    assert ["stream.start", "stream.target", "text.start"] == kinds[:3]
    assert 1 == kinds.count("stream.end") == kinds.count("stream.target")
    assert ("completed", "stop") == (again[-1]["status"], again[-1]["finish_reason"])
    assert float(first[-1]["cost"]) > 0
    assert not float(again[-1].get("cost") or 0)


async def test_stages_change_an_answer_in_the_order_of_the_route(tmp_path: Path) -> None:
    async with served(tmp_path, '["upper", "cache", "seen"]') as relay:
        found = [await relay.ask(), await relay.ask()]

    assert ["ONE TWO THREE"] * 2 == [text_of(one) for one in found]


async def test_hooks_check_what_a_stage_recalls(tmp_path: Path) -> None:
    hook = '[[hook]]\ncall = "redact"\n'
    async with served(tmp_path, '["knows"]', hook) as relay:
        found = text_of(await relay.ask())
        assert [] == relay.upstream.calls

    assert "example.com" not in found
    assert found.startswith("Ask ")


async def test_a_stage_that_fails_ends_the_stream_as_failed(tmp_path: Path) -> None:
    async with served(tmp_path, '["broken"]') as relay:
        reply = await relay.relay.client.post("/v1/chat", json=HELLO, headers=bearer("me"))

    assert reply.status_code == 500
    assert "secret" not in reply.text
    assert reply.json()["code"] == "internal"
