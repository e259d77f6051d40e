"""A second attempt beside a late one: who answers, what it costs, and how often it is made."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.ledger.config import PriceConfig
from app.policies.balance import MAX_SAVED, MIN_SAMPLES, TargetStats
from app.testing.upstream import (
    DONE,
    FINISH,
    Hold,
    Step,
    Until,
    Upstream,
    head,
    reply,
    send,
    serve_upstream,
    text,
    wait,
)
from tests.serving import HELLO, Relay, chat, serve_relay, text_of

ROUTE = """
[upstream.a]
base_url = "{a}"
[upstream.b]
base_url = "{b}"
[[route]]
name = "fast"
targets = ["a/m-a", "b/m-b"]
hedge_percentile = 90
hedge_share = 1
"""
PRICES = [
    PriceConfig(target="a/*", input=1, output=10),
    PriceConfig(target="b/*", input=2, output=20),
]
ASYNC = {"prefer": "respond-async"}
NO = reply("503 Busy", '{"error":{"message":"no"}}')


def says(who: str, *, after: float = 0) -> list[Step]:
    usage = 'data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":10}}\n\n'
    return [head(), wait(after), send(text(f"from {who}")), send(FINISH + usage + DONE)]


@contextlib.asynccontextmanager
async def serve_hedged(tmp_path: Any, **settings: Any) -> AsyncIterator[tuple[Relay, Any, Any]]:
    """Serve a route whose first target has answered at once so far."""
    async with serve_upstream() as a, serve_upstream() as b:
        path = tmp_path / "seseragi.toml"
        path.write_text(ROUTE.format(a=a.base_url, b=b.base_url))
        settings = {"config": path, "default_model": "fast", "prices": PRICES, **settings}
        async with serve_relay(**settings) as relay:
            a.script, b.script = says("a"), says("b")
            for _ in range(MIN_SAMPLES):
                await chat(relay)
            a.calls.clear()
            yield relay, a, b


def codes(events: list[dict[str, Any]]) -> list[str]:
    return [event["code"] for event in events if event["type"] == "notice"]


def target_of(events: list[dict[str, Any]]) -> tuple[str, int]:
    [target] = [event for event in events if event["type"] == "stream.target"]
    return target["upstream"], target["attempt"]


async def closed(upstream: Upstream) -> None:
    for call in upstream.calls:
        await asyncio.wait_for(call.closed.wait(), 10)


async def test_the_second_answers_and_the_first_is_cancelled_and_charged(log, tmp_path):
    long = "b " * 400
    async with serve_hedged(tmp_path, log=log) as (relay, a, b):
        begin, _, answer, rest = says(long)
        a.script, b.script = [head(), Hold()], [begin, answer, wait(0.1), rest]
        events = await chat(relay)
        await closed(a)

    assert (text_of(events), target_of(events)) == (f"from {long}", ("b", 2))
    assert codes(events) == ["hedge"]
    end = events[-1]
    assert end["status"] == "completed"
    assert end["usage"]["input_tokens"] == 100
    asked = 100 * 2 + 10 * 20
    first = float(end["cost"]) * 1e6 - asked
    assert 0 < first < 30  # its input, as estimated, and nothing of the other's answer


async def test_a_first_that_is_late_but_faster_answers(tmp_path):
    async with serve_hedged(tmp_path) as (relay, a, b):
        told = Until()
        a.script = [head(), told, *says("a")[1:]]
        b.script = [head(), Hold()]
        asking = asyncio.create_task(chat(relay))
        await asyncio.wait_for(b.called.wait(), 10)
        told.told.set()
        events = await asking
        await closed(b)

    assert (text_of(events), target_of(events)) == ("from a", ("a", 1))
    assert codes(events) == ["hedge"]


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        (
            [head(), wait(0.3), send('data: {"error":{"message":"no"}}\n\n')],
            says("b", after=0.6),
            "b",
        ),
        (says("a", after=0.6), NO, "a"),
        (says("a", after=0.6), [head(), wait(0.1)], "a"),
    ],
    ids=["the first", "the second", "the second, later"],
)
async def test_a_failure_of_one_leaves_the_answer_to_the_other(first, second, wanted, tmp_path):
    async with serve_hedged(tmp_path) as (relay, a, b):
        a.script, b.script = first, second
        events = await chat(relay)

    assert (text_of(events), target_of(events)[0]) == (f"from {wanted}", wanted)
    assert codes(events) == ["hedge", "fallback"]
    assert events[-1]["status"] == "completed"
    assert (len(a.calls), len(b.calls)) == (1, 1)


async def test_two_failures_are_one_error(tmp_path):
    async with serve_hedged(tmp_path) as (relay, a, b):
        a.script = [head(), wait(0.3)]
        b.script = NO
        refused = await relay.client.post("/v1/chat", json=HELLO)

    assert refused.status_code >= 500
    message = refused.json()["detail"]
    assert "'a'" in message
    assert "'b'" in message


async def test_a_cancelled_stream_cancels_both(log, tmp_path):
    async with serve_hedged(tmp_path, log=log) as (relay, a, b):
        a.script = b.script = [head(), Hold()]
        started = await relay.client.post("/v1/chat", json=HELLO, headers=ASYNC)
        await asyncio.wait_for(b.called.wait(), 10)
        at = started.headers["location"].removesuffix("/events")
        await relay.client.post(f"{at}/cancel")
        await closed(a)
        await closed(b)
        state = (await relay.client.get(at)).json()

    assert state["status"] == "cancelled"
    assert float(state["cost"]) > 0


def test_percentiles_need_samples_and_forget_old_ones():
    stats = TargetStats()
    for number in range(MIN_SAMPLES - 1):
        stats.note("a/m", number, now=0)
    assert stats.percentile("a/m", 95) is None
    for number in range(1, 301):
        stats.note("a/m", number, now=0)
    assert (stats.percentile("a/m", 50), stats.percentile("a/m", 99.9)) == (200, 300)


def test_second_attempts_are_a_share_of_requests():
    stats = TargetStats()
    taken = 0
    for _ in range(1000):
        stats.note_request("fast", 0.05)
        taken += stats.take_hedge("fast")
    assert taken in range(49, 51)
    for _ in range(1000):
        stats.note_request("fast", 0.05)
    assert sum(stats.take_hedge("fast") for _ in range(100)) == MAX_SAVED
