"""What events take in memory, by the allocator, is what their size is estimated at."""

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
from tests.eventlog.creating import create

TOKEN = {"token": " sea", "logprob": -0.25, "bytes": [32, 115, 101, 97]}


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
    events = [decode(data) for _ in range(1_500)]
    for decoded in events:
        encode(decoded)  # as a reader's renderer does, which leaves UTF-8 behind
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert pytest.approx((after - before) / len(events), rel=tolerance) == size_of([event])


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
