"""What one client's requests do to the targets of everybody."""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.testing.upstream import Call, Hold, Step, Until, head, reply, send, text
from tests.api.test_routes import BUSY, PAUSE_S, ROUTE, Routed, answer, routed
from tests.serving import HELLO, text_of
from tests.waiting import until

__all__ = ["routed"]

BAD = "bad"


def bad_or_fine(script: Sequence[Step]) -> Callable[[Call], Sequence[Step]]:
    """Answer a bad request with a script, and others well."""

    def choose(call: Call) -> Sequence[Step]:
        return script if BAD in json.dumps(call.json["messages"]) else answer()

    return choose


async def ask_badly(served: Routed, **fields: Any) -> None:
    await served.post(messages=[{"role": "user", "content": BAD}], **fields)


PARTS: list[Step] = [head(), send("".join(text(f"{n} ") for n in range(50))), Hold()]
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
        assert "fine" == text_of(await served.chat())
        assert 5 == len(served.a.calls)


async def test_answers_that_take_longer_than_their_time_move_nobody(routed: Any) -> None:
    body = {**HELLO, "model": "fast", "messages": [{"role": "user", "content": BAD}]}
    async with routed(attempts=1, total_timeout_s=10) as served, AsyncExitStack() as begun:
        served.a.choose, served.b.script = bad_or_fine([head(), send(text("0")), Hold()]), BUSY
        post = partial(served.relay.client.stream, "POST", "/v1/chat", json=body)
        answers = [await begun.enter_async_context(post()) for _ in range(4)]
        await served.clock.pass_(11)
        for one in answers:
            assert b"upstream_timeout" in await one.aread()

        assert "closed" == (await served.states())["a/m-a"]
        assert "fine" == text_of(await served.chat())
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

        assert "fine" == text_of(await served.chat())


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
            assert "fine" == text_of(await served.chat())
        for _ in range(5):
            await ask_badly(served)

        assert "fine" == text_of(await served.chat())


async def test_a_wait_that_one_request_is_told_is_not_everybodys(routed: Any) -> None:
    async with routed(attempts=1) as served:
        script = reply("429 Slow", '{"error":{"message":"too many tokens"}}', retry_after="900")
        served.a.choose, served.b.script = bad_or_fine(script), answer("b")
        await ask_badly(served)

        assert "fine" == text_of(await served.chat())


async def fail_thrice(served: Routed) -> None:
    served.a.script, served.b.script = BUSY, answer("b")
    for _ in range(3):
        await served.chat()


async def test_requests_that_come_together_start_one_trial(routed: Any) -> None:
    async with routed(attempts=1) as served:
        await fail_thrice(served)
        await served.until_half_open()
        others_have_asked = Until()
        served.a.script = [others_have_asked, *answer("a")]
        asking = [asyncio.create_task(served.chat()) for _ in range(8)]
        await until(lambda: len(served.b.calls) == 3 + 7)
        others_have_asked.told.set()
        found = await asyncio.gather(*asking)

        assert ["a", *["b"] * 7] == sorted(map(text_of, found))
        assert 4 == len(served.a.calls)


async def test_a_trial_is_one_attempt(routed: Any) -> None:
    async with routed(attempts=3) as served:
        await fail_thrice(served)
        await served.until_half_open()
        before = len(served.a.calls)

        assert "b" == text_of(await served.chat())
        assert 1 == len(served.a.calls) - before


async def test_a_silent_trial_leaves_time_for_the_others(routed: Any) -> None:
    async with routed(f"{ROUTE}budget_s = 5", attempts=1) as served:
        await fail_thrice(served)
        await served.until_half_open()
        served.a.script = [Hold()]
        served.a.called.clear()
        asking = asyncio.create_task(served.chat())
        await asyncio.wait_for(served.a.called.wait(), 20)
        await served.clock.pass_(3)

        assert "b" == text_of(await asking)
        assert 4 == len(served.a.calls)


async def test_a_silent_trial_holds_up_the_next_one_for_a_while_only(routed: Any) -> None:
    """A connection may hang on after its target is well again."""
    times = {"breaker_max_pause_s": PAUSE_S, "fallback_after_s": 100}
    async with routed(attempts=1, **times) as served:
        await fail_thrice(served)
        await served.until_half_open()
        served.a.script = [Hold()]
        served.a.called.clear()
        trial = asyncio.create_task(served.chat())
        await asyncio.wait_for(served.a.called.wait(), 20)
        served.a.script = answer("a")
        assert "b" == text_of(await served.chat())
        await served.clock.pass_(PAUSE_S + 1)

        assert "a" == text_of(await served.chat())
        assert "closed" == (await served.states())["a/m-a"]
        trial.cancel()
        await asyncio.wait({trial})
