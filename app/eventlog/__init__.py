"""The append-only log of each stream, read by cursor.

A cursor is the number of the last event its reader has seen, 0 at the start. Live reading
and reading again are the same call. A log never changes behind a cursor: events are only
added, and nothing is added after a `stream.end`.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from app.events import Event


class LogState(NamedTuple):
    last: int
    """The number of the last event; 0 for an empty log."""
    ended: bool
    """Whether the last event is the `stream.end`."""


class EventLog(Protocol):
    """Where streams are kept.

    Every call that names a stream raises `RequestError`: `not_found` where there never was
    such a stream, `stream_expired` where it has been removed.
    """

    async def create(self, stream: str) -> None:
        """Open an empty log.

        Raises:
            ServiceError: `overloaded`, all memory is taken by streams that still run.
        """

    async def append(self, stream: str, events: Sequence[Event]) -> None:
        """Add events at the end and wake the readers."""

    async def read(self, stream: str, after: int, *, timeout_s: float) -> Sequence[Event]:
        """Give the events after the cursor, all there are.

        Waits up to `timeout_s` seconds for the first one. Empty when none came, and at once
        when the stream has ended and the cursor is at its end.
        """

    async def state(self, stream: str) -> LogState:
        """Tell how far the log goes."""

    async def delete(self, stream: str) -> None:
        """Forget the stream."""
