"""The log in memory: the contract, and what it says about its size."""

import asyncio
import time
import tracemalloc

import pytest

from app.eventlog.entries import STREAM_BYTES, size_of
from app.eventlog.memory import MemoryLog
from app.events import (
    Event,
    LogProbs,
    Opaque,
    ProviderTool,
    ReasoningDelta,
    Source,
    TextDelta,
    ToolCallDelta,
    decode,
    encode,
)
from tests.eventlog.contract import *  # noqa: F403
from tests.eventlog.contract import END, LIMITS, START, Clock, code_of, deltas, ended
from tests.eventlog.creating import create

TOKEN = {"token": " sea", "logprob": -0.25, "bytes": [32, 115, 101, 97]}


@pytest.fixture
def event_log(clock: Clock) -> MemoryLog:
    return MemoryLog(**LIMITS, now=clock, wall=clock)


@pytest.mark.parametrize(
    ("event", "tolerance"),
    [
        # From CPython 3.13 on small objects take a fifth less: 0.25.
        (TextDelta(0, " token"), 0.25),
        (TextDelta(3, "せせらぎ", 1), 0.25),
        (TextDelta(0, "🎉"), 0.2),
        (ReasoningDelta(0, "x" * 300), 0.2),
        (ToolCallDelta(1, '{"city":'), 0.25),
        (Opaque("anthropic.signature", "x" * 400), 0.2),
        (Source("https://example.org/a", None, "A title", "a cited text", 1, 300, 0), 0.25),
        (LogProbs(0, [{**TOKEN, "top_logprobs": [TOKEN] * 5}]), 0.35),
        (ProviderTool(1, "search", {"query": "sea"}, [{"url": "u", "title": "t"}] * 5), 0.35),
    ],
    ids=lambda value: type(value).__name__,
)
def test_size_of_an_event_is_what_it_takes(event: Event, tolerance: float) -> None:
    data = encode(event)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    events = [decode(data) for _ in range(5_000)]
    for decoded in events:
        encode(decoded)  # as a reader's renderer does, which leaves UTF-8 behind
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert pytest.approx((after - before) / len(events), rel=tolerance) == size_of(event)


async def test_size_of_a_stream_is_what_it_takes() -> None:
    event_log = MemoryLog(retention_s=100, max_bytes=10**9)
    event = TextDelta(0, "a")
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(2_000):
        stream = f"st_{number:022}"
        await create(event_log, stream)
        await event_log.append(stream, [event])
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert pytest.approx((after - before) / 2_000, rel=0.2) == STREAM_BYTES


async def test_streams_that_grow_take_the_room_of_ended_ones(event_log):
    for number in range(3):
        await ended(event_log, f"st_{number}", size=300_000)
    await create(event_log, "st_3")
    await event_log.append("st_3", [START, *deltas("x" * 350_000)])

    codes = [await code_of(event_log, f"st_{number}") for number in range(4)]
    assert ["stream_expired", None, None, None] == codes


async def test_stream_that_has_just_ended_gives_no_room(event_log):
    """Its live readers are still behind its end."""
    for number in range(4):
        await create(event_log, f"st_{number}")
        await event_log.append(f"st_{number}", [START, *deltas("x" * 300_000)])
    await event_log.append("st_0", [END])
    assert END == (await event_log.read("st_0", 2, timeout_s=0))[0]
    await event_log.append("st_1", deltas("more"))

    assert "stream_expired" == await code_of(event_log, "st_0")


async def test_stream_larger_than_the_log_is_not_kept(event_log):
    await create(event_log, "st_1")
    reading = asyncio.create_task(event_log.read("st_1", 0, timeout_s=5))
    await asyncio.sleep(0)
    await event_log.append("st_1", [*deltas("x" * 1_000_000), END])

    assert END == (await reading)[-1]
    assert "stream_expired" == await code_of(event_log, "st_1")


async def test_log_that_nobody_asks_lets_go_of_what_is_over(clock):
    event_log = MemoryLog(retention_s=0.02, max_bytes=10**6, now=clock, wall=clock)
    await ended(event_log, "st_1")
    clock.now += 0.01
    await ended(event_log, "st_2")
    await asyncio.sleep(0.05)  # no time has passed by the clock of the log
    assert {"st_1", "st_2"} == set(event_log._entries._ended)
    clock.now += 0.01
    await asyncio.sleep(0.05)
    assert {"st_2"} == set(event_log._entries._ended)
    clock.now += 0.01
    await asyncio.sleep(0.05)
    assert {} == event_log._entries._ended
    await ended(event_log, "st_3")
    clock.now += 0.02
    await asyncio.sleep(0.05)
    assert {} == event_log._entries._ended


async def test_closed_log_has_no_timer(event_log):
    await ended(event_log, "st_1")
    timer = event_log._entries._timer
    await event_log.close()

    assert timer.cancelled()


def test_log_that_was_not_closed_holds_no_loop_up() -> None:
    async def main() -> None:
        await ended(MemoryLog(retention_s=1_000, max_bytes=10**6), "st_1")

    begin = time.monotonic()
    asyncio.run(main(), debug=True)

    assert time.monotonic() - begin < 1
