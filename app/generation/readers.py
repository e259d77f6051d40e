"""Registry of the readers in this process; it stops streams without readers.

A stream that is produced here may be stopped some time after its last reader left, unless the log
reports readers in other processes.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from ..errors import RelayError, ServiceError
from ..eventlog import EventLog, Follower, LogState, Look, read_all
from ..events import Event
from ..telemetry.activity import ReaderCounts
from ..telemetry.observer import ReaderJoined
from .parts import Parts

BATCH = 256
"""The maximum number of events per read of a reader that is behind."""

ASK_AGAIN_S = 5.0
"""Seconds until the log is queried again for readers elsewhere, after a failure."""


RETURN_S = 30.0
"""Seconds for the readers of a dead relay to come back: clients wait up to 15 between two tries."""


class Reader:
    """One reader of one stream; it counts as one until `leave`."""

    __slots__ = ("_log", "_on_leave", "_page", "_page_after", "drain", "found", "stream")

    def __init__(
        self,
        stream: str,
        event_log: EventLog,
        on_leave: Callable[[str, float | None], None],
        *,
        drain: Callable[[float], Awaitable[None]],
        found: LogState,
        page: Sequence[Event] = (),
        page_after: int = 0,
    ) -> None:
        self.stream = stream
        self.drain = drain
        """`Hub.drain_once`, for servers that report their shutdown only to open requests."""
        self.found = found
        """The state of the stream at its lookup for this reader."""
        self._page = page
        self._page_after = page_after
        """The cursor and the events of that lookup, for the first read."""
        self._log = event_log
        self._on_leave: Callable[[str, float | None], None] | None = on_leave

    async def read(self, after: int, *, timeout_s: float, limit: int = BATCH) -> Sequence[Event]:
        """Return events after the cursor; see `EventLog.read`."""
        page, self._page = self._page, ()
        if page and after == self._page_after:
            return page
        return await self._log.read(self.stream, after, timeout_s=timeout_s, limit=limit)

    def put_back(self, after: int, events: Sequence[Event]) -> None:
        """Return unused events after a cursor, for the next read."""
        self._page, self._page_after = events, after

    def follow(self, after: int, follower: Follower) -> bool:
        """Push appended events to a reader that has caught up; see `EventLog.follow`."""
        if not self._log.follow(self.stream, after, follower):
            return False
        self._page = ()
        return True

    def unfollow(self, follower: Follower) -> None:
        """Stop pushing to a follower. Unknown followers are ignored."""
        self._log.unfollow(self.stream, follower)

    async def read_all(self, *, ending: bool = True) -> Sequence[Event]:
        """Return all events of the lookup, and possibly later ones.

        With `ending` false a last page that is an `Ending` is left out.
        """
        first, self._page = self._page if self._page_after == 0 else (), ()
        last = self.found.last
        return await read_all(self._log, self.stream, ending=ending, first=first, last=last)

    def leave(self, *, linger_s: float | None = None) -> None:
        """Remove this reader; further calls do nothing.

        `linger_s` is how long the stream continues after its last reader, instead of the value at
        its start. It does not apply to streams that run to their end.
        """
        on_leave, self._on_leave = self._on_leave, None
        if on_leave is not None:
            on_leave(self.stream, linger_s)


class _Produced(msgspec.Struct, kw_only=True):
    """The counts, the linger time and the timer of a stream that is produced here."""

    counts: ReaderCounts
    linger_s: float | None
    stop: Callable[[], None]
    timer: asyncio.TimerHandle | None = None


class ReaderRegistry:
    """Counts the readers of each stream here, and stops streams without readers."""

    def __init__(
        self,
        parts: Parts,
        *,
        max_readers: int,
        drain: Callable[[float], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._log = parts.event_log
        self._peers = parts.peers
        self._admission = parts.admission
        self._observer = parts.observer
        self._max_readers = max_readers
        self._drain = drain
        self._spawn = spawn
        self._readers: dict[str, int] = {}
        self._guests: Counter[str] = Counter()
        """Readers with a share link, by stream."""
        self._produced: dict[str, _Produced] = {}

    def begin(
        self,
        stream: str,
        counts: ReaderCounts,
        *,
        linger_s: float | None,
        stop: Callable[[], None],
        returns: bool = False,
    ) -> None:
        """Register a stream as produced here: `stop` is called if it has no reader for `linger_s`.

        With None the stream runs to its end. The counts are kept current until `end`. `returns`:
        another relay began the stream, and its readers have to find this one.
        """
        counts.now = self._readers.get(stream, 0)
        self._produced[stream] = _Produced(counts=counts, linger_s=linger_s, stop=stop)
        if returns and linger_s is not None and not counts.now:
            self._linger(stream, linger_s, wait_s=max(linger_s, RETURN_S))

    def end(self, stream: str) -> None:
        """Unregister a stream that is no longer produced here; its readers stay."""
        self._cancel_timer(self._produced.pop(stream))

    @property
    def count(self) -> int:
        """The number of readers here."""
        return sum(self._readers.values())

    def some(self, most: int) -> dict[str, int]:
        """Return the numbers of readers here of some streams, wherever they are produced."""
        return dict(islice(self._readers.items(), most))

    def check(self, stream: str, address: str, *, guest: bool) -> None:
        """Refuse a reader above the limits.

        A `guest` reads by a share link: guests may be half of the readers, which leaves room for
        the owner.

        Raises:
            ServiceError: `overloaded`, the stream has too many; `rate_limited`, the client
                reads too many streams.
        """
        self._admission.check_readers(address)
        readers = self._readers.get(stream, 0)
        if readers >= self._max_readers:
            raise ServiceError(
                "overloaded",
                f"the stream has {readers} readers, which is the limit",
                retry_after_s=5,
            )
        if guest and self._guests[stream] >= (self._max_readers + 1) // 2:
            raise ServiceError(
                "overloaded",
                f"the stream has {self._guests[stream]} readers by share links, which is the limit "
                "(half of max_readers)",
                retry_after_s=5,
            )

    def join(
        self,
        found: Look,
        address: str,
        *,
        after: int = 0,
        counted: bool = True,
        guest: bool = False,
        reads: bool = True,
    ) -> Reader:
        """Add a reader to a stream in a looked-up state; it keeps a running stream alive.

        `after` is the cursor of the lookup. A reader that is not `counted` only counts for the
        limit of its address. One without `reads` only keeps the stream alive until it leaves, and
        is not reported to observers.
        """
        stream, before = found.stream, self._readers.get(found.stream, 0)
        self._admission.add_reader(address)
        if counted:
            self._readers[stream] = before + 1
            if reads:
                self._observer.reader_joined(ReaderJoined(stream, resumed=after > 0))
            if guest:
                self._guests[stream] += 1
            if (produced := self._produced.get(stream)) is not None:
                self._cancel_timer(produced)
                counts = produced.counts
                counts.readers += reads
                counts.resumes += after > 0
                counts.now = before + 1
            elif not before:
                self._peers.readers_here(stream)
        return Reader(
            stream,
            self._log,
            partial(self._leave, address, counted, guest),
            drain=self._drain,
            found=found.state,
            page=found.events,
            page_after=after,
        )

    def _leave(
        self, address: str, counted: bool, guest: bool, stream: str, linger_s: float | None
    ) -> None:
        """Remove one reader."""
        self._admission.remove_reader(address)
        if not counted:
            return
        if guest:
            self._guests[stream] -= 1
            if not self._guests[stream]:
                del self._guests[stream]
        left = self._readers[stream] = self._readers[stream] - 1
        produced = self._produced.get(stream)
        if produced is not None:
            produced.counts.now = left
        if left:
            return
        del self._readers[stream]
        self._peers.readers_gone(stream)
        if produced is not None and produced.linger_s is not None:
            self._linger(stream, produced.linger_s if linger_s is None else linger_s)

    def _linger(self, stream: str, linger_s: float, *, wait_s: float | None = None) -> None:
        """Schedule the check for readers of a stream, until a reader joins here."""
        self._produced[stream].timer = asyncio.get_running_loop().call_later(
            linger_s if wait_s is None else wait_s,
            lambda: self._spawn(self._stop_unattended(stream, linger_s)),
        )

    async def _stop_unattended(self, stream: str, linger_s: float) -> None:
        """Stop a stream without readers for its linger time, in any process."""
        try:
            left_s = linger_s + await self._peers.reader_lease_s(stream)
        except RelayError:
            left_s = min(linger_s, ASK_AGAIN_S)
        produced = self._produced.get(stream)
        if produced is None or stream in self._readers:
            return
        if left_s <= 0:
            produced.stop()
        else:
            self._linger(stream, linger_s, wait_s=left_s)

    @staticmethod
    def _cancel_timer(produced: _Produced) -> None:
        if produced.timer is not None:
            produced.timer.cancel()
            produced.timer = None
