"""Watches of an owner's streams: their starts, ends and events, from any process, by a cursor.

A watch reads `EventLog.list_streams`. One `OwnerFeed` an owner and process polls it, while there
are watchers: at once after starts and ends of this process, and after those of others that one
`EventLog.changed_owners` for all feeds finds. Each watcher takes the feed's changes at its own
pace. With `events` it also reads the streams, as one of their readers.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from ..errors import RelayError, RequestError, ServiceError, shutting_down
from ..eventlog import EventLog
from ..eventlog.contract import cursor_after
from ..eventlog.listing import ListedStream, ListPosition
from ..eventlog.stream_ended import StreamEnded
from ..eventlog.stream_info import StreamInfo
from ..events import Event, StreamEnd
from ..telemetry.observer import Observer
from .parts import Parts
from .readers import Reader
from .shutdown import Shutdown

POLL_S = 0.5
"""The time between two looks for streams of other processes."""

PAUSE_S = 0.01
"""The least time between two polls: a burst of starts is one."""

SWEEP_S = 5.0
"""How often all running streams of an owner are read, to find those that were removed."""

REST_S = 60.0
"""How often an owner without running streams is polled, whatever the log says."""

PAGES: Final = (10, 100)
"""The limits of the first page of a poll, which nearly always suffices, and of the others."""

MAX_CHANGES = 10_000
"""The most entries that a poll reads, and the changes that a feed keeps for its watchers."""

MAX_READ = 16
"""The streams whose events one watch reads at once."""

MAX_RUNNING: Final = 1000
"""The most streams that a `WatchReady` names."""

AGAIN_S = 1.0
"""When a stream is tried again that has too many readers now."""


class StreamRemoved(msgspec.Struct, tag_field="type", tag="stream.removed"):
    """A stream was deleted, or has expired while its watcher was away."""

    stream: str


class EventsLost(msgspec.Struct, tag_field="type", tag="events.lost"):
    """Events that the watcher has seen are lost: read the stream from its beginning."""

    stream: str


class WatchReady(msgspec.Struct, tag_field="type", tag="watch.ready", omit_defaults=True):
    """The watcher is up to date."""

    running: list[str] | None = None
    """All streams that run; None if they are too many."""
    complete: bool = True
    """False if more streams have ended meanwhile than a watch tells."""


class Output(NamedTuple):
    """Events of a stream, and the number of the one before them."""

    stream: str
    after: int
    events: Sequence[Event]


Change = ListedStream | StreamRemoved
"""A stream that runs or has ended, by its position, or is gone."""

Item = Change | WatchReady | Output | EventsLost

OpenReader = Callable[[str, int], Awaitable[Reader]]
"""Adds a reader to a stream, after an event."""

_PLACE = r"(\d{1,20}(?:\.\d{1,20})?)"
_CURSOR = re.compile(rf"r{_PLACE}e{_PLACE}((?:~[\w-]{{1,64}}\.\d{{1,20}}){{0,32}})", re.ASCII)


class WatchCursor(msgspec.Struct):
    """What a watch was told: the starts and ends up to two places, and events of some streams."""

    running: float = 0.0
    ended: float = 0.0
    read: dict[str, int] = {}
    """By stream the number of its last event, until its end is told."""

    def __str__(self) -> str:
        read = "".join(f"~{stream}.{number}" for stream, number in self.read.items())
        return f"r{self.running!r}e{self.ended!r}{read}"

    def note(self, item: Item) -> None:
        """Advance over an item that is told."""
        if isinstance(item, WatchReady):
            return
        number = self.read.pop(item.stream, 0)
        if isinstance(item, Output):  # it becomes the last
            self.read[item.stream] = item.after + len(item.events)
        elif isinstance(item, ListedStream) and item.position.ended:
            self.ended = max(self.ended, item.position.at)
        elif isinstance(item, ListedStream):
            self.running = max(self.running, item.position.at)
            if number:
                self.read[item.stream] = number


def parse_cursor(text: str) -> WatchCursor | None:
    """Read what `str` has made of a cursor; None for anything else."""
    if (match := _CURSOR.fullmatch(text)) is None:
        return None
    read = (one.rpartition(".") for one in match[3].split("~")[1:])
    numbers = {stream: int(number) for stream, _, number in read}
    return WatchCursor(float(match[1]), float(match[2]), numbers)


class OwnerFeed:
    """The changes of one owner's streams, as this process learns of them."""

    def __init__(self, owner: str, event_log: EventLog) -> None:
        self._owner = owner
        self._log = event_log
        self.running: dict[str, ListedStream] = {}
        self.at = WatchCursor()
        self.watchers: set[Watcher] = set()
        self.users = 0
        """Watchers, and those that are about to be."""
        self._changes: list[Change] = []
        self.count = 0
        """How many changes there were."""
        self._swept_at: float | None = None
        self._polling = asyncio.Lock()
        self._changed = asyncio.Event()
        self.woken = asyncio.Event()
        self.first_poll = asyncio.create_task(self._poll())
        self.task = asyncio.create_task(self._keep())

    async def catch_up(self, cursor: WatchCursor | None) -> None:
        """Poll, if it is the first time, or a client has come from a process that knew more."""
        await asyncio.shield(self.first_poll)
        if cursor is not None and (
            cursor.running > self.at.running
            or cursor.ended > self.at.ended
            or not cursor.read.keys() <= self.running.keys()
        ):
            await self._poll()

    async def changes(self, after: int) -> Sequence[Change]:
        """Return the changes after the first so many, once there are some.

        Raises:
            ServiceError: they are no longer kept.
        """
        while self.count == after:
            await self._changed.wait()
        if self.count - after > len(self._changes):
            raise ServiceError("overloaded", "the watch is too far behind; connect again")
        return self._changes[after - self.count :]

    async def ended(self, after: float, until: float = float("inf")) -> list[ListedStream]:
        """Return the streams that ended between two places, the first one first."""
        return [one for one in await self._read(after, ended=True) if one.position.at <= until]

    async def _keep(self) -> None:
        await asyncio.wait({self.first_poll})
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SWEEP_S if self.running else REST_S):
                    await self.woken.wait()
            self.woken.clear()
            pause_s = PAUSE_S
            try:
                await self._poll()
            except RelayError:  # the next one finds what this one has not
                self.woken.set()
                pause_s = POLL_S
            await asyncio.sleep(pause_s)

    async def _poll(self) -> None:
        async with self._polling:
            now, swept_at = asyncio.get_running_loop().time(), self._swept_at
            first = swept_at is None
            whole = swept_at is None or now >= swept_at + SWEEP_S
            if first and (newest := await self._page(ListPosition(ended=True), 1)):
                self.at.ended = newest[0].position.at
            # In this order, so that one that ends meanwhile is in one of them.
            running = await self._read(0.0 if whole else self.at.running)
            ended = [] if first else await self.ended(self.at.ended)
            if whole:
                self._swept_at = now
            changes: list[Change] = [one for one in running if one.stream not in self.running]
            changes += ended
            if whole:
                there = {one.stream for one in (*running, *ended)}
                changes += [StreamRemoved(one) for one in self.running if one not in there]
            for change in changes:
                self.at.note(change)
                self.running.pop(change.stream, None)
                if isinstance(change, ListedStream) and not change.position.ended:
                    self.running[change.stream] = change
            if changes and not first:
                self._changes = [*self._changes[-MAX_CHANGES:], *changes]
                self.count += len(changes)
                self._changed.set()
                self._changed = asyncio.Event()

    async def _read(self, down_to: float, *, ended: bool = False) -> list[ListedStream]:
        """Return the entries of a part after a place, the first one first."""
        found: list[ListedStream] = []
        after, limit = ListPosition(ended=ended), PAGES[0]
        while len(found) < MAX_CHANGES:
            page = await self._page(after, limit)
            new = [one for one in page if one.position.at > down_to]
            found += new
            if len(page) < limit or len(new) < len(page):
                break
            after, limit = page[-1].position, PAGES[1]
        return found[::-1]

    async def _page(self, after: ListPosition, limit: int) -> Sequence[ListedStream]:
        return await self._log.list_streams(self._owner, after, limit=limit)


class Watcher:
    """One watch. `next` returns what it is told, `cursor` is behind that."""

    def __init__(
        self,
        feed: OwnerFeed,
        cursor: WatchCursor | None,
        open_reader: OpenReader,
        *,
        events: bool,
        metadata: tuple[str, str] | None,
        on_leave: Callable[["Watcher"], None],
    ) -> None:
        self._feed = feed
        self._open_reader = open_reader
        self._events = events
        self._metadata = metadata
        self._on_leave: Callable[[Watcher], None] | None = on_leave
        self._count = feed.count
        self._running = [one for one in feed.running.values() if self._matches(one)]
        self._at = feed.at.running, feed.at.ended
        self.cursor = cursor or WatchCursor(0.0, feed.at.ended)
        self._queue: asyncio.Queue[Item | None] = asyncio.Queue(maxsize=1)
        self._places = asyncio.Semaphore(MAX_READ)
        self._reading: set[str] = set()
        """Those that have a place, until their ends are told: so cursors stay short."""
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._task = asyncio.create_task(self._tell_all())

    async def next(self) -> Item | None:
        """Return the next item; None if the watch is over, and the client has to come back."""
        item = await self._queue.get()
        if isinstance(item, WatchReady):  # a cursor of another log may be beyond it
            self.cursor.running, self.cursor.ended = self._at
        if item is not None:
            self.cursor.note(item)
        return item

    def close(self) -> None:
        """End the watch: an item that waits is left to the next one."""
        self._stop()
        if self._queue.full():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    def leave(self) -> None:
        """Remove this watcher; further calls do nothing."""
        on_leave, self._on_leave = self._on_leave, None
        if on_leave is not None:
            self._stop()
            on_leave(self)

    def _stop(self) -> None:
        for task in (self._task, *self._readers.values()):
            task.cancel()

    def _matches(self, listed: ListedStream) -> bool:
        wanted = self._metadata
        return wanted is None or listed.metadata.get(wanted[0]) == wanted[1]

    async def _tell_all(self) -> None:
        try:
            await self._tell_missed()
            while True:
                for change in await self._feed.changes(self._count):
                    self._count += 1
                    await self._tell(change)
        except ServiceError:
            await self._queue.put(None)

    async def _tell_missed(self) -> None:
        """Tell what happened since the cursor, up to where the feed was."""
        after, known = self.cursor.running, set(self.cursor.read)
        missed: list[ListedStream] = []
        if self.cursor.ended < self._at[1]:
            missed = await self._feed.ended(self.cursor.ended, self._at[1])
        running = [one.stream for one in self._running]
        for one in self._running:
            await self._tell(one, known=one.position.at <= after)
        for one in missed:
            await self._tell(one)
        for stream in known.difference(running, (one.stream for one in missed)):
            await self._queue.put(StreamRemoved(stream))
        named = running if len(running) <= MAX_RUNNING else None
        await self._queue.put(WatchReady(named, complete=len(missed) < MAX_CHANGES))

    async def _tell(self, change: Change, *, known: bool = False) -> None:
        """Tell a change, unless it is known, and read the stream: to its end before its end."""
        stream, ended = change.stream, isinstance(change, StreamRemoved)
        if isinstance(change, ListedStream):
            ended = change.position.ended
            if not self._matches(change):
                return
            if ended and self._events:
                if stream in self._reading:
                    await asyncio.wait({self._readers[stream]})
                else:  # it waits for a place, or began and ended between two polls
                    self._end(stream)
                    await self._read(stream)
        if ended:
            self._end(stream)
        if not known:
            await self._queue.put(change)
        if self._events and not ended:
            self._readers[stream] = asyncio.create_task(self._read_in_turn(stream))

    def _end(self, stream: str) -> None:
        if (task := self._readers.pop(stream, None)) is not None:
            task.cancel()
        if stream in self._reading:
            self._reading.remove(stream)
            self._places.release()

    async def _read_in_turn(self, stream: str) -> None:
        await self._places.acquire()
        self._reading.add(stream)
        await self._read(stream)

    async def _read(self, stream: str) -> None:
        """Tell the events of a stream, from the cursor to its end."""
        while True:
            try:
                await self._read_on(stream, self.cursor.read.get(stream, 0))
                return
            except RequestError as error:
                if error.code == "conflict":
                    await self._queue.put(EventsLost(stream))
                return  # of one that is gone the feed tells
            except ServiceError:
                await asyncio.sleep(AGAIN_S)

    async def _read_on(self, stream: str, after: int) -> None:
        reader = await self._open_reader(stream, after)
        state = reader.found
        try:
            while not (state.ended and after >= state.last):
                events = await reader.read(after, timeout_s=SWEEP_S)
                end = cursor_after(after, events)
                if events:
                    await self._queue.put(Output(stream, end - len(events), events))
                    if isinstance(events[-1], StreamEnd):
                        return
                after = end
        finally:
            reader.leave()


class Watchers(Observer):
    """The watchers of this process."""

    def __init__(self, parts: Parts, shutdown: Shutdown, *, max_watchers: int) -> None:
        self._parts = parts
        self._shutdown = shutdown
        self._max_watchers = max_watchers
        self._feeds: dict[str, OwnerFeed] = {}
        self._observes = False
        self._looking: asyncio.Task[None] | None = None

    def started(self, info: StreamInfo) -> None:
        if (feed := self._feeds.get(info.owner)) is not None:
            feed.woken.set()

    def ended(self, ended: StreamEnded) -> None:
        self.started(ended.info)

    async def join(
        self,
        owner: str,
        cursor: WatchCursor | None,
        open_reader: OpenReader,
        *,
        address: str,
        events: bool,
        metadata: tuple[str, str] | None,
    ) -> Watcher:
        """Add a watcher of an owner's streams.

        Raises:
            ServiceError: `overloaded`, the owner has too many, or shutting down; `rate_limited`,
                its client reads too many streams; `internal`, the log cannot be read.
        """
        if self._shutdown.draining:
            raise shutting_down()
        admission = self._parts.admission
        admission.check_readers(address)
        if not self._observes:  # a process without watchers pays nothing
            self._observes = True
            self._parts.observer.add(self)
        if (feed := self._feeds.get(owner)) is None:
            feed = self._feeds[owner] = OwnerFeed(owner, self._parts.event_log)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        feed.users += 1
        try:
            await feed.catch_up(cursor)
            if (watchers := len(feed.watchers)) >= self._max_watchers:
                message = f"the streams have {watchers} watchers, which is the limit (max_readers)"
                raise ServiceError("overloaded", message, retry_after_s=5)
        except BaseException:
            self._release(owner, feed)
            raise
        admission.add_reader(address)

        def leave(watcher: Watcher) -> None:
            admission.remove_reader(address)
            feed.watchers.remove(watcher)
            self._release(owner, feed)

        watcher = Watcher(
            feed, cursor, open_reader, events=events, metadata=metadata, on_leave=leave
        )
        feed.watchers.add(watcher)
        return watcher

    def close(self) -> None:
        """End all watches: their clients go to another process."""
        for feed in self._feeds.values():
            for watcher in feed.watchers:
                watcher.close()

    def _release(self, owner: str, feed: OwnerFeed) -> None:
        feed.users -= 1
        if not feed.users:
            del self._feeds[owner]
            feed.first_poll.cancel()
            feed.task.cancel()
        if not self._feeds and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look(self) -> None:
        """Wake the feeds of owners whose streams other processes have started or ended."""
        mark = 0.0
        while True:
            with contextlib.suppress(RelayError):  # the next one finds what this one has not
                mark, owners = await self._parts.event_log.changed_owners(mark)
                for owner in self._feeds.keys() if owners is None else owners:
                    if (feed := self._feeds.get(owner)) is not None:
                        feed.woken.set()
            await asyncio.sleep(POLL_S)
