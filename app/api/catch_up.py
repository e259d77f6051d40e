"""Where a cursor of a dialect stands, whose frames are not the events themselves.

Its frames are made of all events from the first on. So the events are read up to that frame, and
no further than is needed to know it.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from ..dialects.client_format import NumberedWriter
from ..eventlog import Ending
from ..events import Event, StreamEnd
from ..generation.readers import Reader

GIVE_WAY = 100
"""After so many events others have their turn: a million take seconds."""


class CaughtUp(NamedTuple):
    """A writer that has been fed the events up to its cursor, and some after it."""

    after: int
    """The number of the last event that it was fed."""
    frames: Sequence[bytes] = ()
    """What it has written: the first frames after the cursor. None where no frame that is known
    stands after it."""
    end: StreamEnd | None = None
    """The last of those events, if it is that."""


async def catch_up(writer: NumberedWriter, reader: Reader, *, last: int) -> CaughtUp:
    """Feed a writer that is new until it writes, or has been fed the event of this number.

    More events may be known by then; they are fed too if they come with others.
    """
    after = 0
    end: StreamEnd | None = None
    frames: list[bytes] = []
    first: Sequence[Event] = ()
    while after < last and not frames and end is None:
        events = await reader.read(after, timeout_s=0)
        if not events:
            break
        first = first or events
        if isinstance(events, Ending):
            writer.skip(events.after - after)
            after = events.after
        for number, event in enumerate(events):
            if frame := writer.feed(event):
                frames.append(frame)
            if number % GIVE_WAY == 0:
                await asyncio.sleep(0)
        after += len(events)
        if isinstance(events[-1], StreamEnd):
            end = events[-1]
    reader.put_back(0, first)  # for one that is sent everything again
    return CaughtUp(after, frames, end)
