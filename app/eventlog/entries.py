"""The streams in memory: running ones, and ended ones for a while.

Counts their memory, wakes their readers, and drops the oldest. All sync except the wait of a
reader and the timer that drops expired streams.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from ..events import (
    ContentFilter,
    Event,
    LogProbs,
    ProviderTool,
    ReasoningDelta,
    RefusalDelta,
    StreamEnd,
    TextDelta,
    ToolCallDelta,
    encode,
)
from .contract import Follower, LogSize, LogState, StreamTooLong, full
from .recovery import OrphanedStream, orphan_of
from .stream_info import StreamInfo
from .tail import Subscribers

# Measured on CPython 3.11, in bytes; a test holds them against the allocator.
STREAM_BYTES = 540
"""The memory of a stream without its events: id, info, entry, places in tables."""

ASCII_BYTES = 110
"""The memory of a delta besides one byte a character: the object, its text's header, its place
in the list."""

WIDE_BYTES = 135
"""The same for a text with other characters, which take `WIDE_FACTOR` each: two as text and three
as UTF-8, which CPython caches once the text was encoded."""

WIDE_FACTOR = 5

OTHER_BYTES = 116
"""The memory of any other event besides its size in JSON."""

UNTYPED_FACTOR = 7
"""How much larger lists and tables of small values are than their JSON."""

_UNTYPED = frozenset((LogProbs, ContentFilter, ProviderTool))


def size_of(events: Iterable[Event]) -> int:
    """Estimate the memory that events take, in bytes."""
    total = 0
    for event in events:
        if type(event) is TextDelta or type(event) is ReasoningDelta:
            text = event.text
        elif type(event) is ToolCallDelta:
            text = event.arguments
        elif type(event) is RefusalDelta:
            text = event.text
        else:
            size = len(encode(event))
            total += size * UNTYPED_FACTOR if type(event) in _UNTYPED else size + OTHER_BYTES
            continue
        plain, length = text.isascii(), len(text)
        total += ASCII_BYTES + length if plain else WIDE_BYTES + WIDE_FACTOR * length
    return total


class Entry(Subscribers):
    """One stream."""

    __slots__ = (
        "dropped_after",
        "ended_at",
        "events",
        "info",
        "info_size",
        "size",
        "started_at",
    )

    def __init__(self, started_at: float, *, info: StreamInfo) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.info = info
        self.info_size = info.size
        """Not a part of `size`, which the limit of a stream is for."""
        self.size = STREAM_BYTES
        self.started_at = started_at
        self.ended_at: float | None = None
        self.dropped_after = 0.0
        """When an ended stream expires, by the clock of the entries."""

    def state(self) -> LogState:
        return LogState(
            len(self.events),
            self.ended_at is not None,
            started_at=self.started_at,
            ended_at=self.ended_at,
            owner=self.info.owner,
        )

    async def read(self, after: int, *, timeout_s: float, limit: int) -> Sequence[Event]:
        """Do `EventLog.read`."""
        # The producer's own cursor may be ahead of what is stored and shown.
        while after >= (shown := len(self.events)) and self.ended_at is None and timeout_s > 0:
            await self.wait(timeout_s)
            if len(self.events) == shown:
                break
        return self.events[after : after + limit]

    def orphaned(
        self, *, end: StreamEnd | None = None, ended_at: float | None = None
    ) -> OrphanedStream:
        """Return the stream as orphaned, with its own end or the given one."""
        if end is None:
            end = cast(StreamEnd, self.events[-1])
        at = self.ended_at if ended_at is None else ended_at
        started_at = self.started_at
        return orphan_of(self.info, self.events, end, started_at=started_at, ended_at=at or 0)


class Entries:
    """All streams in memory.

    An ended stream is dropped after `keep_s` seconds of the clock `now`. When all streams together
    exceed `max_bytes`, the oldest ended ones are dropped; if that does not suffice, `create`
    refuses. `wall` returns unix seconds; `on_drop` receives every dropped stream.
    """

    def __init__(
        self,
        *,
        keep_s: float,
        max_bytes: int,
        max_stream_bytes: int,
        max_stream_events: int,
        now: Callable[[], float],
        wall: Callable[[], float],
        on_drop: Callable[[Entry], None],
    ) -> None:
        self._keep_s = keep_s
        self._max_bytes = max_bytes
        self._max_stream_bytes = max_stream_bytes
        self._max_stream_events = max_stream_events
        self._now = now
        self._wall = wall
        self._on_drop = on_drop
        self._running: dict[str, Entry] = {}
        self._ended: OrderedDict[str, Entry] = OrderedDict()
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._running) + len(self._ended)

    def measure_all(self) -> LogSize:
        """Return their number and size."""
        return LogSize(len(self), self._size)

    def close(self) -> None:
        """Stop the timer; the streams stay for their readers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def create(self, info: StreamInfo) -> Entry:
        """Add a new stream.

        Raises:
            ServiceError: `overloaded`, running streams take all the memory.
        """
        self._make_room()
        if self._size > self._max_bytes:
            raise full()
        entry = self._running[info.id] = Entry(self._wall(), info=info)
        self._size += entry.size + entry.info_size
        return entry

    def take(self, info: StreamInfo, events: Sequence[Event], *, started_at: float) -> Entry:
        """Add a running stream that another process began, with its events; see `create`."""
        entry = self.create(info)
        entry.started_at = started_at
        self.add(info.id, events, size=size_of(events))
        return entry

    def find(self, stream: str) -> Entry | None:
        """Return a stream; None if it is not in memory."""
        self.drop_expired()
        return self._running.get(stream) or self._ended.get(stream)

    def running(self) -> list[str]:
        """Return the ids of the running streams."""
        return list(self._running)

    def find_running(self, stream: str) -> Entry | None:
        """Return a running stream; None if it is not in memory."""
        return self._running.get(stream)

    def follow(self, stream: str, after: int, follower: Follower) -> bool:
        """Do `EventLog.follow`."""
        entry = self._running.get(stream)
        if entry is None or after != len(entry.events):
            return False
        entry.followers.append(follower)
        return True

    def unfollow(self, stream: str, follower: Follower) -> None:
        """Do `EventLog.unfollow`."""
        entry = self._running.get(stream) or self._ended.get(stream)
        if entry is not None:
            entry.unfollow(follower)

    def measure(self, stream: str, events: Sequence[Event]) -> int:
        """Return the size of events to be added to a running stream.

        Raises the errors of `EventLog.append` if they cannot be added.
        """
        entry = self._running.get(stream)
        if entry is None:
            raise ValueError(f"stream {stream} has ended; nothing can be added to it")
        size = size_of(events)
        if events and type(events[-1]) is StreamEnd:
            return size
        if len(entry.events) + len(events) > self._max_stream_events:
            raise StreamTooLong(f"{self._max_stream_events} events")
        if entry.size + size > self._max_stream_bytes:
            raise StreamTooLong(f"{self._max_stream_bytes} bytes")
        return size

    def add(
        self, stream: str, events: Sequence[Event], *, size: int, ended_at: float | None = None
    ) -> None:
        """Add measured events and wake the readers; `ended_at` is now unless it is given."""
        entry = self._running[stream]
        entry.events.extend(events)
        entry.size += size
        self._size += size
        if events and type(events[-1]) is StreamEnd:
            entry.ended_at = self._wall() if ended_at is None else ended_at
            entry.dropped_after = self._now() + self._keep_s
            self._ended[stream] = self._running.pop(stream)
        if entry.waiters or entry.followers:
            entry.notify(events)
        if self._size > self._max_bytes:
            self._make_room(spare=stream)
        if self._timer is None and self._ended:
            self._set_timer()

    def drop(self, stream: str) -> None:
        """Drop a stream; its readers wake up."""
        entry = self._running.pop(stream, None) or self._ended.pop(stream)
        self._size -= entry.size + entry.info_size
        if entry.waiters or entry.followers:
            entry.notify(())
        self._on_drop(entry)

    def drop_expired(self) -> None:
        """Drop the streams that have expired."""
        now = self._now()
        while self._ended:
            stream, entry = next(iter(self._ended.items()))
            if entry.dropped_after > now:
                return
            self.drop(stream)

    def _set_timer(self) -> None:
        """Drop expired streams, and come back when the next one expires."""
        self._timer = None
        self.drop_expired()
        if self._ended:
            due = next(iter(self._ended.values())).dropped_after - self._now()
            # A wall clock may have been set back.
            delay = min(due, self._keep_s)
            self._timer = asyncio.get_running_loop().call_later(delay, self._set_timer)

    def _make_room(self, spare: str | None = None) -> None:
        """Drop ended streams; `spare` only if it is too large by itself."""
        self.drop_expired()
        while self._size > self._max_bytes and self._ended:
            stream, entry = next(iter(self._ended.items()))
            if stream == spare and entry.size + entry.info_size <= self._max_bytes:
                return
            self.drop(stream)
