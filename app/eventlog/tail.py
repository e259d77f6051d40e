"""The last events of a stream that another process produces, for the readers here."""

import asyncio
from collections.abc import Sequence

from ..events import Event, StreamEnd
from .contract import Follower

RETAINED = 1000
"""A tail drops its oldest events at twice this many, and retains this many."""


class Tail:
    """The last events of a stream that runs elsewhere, up to `last`."""

    def __init__(self, last: int, *, now: float) -> None:
        self.last = last
        self.ended = False
        self.over = False
        """Whether it is closed: readers read pages instead."""
        self.missing_since: float | None = None
        self.behind_since: float | None = None
        """Since when its stream is missing, and since when it lags behind it."""
        self.used_at = now
        self.followers: list[Follower] = []
        self._events: list[Event] = []
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def idle(self) -> bool:
        return not (self.followers or self._waiters)

    def covers(self, after: int) -> bool:
        """Return whether a reader with this cursor can read here."""
        return after >= self.last - len(self._events)

    def after(self, cursor: int, limit: int) -> Sequence[Event]:
        start = len(self._events) - (self.last - cursor)
        return self._events[start : start + limit]

    def add(self, first: int, events: Sequence[Event]) -> None:
        """Add events from this number on; known ones are skipped."""
        events = events[self.last + 1 - first :]
        if not events:
            return
        self._events += events
        self.last += len(events)
        if len(self._events) > 2 * RETAINED:
            del self._events[:-RETAINED]
        self.ended = isinstance(events[-1], StreamEnd)
        self._notify(events)

    def close(self) -> None:
        """Close the tail: its readers read pages instead."""
        self.over = True
        self._notify(())

    async def wait(self, timeout_s: float) -> None:
        """Wait for more, or for the end of the tail."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            pass
        finally:
            self._waiters.discard(waiter)

    def _notify(self, events: Sequence[Event]) -> None:
        for follower in (*self.followers,):
            follower(events)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
