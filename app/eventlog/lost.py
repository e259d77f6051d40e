"""Streams that are ended for a producer which is lost, as whoever ends them can tell of them."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..events import Event, StreamEnd, StreamTarget
from .record import StreamRecord
from .recovery import LOST

UNREADABLE = StreamEnd("interrupted", "error", None, LOST)
"""What is told of a stream of which not all events could be read."""

REMOVED = StreamEnd("cancelled", "cancelled")
"""What is told of a stream that was removed before its producer had ended it."""


class LostStream(NamedTuple):
    """A stream that was ended by another than its producer."""

    record: StreamRecord
    """Without what it keeps of the request."""
    end: StreamEnd
    target: StreamTarget | None
    """Who has answered; None where nobody had, or it cannot be read."""
    events: int
    """How many are known, the end and what it closed among them."""
    started_at: float
    ended_at: float
    """In unix seconds."""


OnEnded = Callable[[str, LostStream | None], None]
"""Is told of a stream that has ended; with None, of one that is produced here."""


class Passing:
    """Notes what there is to tell of a stream while its events are read."""

    def __init__(self) -> None:
        self.count = 0
        self.target: StreamTarget | None = None

    def watch(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the events, and note what they say."""
        for event in events:
            self.count += 1
            if isinstance(event, StreamTarget):
                self.target = event
            yield event

    def lost(
        self, record: StreamRecord, end: StreamEnd, *, started_at: float, ended_at: float
    ) -> LostStream:
        """Return what there is to tell of the stream."""
        return LostStream(
            record.without_request(), end, self.target, self.count, started_at, ended_at
        )
