"""The last events of streams that other processes produce, for the readers here."""

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
        """Since when Redis lacks the stream."""
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

    def waits(self, after: int) -> bool:
        """Return whether a reader with this cursor has to wait."""
        return after >= self.last and not self.ended

    async def read(self, after: int, *, timeout_s: float, limit: int) -> Sequence[Event]:
        """Do `EventLog.read`; empty if the cursor is no longer covered."""
        if self.waits(after) and timeout_s > 0:
            await self._wait(timeout_s)
        if not self.covers(after):
            return ()
        start = len(self._events) - (self.last - after)
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

    async def _wait(self, timeout_s: float) -> None:
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


class TailRegistry:
    """The tails of a process."""

    def __init__(self) -> None:
        self._tails: dict[str, Tail] = {}

    def find(self, stream: str) -> Tail | None:
        return self._tails.get(stream)

    def follow(self, stream: str, after: int, follower: Follower) -> bool:
        """Do `EventLog.follow` for a stream with a tail."""
        tail = self._tails.get(stream)
        if tail is None or tail.ended or after != tail.last:
            return False
        tail.followers.append(follower)
        return True

    def unfollow(self, stream: str, follower: Follower) -> None:
        """Remove a follower. Unknown followers are ignored."""
        tail = self._tails.get(stream)
        if tail is not None and follower in tail.followers:
            tail.followers.remove(follower)

    def stop(self, stream: str) -> None:
        """Close a tail."""
        tail = self._tails.pop(stream, None)
        if tail is not None:
            tail.close()

    def stop_all(self) -> None:
        """Close all tails."""
        for stream in list(self._tails):
            self.stop(stream)
