"""Streams that are ended for a lost producer, from what the log knows of them."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec
import structlog

from ..dialects.writing.token_estimate import weigh_event
from ..events import Event, Notice, StreamEnd, StreamTarget
from ..ledger.accounts import Reservation, Settlement
from .recovery import LOST
from .stream_ended import StreamEnded
from .stream_info import StreamInfo

UNREADABLE = StreamEnd("interrupted", "error", None, LOST, ended_by="relay_lost")
"""The end of a stream of which not all events can be read."""

REMOVED = StreamEnd("cancelled", "cancelled", ended_by="user")
"""The end of a stream that was removed before its producer ended it."""


class LostStream(NamedTuple):
    """A stream that another than its producer ends, and what its cost is estimated from."""

    ended: StreamEnded
    """Its cost is not known yet."""
    weight: int = 0
    """Of the answer, as `token_estimate.weigh_event` counts it."""
    spent: Settlement | None = None
    """The settlement of its producer, which had one but could not write the end."""
    held: Reservation | None = None
    """What was reserved for it, where its events are unreadable: that is its cost."""


class Closing(NamedTuple):
    """A lost stream with its cost, and the settlement that goes into the log with its end."""

    ended: StreamEnded
    settlement: Settlement


Close = Callable[[LostStream], Closing]
"""Prices a stream that is ended for its producer. Called in any thread."""


def close_free(lost: LostStream) -> Closing:
    """End a stream that nobody counts."""
    return Closing(lost.ended, lost.spent or Settlement())


_CLOSE_FAILED = (ArithmeticError, LookupError, TypeError, ValueError, msgspec.MsgspecError)

log = structlog.get_logger("seseragi.eventlog")


def closing_of(lost: LostStream, close: Close) -> Closing:
    """Return what `close` returns; if it fails, the stream ends all the same, of unknown price."""
    try:
        return close(lost)
    except _CLOSE_FAILED:
        log.exception("what a lost stream has cost is unknown", stream=lost.ended.record.id)
        return Closing(lost.ended, lost.spent or Settlement(nano_usd=None))


OnEnded = Callable[[StreamEnded], None]
"""Called with a stream that was ended for its producer."""


class Passing:
    """Notes the facts of a stream while its events are read."""

    def __init__(self) -> None:
        self.count = 0
        self._target: StreamTarget | None = None
        self._weight = 0
        self._retries = 0

    def watch(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the events, and note their facts."""
        for event in events:
            self.count += 1
            if isinstance(event, StreamTarget):
                self._target = event
            elif isinstance(event, Notice):
                self._retries += event.code in ("retry", "fallback")
            else:
                self._weight += weigh_event(event)
            yield event

    def lost(
        self, record: StreamInfo, end: StreamEnd, *, started_at: float, ended_at: float
    ) -> LostStream:
        """Return the stream, ended for its producer."""
        target = self._target
        ended = StreamEnded(
            record=record.without_request(),
            end=end,
            target=f"{target.upstream}/{target.model}" if target else None,
            answered_model=target.model if target else None,
            attempts=target.attempt if target else 1 + self._retries,
            started_at=started_at,
            ended_at=ended_at,
            duration_s=max(ended_at - started_at, 0),
            events=self.count,
            lost=True,
        )
        return LostStream(ended, self._weight)
