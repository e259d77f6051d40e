"""What a response does beside sending."""

import asyncio
from collections.abc import Sequence

from app.api.event_stream import count_frames
from app.dialects.client_formats import CLIENT_FORMATS
from app.eventlog import LogState
from app.eventlog.memory import MemoryLog
from app.events import Event, StreamStart, TextDelta, TextStart
from app.generation.readers import Reader

EVENTS: list[Event] = [StreamStart("st_1", "m", 1), TextStart(0), *[TextDelta(0, "a")] * 1000]


class FullReader(Reader):
    def __init__(self) -> None:
        log = MemoryLog(retention_s=1, max_bytes=1, max_stream_bytes=1, max_stream_events=1)
        state = LogState(0, ended=False)
        super().__init__("st_1", log, lambda *_: None, drain=asyncio.sleep, found=state)

    async def read_all(self, *, ending: bool = True) -> Sequence[Event]:
        return EVENTS


async def test_counting_the_frames_of_a_long_stream_gives_way_to_others():
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    count = await count_frames(CLIENT_FORMATS["openai_chat"], FullReader(), len(EVENTS))
    other.cancel()

    assert 1001 == count
    assert turns > 5
