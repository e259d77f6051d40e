"""Streams that are ended for a producer which is lost, as whoever ends them can tell of them."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec
import structlog

from ..dialects.writing.token_estimate import weigh_event
from ..events import Event, Notice, StreamEnd, StreamTarget
from ..ledger.accounts import Reservation, Settlement
from .record import StreamRecord
from .recovery import LOST

UNREADABLE = StreamEnd("interrupted", "error", None, LOST, ended_by="relay_lost")
"""What is told of a stream of which not all events could be read."""

REMOVED = StreamEnd("cancelled", "cancelled", ended_by="user")
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
    weight: int = 0
    """Of the answer, as `token_estimate.weigh_event` says it."""
    retries: int = 0
    """How many attempts failed before the one that answered."""
    spent: Settlement | None = None
    """What its producer has settled, where it could say that, but could not write the end."""
    held: Reservation | None = None
    """What was held for it, where nothing is kept of what it has used: it has cost that."""


class Closing(NamedTuple):
    """How a stream is ended for its producer: what the log puts in place of the end."""

    end: StreamEnd
    settlement: Settlement


Close = Callable[[LostStream], Closing]
"""Says what a stream has cost that is ended for its producer. Called in any thread."""


def close_free(lost: LostStream) -> Closing:
    """End a stream that nobody counts."""
    return Closing(lost.end, lost.spent or Settlement())


_CLOSE_FAILED = (ArithmeticError, LookupError, TypeError, ValueError, msgspec.MsgspecError)

log = structlog.get_logger("seseragi.eventlog")


def closing_of(lost: LostStream, close: Close) -> Closing:
    """Return what `close` says; where it fails, the stream ends all the same, of unknown price."""
    try:
        return close(lost)
    except _CLOSE_FAILED:
        log.exception("what a lost stream has cost is unknown", stream=lost.record.id)
        return Closing(lost.end, lost.spent or Settlement(nano_usd=None))


OnEnded = Callable[[str, LostStream], None]
"""Reports a stream that was ended for its producer."""


class Passing:
    """Notes what there is to tell of a stream while its events are read."""

    def __init__(self) -> None:
        self.count = 0
        self.target: StreamTarget | None = None
        self._weight = 0
        self._retries = 0

    def watch(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the events, and note what they say."""
        for event in events:
            self.count += 1
            if isinstance(event, StreamTarget):
                self.target = event
            elif isinstance(event, Notice):
                self._retries += event.code in ("retry", "fallback")
            else:
                self._weight += weigh_event(event)
            yield event

    def lost(
        self, record: StreamRecord, end: StreamEnd, *, started_at: float, ended_at: float
    ) -> LostStream:
        """Return what there is to tell of the stream."""
        return LostStream(
            record.without_request(),
            end,
            self.target,
            self.count,
            started_at,
            ended_at,
            self._weight,
            self._retries,
        )
