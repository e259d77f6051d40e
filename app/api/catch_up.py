"""Cursors of dialects whose frames do not correspond to events one to one.

Their frames depend on all events from the first on, so the events are read again up to the frame
of the cursor, and no further.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from ..dialects.client_format import NumberedWriter
from ..eventlog import Ending
from ..events import Event, StreamEnd
from ..generation.readers import Reader

GIVE_WAY = 100
"""Events after which other tasks have their turn: a million take seconds."""


class CaughtUp(NamedTuple):
    """A writer that was fed the events up to its cursor, and maybe some after it."""

    after: int
    """The number of the last event fed."""
    frames: Sequence[bytes] = ()
    """The first frames after the cursor; empty if there are none yet."""
    end: StreamEnd | None = None
    """The last event fed, if it is a `stream.end`."""


async def catch_up(writer: NumberedWriter, reader: Reader, *, last: int) -> CaughtUp:
    """Feed a new writer until it writes a frame, or was fed the event `last`.

    Later events that are read in the same batch are fed too.
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
    reader.put_back(0, first)  # for a dialect that replays everything
    return CaughtUp(after, frames, end)
