"""What one client's requests do to the targets of everybody."""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.testing.upstream import Call, Hold, Step, Until, head, reply, send, text, wait
from tests.api.test_routes import BUSY, ROUTE, Routed, answer, routed, text_of
from tests.clock import Clock
from tests.serving import HELLO, chat

__all__ = ["routed"]

BAD = "bad"


def bad_or_fine(script: Sequence[Step]) -> Callable[[Call], Sequence[Step]]:
    """Answer a bad request with a script, and others well."""

    def choose(call: Call) -> Sequence[Step]:
        return script if BAD in json.dumps(call.json["messages"]) else answer()

    return choose


async def ask_badly(served: Routed, **fields: Any) -> None:
    body = {**HELLO, "model": "fast", "messages": [{"role": "user", "content": BAD}], **fields}
    await served.relay.client.post("/v1/chat", json=body)


PARTS = [head(), *[step for n in range(50) for step in (send(text(f"{n} ")), wait(0.02))]]
CAUSED: dict[str, tuple[Sequence[Step], dict[str, Any]]] = {
    "invalid": (reply("400 Bad", '{"error":{"message":"no"}}'), {}),
    "too long": (reply("400 Bad", '{"error":{"code":"context_length_exceeded"}}'), {}),
    "what is not there": (reply("404 Not Found", '{"error":{"message":"no such file"}}'), {}),
    "filtered": (reply("400 Bad", '{"error":{"code":"content_filter"}}'), {}),
    "longer than the log": (PARTS, {"max_stream_events": 20}),
}


@pytest.mark.parametrize("cause", CAUSED)
async def test_what_a_request_brings_about_itself_moves_nobody(cause: str, routed: Any) -> None:
    script, settings = CAUSED[cause]
    async with routed(attempts=1, **settings) as served:
        served.a.choose, served.b.script = bad_or_fine(script), BUSY
        await asyncio.gather(*(ask_badly(served) for _ in range(4)))

        assert "closed" == (await served.states())["a/m-a"]
        assert "fine" == text_of(await chat(served.relay, model="fast"))
        assert 5 == len(served.a.calls)


async def test_answers_that_take_longer_than_their_time_move_nobody(
    routed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    body = {**HELLO, "model": "fast", "messages": [{"role": "user", "content": BAD}]}
    async with routed(attempts=1, total_timeout_s=10) as served, AsyncExitStack() as begun:
        served.a.choose, served.b.script = bad_or_fine([head(), send(text("0")), Hold()]), BUSY
        post = partial(served.relay.client.stream, "POST", "/v1/chat", json=body)
        answers = [await begun.enter_async_context(post()) for _ in range(4)]
        await clock.pass_(11)
        for one in answers:
            assert b"upstream_timeout" in await one.aread()

        assert "closed" == (await served.states())["a/m-a"]
        assert "fine" == text_of(await chat(served.relay, model="fast"))
        assert 5 == len(served.a.calls)


async def test_a_client_that_leaves_moves_nobody(routed: Any) -> None:
    async with routed(attempts=1) as served:
        served.a.choose, served.b.script = bad_or_fine([Hold()]), answer("b")
        for _ in range(4):
            asking = asyncio.create_task(ask_badly(served, on_disconnect="cancel"))
            await asyncio.wait_for(served.a.called.wait(), 20)
            served.a.called.clear()
            closed = served.a.calls[-1].closed
            asking.cancel()
            await asyncio.wait_for(closed.wait(), 20)

        assert "fine" == text_of(await chat(served.relay, model="fast"))


async def test_a_stream_that_tries_often_counts_once(routed: Any, tmp_path: Path) -> None:
    async with routed(attempts=4) as served:
        served.a.choose, served.b.script = bad_or_fine(BUSY), answer("b")
        await ask_badly(served)

        assert 4 == len(served.a.calls)
        assert "closed" == (await served.states())["a/m-a"]


async def test_failures_among_the_answers_of_others_move_nobody(routed: Any) -> None:
    async with routed(attempts=1) as served:
        served.a.choose, served.b.script = bad_or_fine(BUSY), answer("b")
        for _ in range(6):
            assert "fine" == text_of(await chat(served.relay, model="fast"))
        for _ in range(5):
            await ask_badly(served)

        assert "fine" == text_of(await chat(served.relay, model="fast"))


async def test_a_wait_that_one_request_is_told_is_not_everybodys(routed: Any) -> None:
    async with routed(attempts=1) as served:
        script = reply("429 Slow", '{"error":{"message":"too many tokens"}}', retry_after="900")
        served.a.choose, served.b.script = bad_or_fine(script), answer("b")
        await ask_badly(served)

        assert "fine" == text_of(await chat(served.relay, model="fast"))


async def fail_thrice(served: Routed) -> None:
    served.a.script, served.b.script = BUSY, answer("b")
    for _ in range(3):
        await chat(served.relay, model="fast")
    # The pauses are short here: on a slow machine one may be over.
    assert (await served.states())["a/m-a"] in ("open", "half-open")


async def test_requests_that_come_together_start_one_trial(routed: Any) -> None:
    async with routed(attempts=1, breaker_pause_s=0.2) as served:
        await fail_thrice(served)
        await served.until_half_open()
        others_have_asked = Until()
        served.a.script = [others_have_asked, *answer("a")]
        asking = [asyncio.create_task(chat(served.relay, model="fast")) for _ in range(8)]
        async with asyncio.timeout(20):
            while len(served.b.calls) < 3 + 7:  # noqa: ASYNC110  (nothing tells)
                await asyncio.sleep(0.01)
        others_have_asked.told.set()
        found = await asyncio.gather(*asking)

        assert ["a", *["b"] * 7] == sorted(map(text_of, found))
        assert 4 == len(served.a.calls)


async def test_a_trial_is_one_attempt(routed: Any) -> None:
    async with routed(attempts=3, breaker_pause_s=0.2) as served:
        served.a.script, served.b.script = BUSY, answer("b")
        for _ in range(3):
            await chat(served.relay, model="fast")
        await served.until_half_open()
        before = len(served.a.calls)

        assert "b" == text_of(await chat(served.relay, model="fast"))
        assert 1 == len(served.a.calls) - before


async def test_a_silent_trial_leaves_time_for_the_others(routed: Any) -> None:
    async with routed(f"{ROUTE}budget_s = 5", attempts=1, breaker_pause_s=0.2) as served:
        await fail_thrice(served)
        await served.until_half_open()
        served.a.script = [Hold()]

        assert "b" == text_of(await chat(served.relay, model="fast"))
        assert 4 == len(served.a.calls)


async def test_a_silent_trial_holds_up_the_next_one_for_a_while_only(
    routed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection may hang on after its target is well again."""
    clock = Clock(monkeypatch)
    times = {"breaker_pause_s": 10, "breaker_longest_pause_s": 30, "fallback_after_s": 100}
    async with routed(attempts=1, **times) as served:
        await fail_thrice(served)
        await clock.pass_(10)
        served.a.script = [Hold()]
        served.a.called.clear()
        trial = asyncio.create_task(chat(served.relay, model="fast"))
        await asyncio.wait_for(served.a.called.wait(), 20)
        served.a.script = answer("a")
        assert "b" == text_of(await chat(served.relay, model="fast"))
        await clock.pass_(31)

        assert "a" == text_of(await chat(served.relay, model="fast"))
        assert "closed" == (await served.states())["a/m-a"]
        trial.cancel()
