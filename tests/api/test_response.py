"""What a response does beside sending."""

import asyncio
from collections.abc import Sequence

import pytest

from app.api.checkpoints import Checkpoints
from app.api.event_stream import catch_up
from app.dialects.client_format import NumberedWriter
from app.dialects.client_formats import CLIENT_FORMATS
from app.eventlog import LogState
from app.eventlog.memory import MemoryLog
from app.events import Event, StreamStart, TextDelta, TextStart
from app.generation.readers import BATCH, Reader

pytestmark = pytest.mark.pure

EVENTS: list[Event] = [StreamStart("st_1", "m", 1), TextStart(0), *[TextDelta(0, "a")] * 1000]


class FullReader(Reader):
    def __init__(self) -> None:
        log = MemoryLog(retention_s=1, max_bytes=1, max_stream_bytes=1, max_stream_events=1)
        state = LogState(0, ended=False)
        super().__init__("st_1", log, lambda *_: None, drain=asyncio.sleep, found=state)

    async def read(self, after: int, *, timeout_s: float, limit: int = BATCH) -> Sequence[Event]:
        return EVENTS[after : after + limit]


async def test_counting_the_frames_of_a_long_stream_gives_way_to_others():
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    writer = CLIENT_FORMATS["openai_chat"].writer("st_1", after=2000, retry_ms=0)
    assert isinstance(writer, NumberedWriter)
    begun = await catch_up(writer, FullReader(), last=len(EVENTS), checkpoints=Checkpoints())
    other.cancel()

    assert 1001 == writer.last
    assert (len(EVENTS), [], None) == begun
    assert turns > 5


async def test_stream_is_read_no_further_than_to_the_frame_that_was_seen_last():
    writer = CLIENT_FORMATS["openai_chat"].writer("st_1", after=300, retry_ms=0)
    assert isinstance(writer, NumberedWriter)
    begun = await catch_up(writer, FullReader(), last=len(EVENTS), checkpoints=Checkpoints())

    assert 300 + BATCH == begun.after
    assert writer.last - 300 == len(begun.frames)
    assert begun.frames[0].endswith(b"id: st_1.c301\n\n")
