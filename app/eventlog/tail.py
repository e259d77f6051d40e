"""The last events of streams that other processes produce, for the readers here."""

from collections.abc import Sequence

from ..events import Event, StreamEnd
from .contract import Follower
from .subscribers import Subscribers

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
        if self.waits(after) and timeout_s > 0:
            await self.wait(timeout_s)
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
