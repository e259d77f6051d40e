"""The readers of each stream in this process, and the stop of streams without readers.

A stream that is produced here may be stopped some time after its last reader has left. Before
that the log is asked whether it has readers in other processes.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from ..errors import RelayError, ServiceError
from ..eventlog import EventLog, Follower, LogState, Look, read_all
from ..events import Event
from ..telemetry.observer import Readers
from .parts import Parts

BATCH = 256
"""How many events a reader that catches up is given at once."""

ASK_AGAIN_S = 5.0
"""Seconds until the log is asked again who reads a stream elsewhere, if it could not tell."""


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
        """`Hub.drain_once`, for a server that tells of its stop only those that it serves."""
        self.found = found
        """How far the stream was when it was looked up for this reader."""
        self._page = page
        self._page_after = page_after
        """What was read of it then, after this cursor: for the first read there."""
        self._log = event_log
        self._on_leave: Callable[[str, float | None], None] | None = on_leave

    async def read(self, after: int, *, timeout_s: float) -> Sequence[Event]:
        """Return events after the cursor; see `EventLog.read`."""
        page, self._page = self._page, ()
        if page and after == self._page_after:
            return page
        return await self._log.read(self.stream, after, timeout_s=timeout_s, limit=BATCH)

    def put_back(self, after: int, events: Sequence[Event]) -> None:
        """Have events after a cursor, which were only looked at, read once more."""
        self._page, self._page_after = events, after

    def follow(self, after: int, follower: Follower) -> bool:
        """Have a reader that has caught up told of what is appended; see `EventLog.follow`."""
        if not self._log.follow(self.stream, after, follower):
            return False
        self._page = ()
        return True

    def unfollow(self, follower: Follower) -> None:
        """Stop telling a follower of what is appended. Unknown followers are ignored."""
        self._log.unfollow(self.stream, follower)

    async def read_all(self, *, ending: bool = True) -> Sequence[Event]:
        """Return all events there were when the stream was looked up, and perhaps later ones.

        With `ending` false a last page that is an `Ending` is left out.
        """
        first, self._page = self._page if self._page_after == 0 else (), ()
        last = self.found.last
        return await read_all(self._log, self.stream, ending=ending, first=first, last=last)

    def leave(self, *, linger_s: float | None = None) -> None:
        """Remove this reader; further calls do nothing.

        `linger_s` is how long the stream goes on if this was its last reader, in place of
        what it was started with. A stream that is to run to its end does so all the same.
        """
        on_leave, self._on_leave = self._on_leave, None
        if on_leave is not None:
            on_leave(self.stream, linger_s)


class _Lingering:
    """A stream that is produced here: how long it goes on without a reader, and its timer."""

    __slots__ = ("linger_s", "readers", "resumes", "stop", "timer")

    def __init__(self, linger_s: float | None, stop: Callable[[], None]) -> None:
        self.linger_s = linger_s
        self.stop = stop
        self.timer: asyncio.TimerHandle | None = None
        self.readers = self.resumes = 0


class ReaderCounts(NamedTuple):
    """Numbers of readers of a stream in this process."""

    readers: int
    resumes: int
    """Those that came with a cursor."""
    now: int = 0
    """Readers that it has here at present."""


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
        """Those of them that read by a share link."""
        self._produced: dict[str, _Lingering] = {}

    def begin(self, stream: str, *, linger_s: float | None, stop: Callable[[], None]) -> None:
        """Count a stream as produced here: `stop` is called if it has no reader for `linger_s`.

        These are seconds; with None the stream runs to its end.
        """
        self._produced[stream] = _Lingering(linger_s, stop)

    def end(self, stream: str) -> None:
        """Forget a stream that is no longer produced here; its readers stay."""
        self._cancel_timer(self._produced.pop(stream))

    def counts_of(self, stream: str) -> ReaderCounts:
        """Return the reader counts of a stream that is produced here; zeros for any other."""
        produced = self._produced.get(stream)
        if produced is None:
            return ReaderCounts(0, 0)
        return ReaderCounts(produced.readers, produced.resumes, self._readers.get(stream, 0))

    @property
    def count(self) -> int:
        """How many readers there are here."""
        return sum(self._readers.values())

    def some(self, most: int) -> dict[str, int]:
        """Return how many readers here some streams have, wherever these are produced."""
        return dict(islice(self._readers.items(), most))

    def check(self, stream: str, address: str, *, guest: bool) -> None:
        """Refuse a reader that would be one too many.

        A `guest` reads by a share link: they have half of the places, so that the owner has one.

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
        """Add a reader to a stream as it was found, which keeps a running one alive.

        `after` is the cursor that it was looked up with. One that is not `counted` has its
        address's share, and else leaves the stream as if nobody had come. One that never `reads`
        only keeps the stream alive until it leaves: observers are not told of it.
        """
        if not counted:
            return self._look_on(found, address, after=after)
        stream, state = found.stream, found.state
        before = self._readers.get(stream, 0)
        self._readers[stream] = before + 1
        self._admission.add_reader(address)
        if reads:
            joined = Readers(
                stream=stream, owner=state.owner, readers=before + 1, resumed=after > 0
            )
            self._observer.reader_joined(joined)
        if guest:
            self._guests[stream] += 1
        leave = partial(self._leave, address, state.owner if reads else None, guest)
        if (produced := self._produced.get(stream)) is not None:
            self._cancel_timer(produced)
            produced.readers += reads
            produced.resumes += after > 0
        elif not before:
            self._peers.readers_here(stream)
        return Reader(
            stream,
            self._log,
            leave,
            drain=self._drain,
            found=state,
            page=found.events,
            page_after=after,
        )

    def _look_on(self, found: Look, address: str, *, after: int) -> Reader:
        self._admission.add_reader(address)
        return Reader(
            found.stream,
            self._log,
            lambda stream, linger_s: self._admission.remove_reader(address),
            drain=self._drain,
            found=found.state,
            page=found.events,
            page_after=after,
        )

    def _leave(
        self, address: str, owner: str | None, guest: bool, stream: str, linger_s: float | None
    ) -> None:
        """Take one reader away; without an `owner` it is one that never read."""
        self._admission.remove_reader(address)
        if guest:
            self._guests[stream] -= 1
            if not self._guests[stream]:
                del self._guests[stream]
        self._readers[stream] -= 1
        if owner is not None:
            self._observer.reader_left(
                Readers(stream=stream, owner=owner, readers=self._readers[stream])
            )
        if self._readers[stream]:
            return
        del self._readers[stream]
        self._peers.readers_gone(stream)
        produced = self._produced.get(stream)
        if produced is not None and produced.linger_s is not None:
            self._linger(stream, produced.linger_s if linger_s is None else linger_s)

    def _linger(self, stream: str, linger_s: float, *, wait_s: float | None = None) -> None:
        """Look after a time whether anybody reads the stream, unless somebody comes here."""
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
    def _cancel_timer(produced: _Lingering) -> None:
        if produced.timer is not None:
            produced.timer.cancel()
            produced.timer = None
