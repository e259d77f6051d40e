"""The readers that a stream wakes, and the last events of streams that other processes produce."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from ..events import Event, StreamEnd
from .contract import Follower

T = TypeVar("T")


class Subscribers:
    """What a stream in memory wakes."""

    __slots__ = ("followers", "waiters")

    def __init__(self) -> None:
        self.followers: list[Follower] = []
        self.waiters: list[asyncio.Future[None]] = []

    @property
    def idle(self) -> bool:
        """Whether there are none."""
        return not (self.followers or self.waiters)

    def unfollow(self, follower: Follower) -> None:
        """Remove a follower. Unknown followers are ignored."""
        if follower in self.followers:
            self.followers.remove(follower)

    async def wait(self, timeout_s: float) -> None:
        """Wait for the next `notify`, at most for the timeout."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self.waiters.append(waiter)
        timer = loop.call_later(timeout_s, resolve, waiter, None)
        try:
            await waiter
        finally:
            timer.cancel()
            if waiter in self.waiters:
                self.waiters.remove(waiter)

    def notify(self, events: Sequence[Event]) -> None:
        """Call the followers and wake the waiting readers."""
        for follower in (*self.followers,):
            follower(events)
        for waiter in self.waiters:
            resolve(waiter, None)
        self.waiters.clear()


def resolve(waiter: "asyncio.Future[T]", result: T, error: BaseException | None = None) -> None:
    """Wake who waits, with the result or the error, unless it has left."""
    if waiter.done():
        return
    if error is None:
        waiter.set_result(result)
    else:
        waiter.set_exception(error)


RETAINED = 1000
"""A tail drops its oldest events at twice this many, and retains this many."""


class Tail(Subscribers):
    """The last events of a stream that runs elsewhere, up to `last`."""

    def __init__(self, last: int, *, now: float) -> None:
        super().__init__()
        self.last = last
        self.ended = False
        self.over = False
        """Whether it is closed: readers read pages instead."""
        self.missing_since: float | None = None
        """Since when Redis lacks the stream."""
        self.used_at = now
        self._events: list[Event] = []

    def covers(self, after: int) -> bool:
        """Return whether a reader with this cursor can read here."""
        return after >= self.last - len(self._events)

    def waits(self, after: int) -> bool:
        """Return whether a reader with this cursor has to wait."""
        return after >= self.last and not self.ended

    async def read(self, after: int, *, timeout_s: float, limit: int) -> Sequence[Event]:
        """Do `EventLog.read`; empty if the cursor is no longer covered."""
        while self.waits(after) and timeout_s > 0:  # a cursor may be ahead of what has come
            shown = self.last
            await self.wait(timeout_s)
            if self.last == shown:
                break
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
        self.ended = type(events[-1]) is StreamEnd
        self.notify(events)

    def close(self) -> None:
        """Close the tail: its readers read pages instead."""
        self.over = True
        self.notify(())


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
        tail = self._tails.get(stream)
        if tail is not None:
            tail.unfollow(follower)

    def stop(self, stream: str) -> None:
        """Close a tail."""
        tail = self._tails.pop(stream, None)
        if tail is not None:
            tail.close()

    def stop_all(self) -> None:
        """Close all tails."""
        for stream in list(self._tails):
            self.stop(stream)
