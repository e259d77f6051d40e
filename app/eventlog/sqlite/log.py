"""The log in a SQLite file: ended streams survive a restart, running ones are ended by it.

Several processes of one machine may share the file. Each has the streams that it produces in
memory, and ended ones for a moment: reading those costs what it costs there. Streams of other
processes are read from the file; when a process dies, another ends its streams.

An event is shown only after its commit, so that a kill takes back nothing that a reader has seen
(a loss of power may take the last moments, but not that an idempotency key has begun a stream).
"""

import asyncio
import contextlib
import math
import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from ...errors import RelayError, RequestError, ServiceError, shutting_down
from ...events import Event, Stopper
from ...ledger.accounts import AccountState, LimitReached, Settlement
from ..contract import (
    PAGE,
    ChatBusy,
    Claim,
    EventLog,
    Follower,
    LogSize,
    Look,
    Placed,
    expired,
    full,
    may_see,
    unknown,
)
from ..entries import Entries, Entry
from ..listing import ListedStream, ListPosition
from ..peers import Channel, OnStop, channel_full, check_message, ignore_stop
from ..recovery import (
    Close,
    OnEnded,
    close_free,
    ignore_ended,
)
from ..stream_ended import StreamEnded
from ..stream_info import Scoped, StreamInfo, pack_info
from ..supervision import Supervisor, wait_for
from ..tail import Tail
from ..takeover import Heir
from ..waiting_rows import RECORDS
from .database import (
    NOBODY,
    Database,
    EndedOrphans,
    Gone,
    Row,
    Tailed,
    WatchPosition,
    prepare,
)
from .feed import Feed
from .local_stream import LocalStream
from .owner import Owner, explain
from .processes import Note
from .writer import Writer

KEEP_S = 10
"""How long an ended stream stays in memory, for readers near its end."""

MEMORY_BYTES = 512 * 2**20
"""The limit of all streams in memory."""

SWEEP_S = 30
"""How often expired streams are removed from the file."""

MAX_UNWANTED = 10_000
"""How many streams are remembered that the file failed to remove; a restart removes any more."""

LOOK_AFTER_S = 1.0
"""How often dead processes are looked for."""

TALLY_S = 5.0
"""How often a process stores the size of its running streams."""

READERS_SURE_S = 0.5
"""For how long readers in other processes are sure to stay."""

ORPHAN_S = 0.5
"""The pause of a reader that waits for a stream to be taken over."""

T = TypeVar("T")
log = structlog.get_logger("seseragi.eventlog")


class SqliteLog(EventLog):
    """An `EventLog` in a file, with everything beside it.

    Ended streams are stored for `retention_s` seconds. When the events in the file exceed
    `max_bytes`, ended streams are removed, oldest first; then `create` refuses. The same holds
    for `MEMORY_BYTES`, but streams that leave the memory stay in the file. `max_stream_bytes`
    (of memory) and `max_stream_events` limit one stream. `wall` returns unix seconds.

    `shared`: the file is shared by several processes; call `prepare` before the first opens it.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        retention_s: float,
        max_bytes: int,
        max_stream_bytes: int = 64 * 2**20,
        max_stream_events: int = 1_000_000,
        wall: Callable[[], float] = time.time,
        shared: bool = False,
        queues: Sequence[str] = (RECORDS,),
    ) -> None:
        self._path = Path(path)
        self._retention_s = retention_s
        self._max_bytes = max_bytes
        self._wall = wall
        self._shared = shared
        self._queues = queues
        self._entries = Entries(
            keep_s=min(KEEP_S, retention_s),
            max_bytes=MEMORY_BYTES,
            max_stream_bytes=max_stream_bytes,
            max_stream_events=max_stream_events,
            now=wall,
            wall=wall,
            on_drop=lambda _: None,
        )
        self._unwanted: set[str] = set()
        """Streams that never began and could not be removed."""
        self._due = asyncio.Event()
        self._on_stop: OnStop
        self._stopping = False
        self._heir: Heir | None = None
        self._read_here: set[str] = set()
        """Streams of other processes that have readers here."""
        self._database: Database
        self._owner: Owner
        self._writer: Writer
        self._tasks: Supervisor

    def give_to(self, heir: Heir) -> None:
        self._heir = heir

    async def hand_over(self, stream: str) -> None:
        self._stopping = True  # its readers here have nothing to wait for
        local = self._owner.streams.get(stream)
        if local is None or local.ending:  # its end is on its way
            return
        with contextlib.suppress(ServiceError):  # the next start finds it without a process
            await self._writer.write(partial(self._database.hand_over, stream))
        self._owner.drop(Gone([stream], 0))

    async def open(
        self,
        *,
        on_ended: OnEnded = ignore_ended,
        close: Close = close_free,
        on_stop: OnStop = ignore_stop,
    ) -> None:
        self._on_stop = on_stop
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(
            lambda works: self._database.transact(works),
            explain=explain,
            yields=self._shared,
        )
        try:
            await self._writer.read(partial(self._open_file, on_ended, close))
        except BaseException:
            await self._writer.close(lambda: None)
            raise
        if not self._shared:
            with contextlib.suppress(RelayError):  # they are too many: the sweeper tries again
                await self._settle_streams_of(NOBODY)
        self._due.set()
        self._tasks = Supervisor()
        self._tasks.keep("event log sweeper", self._keep_swept)
        self._feed = Feed(self._read_progress)
        if self._shared:
            self._feed.open()
            self._tasks.keep("event log processes", self._keep_others)

    def _open_file(self, on_ended: OnEnded, close: Close) -> None:
        def report(streams: Sequence[StreamEnded]) -> None:  # in the writer's thread
            for ended in streams:
                self._loop.call_soon_threadsafe(on_ended, ended)

        if not self._shared:
            prepare(
                self._path,
                now=self._wall(),
                on_orphans=report,
                close=close,
                queues=self._queues,
            )
        self._database = Database.join(self._path, close=close, queues=self._queues)
        self._owner = Owner(
            self._database,
            self._writer,
            self._entries,
            retention_s=self._retention_s,
            wall=self._wall,
            on_ended=on_ended,
            close=close,
        )

    async def close(self) -> None:
        await self._tasks.close()
        await self._feed.close()
        await self._owner.retry_unwritten()
        await self._writer.close(partial(self._database.close, now=self._wall()))
        self._entries.close()

    def healthy(self) -> bool:
        parts = (self._database, self._writer, self._tasks, self._feed)
        return all(part.healthy for part in parts)

    def size(self) -> LogSize:
        return self._entries.measure_all()

    async def create(self, info: StreamInfo, *, over: str | None = None) -> Claim:
        stream, key = info.id, info.scoped_key
        if self._owner.file_size > self._max_bytes:
            await self._make_room()
            if self._owner.file_size > self._max_bytes:
                bound = None if key is None else await self.claimed(key)
                if bound is not None and bound.stream != over:
                    return bound
                raise full()
        data = pack_info(info)
        entry = self._entries.create(info.without_request())
        make = partial(
            self._database.create,
            info,
            data,
            now=entry.started_at,
            kept_after=entry.started_at - self._retention_s,
            over=over,
        )
        try:
            made = await self._writer.write(make)
        except BaseException:
            self._entries.drop(stream)
            # A cancelled call may have created it.
            forget = partial(self._database.forget, stream, now=self._wall())
            self._writer.submit(forget, partial(self._on_unwanted, stream))
            raise
        if isinstance(made, LimitReached | ChatBusy):
            self._entries.drop(stream)
            raise made
        claim, row = made
        if row is None:
            self._entries.drop(stream)
        else:
            strict = bool(info.takeover)
            local = LocalStream(row, entry, bound=key is not None, size=len(data), strict=strict)
            self._owner.add(stream, local)
        return claim

    async def claimed(self, key: Scoped) -> Claim | None:
        kept_after = self._wall() - self._retention_s
        return await self._read(partial(self._database.claimed, key, kept_after=kept_after))

    async def info(self, stream: str) -> StreamInfo:
        return await self._read(lambda: self._database.info(self._row(stream), stream))

    async def find(self, name: Scoped, after: int = 0, *, limit: int = 0) -> Look | None:
        stream = await self._read(partial(self._database.find_named, name))
        if stream is None:
            return None
        try:
            return await self.look(stream, after, limit=limit)
        except RequestError:
            return None

    async def named(self, name: Scoped) -> Sequence[str]:
        return await self._read(partial(self._database.named, name))

    async def forget_names(self, stream: str) -> None:
        await self._writer.write(partial(self._database.forget_names, stream))

    async def list_streams(
        self, owner: str, after: ListPosition, *, limit: int
    ) -> Sequence[ListedStream]:
        read = partial(self._database.list_streams, owner, after, limit=limit)
        return await self._read(lambda: read(kept_after=self._wall() - self._retention_s))

    async def changed_owners(self, mark: float) -> tuple[float, Collection[str] | None]:
        return await self._read(partial(self._database.changed_owners, mark))

    def push(self, stream: str, events: Sequence[Event]) -> bool:
        return self._owner.push(stream, events)

    async def append(
        self, stream: str, events: Sequence[Event], settlement: Settlement | None = None
    ) -> Placed:
        local = self._owner.streams.get(stream)
        if local is None or local.ending:
            await self.state(stream)
            raise ValueError(f"stream {stream} has ended; nothing can be added to it")
        return await self._owner.append(local, events, settlement)

    async def read(
        self, stream: str, after: int, *, timeout_s: float, limit: int = PAGE
    ) -> Sequence[Event]:
        entry = self._find(stream)
        if entry is not None:
            return await entry.read(after, timeout_s=timeout_s, limit=limit)
        tail = self._feed.find(stream)
        if tail is None or timeout_s <= 0:
            row, events, tail = await self._catch_up(stream, after, limit)
            if tail is None:
                if row.is_orphaned and not events and timeout_s > 0:
                    if self._stopping:
                        raise shutting_down()
                    await asyncio.sleep(min(timeout_s, ORPHAN_S))
                return events
        if not tail.covers(after):
            return await self._read(
                lambda: self._database.read_running(self._row(stream), after, limit)
            )
        if tail.waits(after) and timeout_s > 0:
            if self._stopping:
                raise shutting_down()
            self._feed.wake()
        return await tail.read(after, timeout_s=timeout_s, limit=limit)

    def follow(self, stream: str, after: int, follower: Follower) -> bool:
        if self._entries.follow(stream, after, follower):
            return True
        return not self._stopping and self._feed.follow(stream, after, follower)

    def unfollow(self, stream: str, follower: Follower) -> None:
        self._entries.unfollow(stream, follower)
        self._feed.unfollow(stream, follower)

    async def look(self, stream: str, after: int, *, limit: int, owner: str | None = None) -> Look:
        entry = self._find(stream)
        if entry is not None and may_see(owner, entry.info.owner):
            return Look(stream, entry.state())
        row, events, tail = await self._catch_up(stream, after, limit, owner)
        state = row.state()
        if tail is None:
            return Look(stream, state, events)
        return Look(stream, msgspec.structs.replace(state, last=tail.last))

    async def _catch_up(
        self, stream: str, after: int, limit: int, owner: str | None = None
    ) -> tuple[Row, list[Event], Tail | None]:
        """Return the row of a stream that is not in memory, and its tail if it runs elsewhere.

        Without a tail, also events after the cursor. Nothing returned is older than this call.
        """
        while True:
            row, events = await self._read(partial(self._look_file, stream, after, limit, owner))
            if row.ended_at is not None or row.process in (self._database.process, NOBODY):
                return row, events, None
            tail = self._feed.find(stream) or self._feed.start(stream, row)
            await self._feed.catch_up()
            if not (tail.ended or tail.over):
                return row, [], tail

    def running(self) -> Collection[str]:
        return [name for name, local in self._owner.streams.items() if not local.ending]

    def produced(self, stream: str) -> Sequence[Event]:
        local = self._owner.streams.get(stream)
        return () if local is None else local.events()

    async def delete(self, stream: str) -> None:
        await self.state(stream)
        if (unwritten := self._owner.unwritten.get(stream)) is not None:
            await self._forget(partial(self._owner.forget_unwritten, unwritten))
            return
        local = self._owner.streams.get(stream)
        try:
            await self._forget(partial(self._database.forget, stream, now=self._wall()))
        except ServiceError as error:
            if local is not None and not local.last:  # nobody will end it either
                self._on_unwanted(stream, None, error)
            raise
        self._feed.stop(stream)

    # Accounts and rows

    async def read_accounts(self, names: Sequence[str]) -> list[AccountState]:
        return await self._read(lambda: self._database.accounts.accounts(names))

    async def rows(self, *, limit: int) -> list[tuple[str, bytes]]:
        return await self._read(lambda: self._database.accounts.rows(limit))

    async def take_rows(self, queue: str, *, limit: int, for_s: float) -> list[tuple[str, bytes]]:
        accounts = self._database.accounts
        return await self._writer.write(partial(accounts.take_rows, queue, limit, for_s))

    async def put_back_row(self, queue: str, stream: str, row: bytes, *, after_s: float) -> None:
        accounts = self._database.accounts
        await self._writer.write(partial(accounts.put_back_row, queue, stream, row, after_s))

    async def forget_rows(self, streams: Sequence[str], *, queue: str = RECORDS) -> None:
        await self._writer.write(partial(self._database.accounts.forget_rows, streams, queue))

    async def count_rows(self, queue: str = RECORDS) -> int:
        return await self._read(partial(self._database.accounts.count_rows, queue))

    # Streams that go

    async def sweep(self) -> None:
        """Remove expired streams from the file."""
        now = self._wall()
        forget = partial(self._database.forget_ended, now - self._retention_s, now=now)
        while (await self._writer.write(forget, self._owner.drop)).ids:
            pass
        while await self._writer.write(self._database.purge):
            pass
        swept, end = 0, await self._writer.write(self._database.tail.end)
        while swept < end:
            swept = await self._writer.write(self._database.tail.sweep)
        await self._writer.write(partial(self._database.tidy, now=now))
        await self._writer.write(self._database.touch)
        await self._owner.retry_unwritten()
        for stream in list(self._unwanted):
            await self._writer.write(
                partial(self._database.forget, stream, now=now), self._owner.drop
            )
            self._unwanted.discard(stream)

    async def _make_room(self) -> None:
        now = self._wall()

        def make_room() -> Gone:
            own = self._owner.size
            excess = self._database.total_bytes(own) + own - self._max_bytes
            return self._database.forget_oldest(excess, now=now)

        await self._forget(make_room)
        await self._tally()

    async def _tally(self) -> None:
        own = self._owner.size
        await self._writer.write(partial(self._database.total_bytes, own), self._on_tally)

    def _on_tally(self, others: int) -> None:
        self._owner.file_size = others + self._owner.size

    # In memory

    def _find(self, stream: str) -> Entry | None:
        return self._entries.find(stream) or self._owner.find_unwritten(stream)

    def _on_unwanted(self, stream: str, _: object, error: BaseException | None) -> None:
        """Remove a stream that never began later, if it could not be removed now."""
        if error is not None and len(self._unwanted) < MAX_UNWANTED:
            self._unwanted.add(stream)

    # In the writer's thread

    def _row(self, stream: str, owner: str | None = None) -> Row:
        row = self._database.find(stream)
        if row is None or not may_see(owner, row.owner):
            raise unknown(stream)
        until = self._wall() - self._retention_s
        if row.gone or (row.ended_at is not None and row.ended_at <= until):
            raise expired(stream, self._retention_s, owner=row.owner)
        return row

    def _look_file(
        self, stream: str, after: int, limit: int, owner: str | None = None
    ) -> tuple[Row, list[Event]]:
        row = self._row(stream, owner)
        runs = row.ended_at is None and row.process != NOBODY
        if runs or after >= row.last or not limit:  # one that runs is in memory
            return row, []
        return row, self._database.read(row.key, after, limit)

    # Other processes

    async def ask_stop(self, stream: str, by: Stopper = "user") -> None:
        await self._writer.write(partial(self._database.processes.send, by, stream))

    def readers_here(self, stream: str) -> None:
        if self._feed.find(stream) is not None:  # it runs elsewhere: each reader has looked
            self._read_here.add(stream)
            self._writer.post(partial(self._database.processes.readers_here, stream))

    def readers_gone(self, stream: str) -> None:
        if stream in self._read_here:
            self._read_here.remove(stream)
            gone = self._database.processes.readers_gone
            self._writer.post(partial(gone, stream, now=self._wall()))

    async def reader_lease_s(self, stream: str) -> float:
        left_at = await self._read(partial(self._database.processes.readers_left_at, stream))
        return max(
            (READERS_SURE_S if at is None else at - self._wall() for at in left_at),
            default=-math.inf,
        )

    def release_remote_readers(self) -> None:
        self._stopping = True
        self._feed.stop_all()

    async def _read_progress(self, positions: Sequence[WatchPosition]) -> Sequence[Tailed] | None:
        noted, found = await self._read(partial(self._database.read_progress, positions))
        if noted:
            with contextlib.suppress(RelayError):
                for note in await self._writer.write(self._database.processes.take_notes):
                    self._on_note(note)
        return found

    def _on_note(self, note: Note) -> None:
        if note.what == "gone":
            self._owner.drop_removed(note.stream)
        self._on_stop(note.stream, "operator" if note.what == "operator" else "user")

    async def publish(self, channel: Channel, name: str, message: bytes, *, for_s: float) -> None:
        check_message(message)
        publish = self._database.processes.publish
        work = partial(publish, channel, name, message, now=self._wall(), for_s=for_s)
        if not await self._writer.write(work):
            raise channel_full()

    async def messages(self, channel: Channel) -> dict[str, bytes]:
        read = self._database.processes.messages
        return await self._read(partial(read, channel, now=self._wall()))

    async def _keep_others(self) -> None:
        tallied_at = self._loop.time()
        while True:
            with contextlib.suppress(RelayError):
                for process in await self._read(self._database.processes.find_dead):
                    await self._settle_streams_of(process)
                await self._settle_streams_of(NOBODY)
                if self._loop.time() >= tallied_at + TALLY_S:
                    await self._tally()
                    tallied_at = self._loop.time()
            await asyncio.sleep(LOOK_AFTER_S)

    async def _settle_streams_of(self, process: int) -> None:
        """Go on with the streams of a dead process that this one can go on with; end the others."""
        left, heir = await self._read(partial(self._database.find_left, process)), self._heir
        for stream in left:
            if (orphan := await self._read(partial(self._database.find_orphan, stream))) is None:
                continue
            begin = None if heir is None else heir(orphan)
            if begin is not None and await self._owner.take(orphan, process=process):
                log.warning("stream of a lost process taken over", stream=stream)
                begin()
        if left or process != NOBODY:
            await self._end_streams_of(process)

    async def _end_streams_of(self, process: int) -> None:
        def on_ended(ended: EndedOrphans) -> None:
            self._owner.drop(Gone([], 0, ended.ended_streams))

        streams = 0
        end_some = partial(self._database.end_streams_of, process, now=self._wall())
        while (ended := await self._writer.write(end_some, on_ended)).dealt_with:
            streams += ended.dealt_with
        if streams:
            log.warning("streams of a lost process ended", process=process, streams=streams)

    # Access

    async def _forget(self, work: Callable[[], Gone]) -> None:
        """Remove streams; their events are removed from the file soon after."""
        await self._writer.write(work, self._owner.drop)
        self._due.set()

    async def _read(self, work: Callable[[], T]) -> T:
        try:
            return await self._writer.read(work)
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            log.error("the event log cannot be read", error=str(error))
            raise ServiceError("internal", "the event log could not be read") from None

    async def _keep_swept(self) -> None:
        while True:
            await wait_for(self._due, SWEEP_S)
            with contextlib.suppress(RelayError):
                await self.sweep()
                if not self._shared:  # else `_keep_others` does it
                    await self._settle_streams_of(NOBODY)
