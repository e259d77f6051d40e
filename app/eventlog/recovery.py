"""Ends orphaned streams: their closing events, their facts and their cost. No I/O.

A stream is orphaned when its producer is dead, or when another process removes it.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec
import structlog

from ..dialects.reading.open_blocks import OpenBlocks
from ..dialects.writing.token_estimate import weigh_event
from ..errors import CODES
from ..events import ErrorInfo, Event, Notice, Status, StreamEnd, StreamTarget
from ..ledger.accounts import Reservation, Settlement
from .stream_ended import StreamEnded
from .stream_info import StreamInfo

LOST = ErrorInfo(
    "producer_lost",
    "the relay stopped before the answer was complete",
    CODES["producer_lost"].retryable,
)
"""The error in the `stream.end` of an orphaned stream."""

UNREADABLE = StreamEnd("interrupted", "error", usage=None, error=LOST, ended_by="relay_lost")
"""The end of an orphaned stream whose events cannot all be read."""

REMOVED = StreamEnd("cancelled", "cancelled", ended_by="user")
"""The end of a stream that was removed while it ran."""

log = structlog.get_logger("seseragi.eventlog")


def closing_events(
    events: Iterable[Event], *, status: Status, error: ErrorInfo | None
) -> list[Event]:
    """Return the events that end a stream which has these events.

    They end every open block and finish with the `stream.end`. Empty if the stream has ended.
    """
    blocks = OpenBlocks()
    for event in events:
        if isinstance(event, StreamEnd):
            return []
        blocks.note(event)
    finish_reason = blocks.finish_reason or ("cancelled" if status == "cancelled" else "error")
    end = StreamEnd(status, finish_reason, usage=blocks.usage, error=error, ended_by="relay_lost")
    return [*blocks.ends(), end]


class OrphanedStream(NamedTuple):
    """A stream ended without its producer, and the basis of its estimated cost."""

    ended: StreamEnded
    """Without its cost."""
    weight: int = 0
    """Size of the answer in the units of `token_estimate.weigh_event`."""
    reserved: Reservation | None = None
    """The reservation, if the events are unreadable: it becomes the cost."""


class Closing(NamedTuple):
    """An orphaned stream with its cost, and the settlement to store with its end."""

    ended: StreamEnded
    settlement: Settlement


Close = Callable[[OrphanedStream], Closing]
"""Prices an orphaned stream. Called in any thread."""

OnEnded = Callable[[StreamEnded], None]
"""Receives each orphaned stream that this process has ended."""


def ignore_ended(ended: StreamEnded) -> None:
    """Receive an orphaned stream that nobody observes."""


def close_free(orphan: OrphanedStream) -> Closing:
    """Price a stream at nothing: there are no accounts."""
    return Closing(orphan.ended, Settlement())


_CLOSE_FAILED = (ArithmeticError, LookupError, TypeError, ValueError, msgspec.MsgspecError)


def closing_of(orphan: OrphanedStream, close: Close) -> Closing:
    """Price a stream with `close`; if that fails, the price is unknown."""
    try:
        return close(orphan)
    except _CLOSE_FAILED:
        log.exception("cost of an orphaned stream is unknown", stream=orphan.ended.info.id)
        return Closing(orphan.ended, Settlement(nano_usd=None))


class _Facts:
    """Collects the facts of a stream in one pass over its events."""

    def __init__(self) -> None:
        self.count = 0
        self._target: StreamTarget | None = None
        self._weight = 0
        self._retries = 0

    def watch(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the events, collecting facts."""
        for event in events:
            self.count += 1
            if isinstance(event, StreamTarget):
                self._target = event
            elif isinstance(event, Notice):
                self._retries += event.code in ("retry", "fallback", "hedge")
            else:
                self._weight += weigh_event(event)
            yield event

    def orphaned(
        self, info: StreamInfo, end: StreamEnd, *, started_at: float, ended_at: float
    ) -> OrphanedStream:
        """Return the stream with this end."""
        target = self._target
        ended = StreamEnded(
            info=info.without_request(),
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
        return OrphanedStream(ended, self._weight)


def orphan_of(
    info: StreamInfo,
    events: Iterable[Event],
    end: StreamEnd,
    *,
    started_at: float,
    ended_at: float,
) -> OrphanedStream:
    """Return a stream with these events, as far as they can be read, and this end."""
    facts = _Facts()
    with contextlib.suppress(msgspec.MsgspecError):
        for _ in facts.watch(events):
            pass
    return facts.orphaned(info, end, started_at=started_at, ended_at=ended_at)


def end_orphan(
    info: StreamInfo,
    events: Iterable[Event],
    close: Close,
    *,
    started_at: float,
    ended_at: float,
) -> tuple[list[Event], Closing]:
    """Return the events that end an orphaned stream with these events, and its cost.

    Raises:
        ValueError, MsgspecError: the events cannot be read, or have an end.
    """
    facts = _Facts()
    *blocks, end = closing_events(facts.watch(events), status="interrupted", error=LOST)
    assert isinstance(end, StreamEnd)  # noqa: S101  (see `closing_events`)
    facts.count += len(blocks) + 1
    closing = closing_of(facts.orphaned(info, end, started_at=started_at, ended_at=ended_at), close)
    return [*blocks, closing.ended.end], closing
