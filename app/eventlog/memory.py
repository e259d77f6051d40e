"""The log in this process's memory: the default, gone with the process."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence

from app.errors import RequestError, ServiceError
from app.eventlog import LogState
from app.events import Event, StreamEnd, encode

REMEMBERED_IDS = 10_000
"""How many removed streams are still told from unknown ones (about 150 bytes each)."""

EVENT_OVERHEAD_BYTES = 140
"""What an event costs beside its own text: the object, its strings' headers, the list slot."""


class _Entry:
    __slots__ = ("ended_at", "events", "size", "waiters")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.size = 0
        self.waiters: set[asyncio.Future[None]] = set()
        self.ended_at: float | None = None

    def wake(self) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()


class MemoryLog:
    """An `EventLog` in memory.

    Streams that have ended are kept for `retention_s` seconds. When all streams together
    exceed `max_bytes`, the ended ones go first, oldest first; then `create` refuses.
    `now` is a monotonic clock in seconds.
    """

    def __init__(self, *, retention_s: float, max_bytes: int, now: Callable[[], float]) -> None:
        self._retention_s = retention_s
        self._max_bytes = max_bytes
        self._now = now
        self._running: dict[str, _Entry] = {}
        self._ended: OrderedDict[str, _Entry] = OrderedDict()
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._size = 0

    async def create(self, stream: str) -> None:
        self._evict(self._max_bytes)
        if self._size > self._max_bytes:
            raise ServiceError(
                "overloaded",
                "the event log is full of running streams; try again shortly",
                retry_after_s=5,
            )
        self._running[stream] = _Entry()

    async def append(self, stream: str, events: Sequence[Event]) -> None:
        entry = self._running.get(stream)
        if entry is None:
            self._find(stream)
            raise ValueError(f"stream {stream} has ended; nothing can be added to it")
        entry.events.extend(events)
        size = sum(len(encode(event)) + EVENT_OVERHEAD_BYTES for event in events)
        entry.size += size
        self._size += size
        if events and isinstance(events[-1], StreamEnd):
            entry.ended_at = self._now()
            self._ended[stream] = self._running.pop(stream)
        entry.wake()

    async def read(self, stream: str, after: int, *, timeout_s: float) -> Sequence[Event]:
        entry = self._find(stream)
        if after >= len(entry.events) and entry.ended_at is None and timeout_s > 0:
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            entry.waiters.add(waiter)
            timer = loop.call_later(timeout_s, _wake, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                entry.waiters.discard(waiter)
        return entry.events[after:]

    async def state(self, stream: str) -> LogState:
        entry = self._find(stream)
        return LogState(len(entry.events), entry.ended_at is not None)

    async def delete(self, stream: str) -> None:
        entry = self._find(stream)
        self._running.pop(stream, None)
        self._ended.pop(stream, None)
        self._forget(stream, entry)

    def _find(self, stream: str) -> _Entry:
        self._evict()
        entry = self._running.get(stream) or self._ended.get(stream)
        if entry is not None:
            return entry
        if stream in self._gone:
            raise RequestError(
                "stream_expired",
                f"stream {stream} is gone; ended streams are kept for {self._retention_s:g} s",
            )
        raise RequestError("not_found", f"there is no stream {stream!r}")

    def _evict(self, max_bytes: float = math.inf) -> None:
        """Remove what has been kept for its time, then the oldest until so much is left."""
        expired = self._now() - self._retention_s
        while self._ended:
            stream, entry = next(iter(self._ended.items()))
            assert entry.ended_at is not None  # noqa: S101  (it is among the ended)
            if entry.ended_at > expired and self._size <= max_bytes:
                return
            del self._ended[stream]
            self._forget(stream, entry)

    def _forget(self, stream: str, entry: _Entry) -> None:
        self._size -= entry.size
        entry.wake()
        self._gone[stream] = None
        while len(self._gone) > REMEMBERED_IDS:
            self._gone.popitem(last=False)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
