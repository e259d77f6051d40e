"""The log in a SQLite file: ended streams survive a restart, running ones are ended by it.

Running streams are in memory too, and so are ended ones for a moment: live reading costs
what it costs there. An event is shown only after its commit, so that a kill takes back
nothing that a reader has seen (a loss of power may take the last moments, but not that an
idempotency key has begun a stream).
"""

import asyncio
import contextlib
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from ...errors import RelayError, RequestError, ServiceError
from ...events import Event, StreamEnd
from ...ledger.accounts import NOTHING, AccountState, LimitReached, Settlement
from ..contract import PAGE, Follower, Placed
from ..entries import Entries, Entry, size_of
from ..errors import expired, full, unknown
from ..recovery import (
    LOST,
    Close,
    Closing,
    OnEnded,
    OrphanedStream,
    close_free,
    closing_events,
    closing_of,
)
from ..stream_ended import StreamEnded
from ..stream_info import Scoped, StreamInfo, pack_info
from ..supervision import Supervisor
from ..values import Claim, LogSize, LogState, Look, may_see
from .database import SWEPT_AT_ONCE, Database, Durable, Gone, Row
from .writer import ThreadLostError, Writer

KEEP_S = 10
"""How long an ended stream stays in memory, for the readers that are near its end."""

SWEEP_S = 30
"""How often what has been kept for its time is taken out of the file."""

FULL_RETRY_S = 10
"""When to try again once the disk is full."""

FILED_EVENTS = 1_000
FILED_BYTES = 2**16
"""How much a running stream gathers before it is filed."""

MAX_UNWANTED = 10_000
"""How many streams are remembered that the file has to remove; a restart removes any more."""

T = TypeVar("T")
log = structlog.get_logger("seseragi.eventlog")


class Batch:
    """Events on their way into the file."""

    __slots__ = ("at", "done", "events", "first", "memory", "run", "settlement", "stream")

    def __init__(
        self,
        run: "_Run",
        stream: str,
        first: int,
        events: Sequence[Event],
        *,
        memory: int,
        at: float,
        settlement: Settlement | None = None,
    ) -> None:
        self.run = run
        self.stream = stream
        self.first = first
        self.events = events
        self.memory = memory
        self.at = at
        self.settlement = settlement
        """What the stream has cost, where the events end it."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def ends(self) -> bool:
        return isinstance(self.events[-1], StreamEnd)

    def settle(self, error: BaseException | None = None) -> bool:
        """Wake the producer with the result; False if it no longer waits."""
        if self.done.done():
            return False
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
        return True


class _Run:
    """A stream that is being produced."""

    __slots__ = (
        "batches",
        "bound",
        "ending",
        "entry",
        "filed",
        "filing",
        "key",
        "last",
        "settlement",
        "size",
        "write_error",
    )

    def __init__(self, key: int, entry: Entry, *, bound: bool = False, size: int = 0) -> None:
        self.key = key
        self.entry = entry
        self.bound = bound
        """Whether an idempotency key leads to it."""
        self.batches: deque[Batch] = deque()
        self.last = 0
        """The number of the last event that was taken, written or not."""
        self.ending = False
        self.write_error: BaseException | None = None
        """Why a batch was not written, until its producer knows: none after it is either."""
        self.filed = 0
        self.size = size
        """Bytes in the file, and how many of them had been filed."""
        self.filing = size
        self.settlement = NOTHING
        """What it has cost, once it has ended in memory only."""


class SqliteLog:
    """An `EventLog` in a file, for one process, with its accounts and rows.

    Streams that have ended are kept for `retention_s` seconds. When the events in the file
    exceed `max_bytes`, the ended ones go first, oldest first; then `create` refuses. The
    same holds for `max_memory_bytes`, but what leaves the memory stays in the file. One
    stream may have `max_stream_events` and take `max_stream_bytes` of memory. `wall` tells
    unix seconds.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        retention_s: float,
        max_bytes: int,
        max_memory_bytes: int = 512 * 2**20,
        max_stream_bytes: int = 64 * 2**20,
        max_stream_events: int = 1_000_000,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._path = Path(path)
        self._retention_s = retention_s
        self._max_bytes = max_bytes
        self._wall = wall
        self._entries = Entries(
            keep_s=min(KEEP_S, retention_s),
            max_bytes=max_memory_bytes,
            max_stream_bytes=max_stream_bytes,
            max_stream_events=max_stream_events,
            now=wall,
            wall=wall,
            on_drop=lambda _: None,
        )
        self._runs: dict[str, _Run] = {}
        self._owed: dict[str, _Run] = {}
        """Streams whose end the file refused and has to be told again: ended in memory only."""
        self._unwanted: set[str] = set()
        """Streams that never began, and that the file did not remove."""
        self._close_orphan: Close = close_free
        self._size = 0
        """Bytes of events in the file, of streams that are kept."""
        self._due = asyncio.Event()
        self._on_ended: OnEnded = lambda ended: None
        self._database: Database
        self._writer: Writer
        self._tasks: Supervisor

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._writer = self._open_writer()
        try:
            await self._writer.read(self._open_file)
        except BaseException:
            await self._writer.close(lambda: None)
            raise
        self._due.set()
        self._tasks = Supervisor()
        self._tasks.keep("event log sweeper", self._keep_swept)

    def _open_writer(self) -> Writer:
        return Writer(lambda works: self._database.transact(works), explain=explain)

    def _open_file(self) -> None:
        self._database = Database.open(
            self._path, now=self._wall(), on_orphans=self._report_orphans_soon, close=self._price
        )
        self._size = self._database.kept()

    async def close(self) -> None:
        await self._tasks.close()
        await self._pay()
        await self._writer.close(self._database.close)
        self._entries.close()

    def healthy(self) -> bool:
        return self._database.healthy and self._writer.healthy and self._tasks.healthy

    def size(self) -> LogSize:
        return self._entries.measure_all()

    async def create(self, info: StreamInfo, *, over: str | None = None) -> Claim:
        stream, key = info.id, info.scoped_key
        claim = Claim(stream, info.digest)
        if self._size > self._max_bytes:
            await self._make_room()
            if self._size > self._max_bytes:
                bound = None if key is None else await self.claimed(key)
                if bound is not None and bound.stream != over:
                    return bound
                raise full()
        data = pack_info(info)
        entry = self._entries.create(info.without_request())
        make = partial(
            self._database.create,
            claim,
            key,
            over=over,
            now=entry.started_at,
            kept_after=entry.started_at - self._retention_s,
            owner=info.owner,
            info=data,
            reserve=info.reserve,
        )
        try:
            made = await self._write(make)
        except BaseException:
            self._entries.drop(stream)
            # The caller may have been cancelled while the file took it.
            forget = partial(self._database.forget, stream, now=self._wall())
            self._writer.submit(forget, partial(self._on_unwanted, stream))
            raise
        if isinstance(made, LimitReached):
            self._entries.drop(stream)
            raise made
        claim, row = made
        if row is None:
            self._entries.drop(stream)
        else:
            self._runs[stream] = _Run(row, entry, bound=key is not None, size=len(data))
            self._size += len(data)
        return claim

    async def claimed(self, key: Scoped) -> Claim | None:
        kept_after = self._wall() - self._retention_s
        return await self._read(partial(self._database.claimed, key, kept_after=kept_after))

    async def info(self, stream: str) -> StreamInfo:
        return await self._read(lambda: self._database.info(self._row(stream), stream))

    async def name(self, name: Scoped, stream: str) -> None:
        state = await self.state(stream)
        if not await self._write(partial(self._database.name, name, stream)):
            raise expired(stream, self._retention_s, owner=state.owner)

    async def find(self, name: Scoped, after: int = 0, *, limit: int = 0) -> Look | None:
        stream = await self._read(partial(self._database.find_named, name))
        if stream is None:
            return None
        try:
            return await self.look(stream, after, limit=limit)
        except RequestError:
            return None

    def push(self, stream: str, events: Sequence[Event]) -> bool:
        return False  # the file has to have it first

    async def append(
        self, stream: str, events: Sequence[Event], settlement: Settlement | None = None
    ) -> Placed:
        run = self._runs.get(stream)
        if run is None or run.ending:
            await self.state(stream)
            raise ValueError(f"stream {stream} has ended; nothing can be added to it")
        if run.write_error is not None:
            error, run.write_error = run.write_error, None
            raise error
        memory = self._entries.measure(stream, events)
        if not events:
            return None
        at, first = self._wall(), run.last + 1
        batch = Batch(run, stream, first, events, memory=memory, at=at, settlement=settlement)
        run.last += len(events)
        run.ending = batch.ends
        run.batches.append(batch)
        # Once a stream that a key leads to has begun, its upstream is called.
        work = Durable if run.bound and batch.first == 1 else partial
        self._writer.submit(work(self._store, batch), partial(self._stored, batch))
        await batch.done
        return None

    async def read(
        self, stream: str, after: int, *, timeout_s: float, limit: int = PAGE
    ) -> Sequence[Event]:
        entry = self._find(stream)
        if entry is not None:
            return await entry.read(after, timeout_s=timeout_s, limit=limit)
        _, events = await self._read(partial(self._look_file, stream, after, limit))
        return events

    def follow(self, stream: str, after: int, follower: Follower) -> bool:
        return self._entries.follow(stream, after, follower)

    def unfollow(self, stream: str, follower: Follower) -> None:
        self._entries.unfollow(stream, follower)

    async def state(self, stream: str) -> LogState:
        entry = self._find(stream)
        if entry is not None:
            return entry.state()
        row = await self._read(partial(self._row, stream))
        return row.state()

    async def look(self, stream: str, after: int, *, limit: int, owner: str | None = None) -> Look:
        entry = self._find(stream)
        if entry is not None and may_see(owner, entry.info.owner):
            return Look(stream, entry.state())
        return await self._look_elsewhere(stream, after, limit, owner)

    async def _look_elsewhere(self, stream: str, after: int, limit: int, owner: str | None) -> Look:
        row, events = await self._read(partial(self._look_file, stream, after, limit, owner))
        return Look(stream, row.state(), events)

    def produced(self, stream: str) -> Sequence[Event]:
        run = self._runs.get(stream)
        if run is None:
            return ()
        waiting = (event for batch in run.batches for event in batch.events)
        return [*run.entry.events, *waiting]

    async def delete(self, stream: str) -> None:
        await self.state(stream)
        run, owed = self._runs.get(stream), self._owed.get(stream)
        if owed is not None:
            await self._forget(partial(self._forget_owed, stream, owed))
            return
        try:
            await self._forget(partial(self._database.forget, stream, now=self._wall()))
        except ServiceError as error:
            if run is not None and not run.last:  # nobody will end it either
                self._on_unwanted(stream, None, error)
            raise

    def on_ended(self, ended: OnEnded) -> None:
        self._on_ended = ended

    # Accounts and rows

    def close_by(self, close: Close) -> None:
        self._close_orphan = close

    def _price(self, orphan: OrphanedStream) -> Closing:
        return self._close_orphan(orphan)

    async def read_accounts(self, names: Sequence[str]) -> list[AccountState]:
        return await self._read(lambda: self._database.accounts.accounts(names))

    async def rows(self, *, limit: int) -> list[tuple[str, bytes]]:
        return await self._read(lambda: self._database.accounts.rows(limit))

    async def forget_rows(self, streams: Sequence[str]) -> None:
        await self._write(lambda: self._database.accounts.forget_rows(streams))

    async def count_rows(self) -> int:
        return await self._read(lambda: self._database.accounts.count_rows())

    # Streams that go

    def _report_orphans_soon(self, streams: Sequence[StreamEnded]) -> None:
        """Report of streams that were ended in the writer's thread."""
        self._loop.call_soon_threadsafe(self._report_orphans, streams)

    def _report_orphans(self, streams: Sequence[StreamEnded]) -> None:
        for stream in streams:
            self._on_ended(stream)

    async def sweep(self) -> None:
        """Take what has been kept for its time out of the file."""
        now = self._wall()
        forget = partial(self._database.forget_ended, now - self._retention_s, now=now)
        while (await self._write(forget, self._on_gone)).ids:
            pass
        while await self._write(self._database.purge):
            pass
        swept, end = 0, await self._write(self._database.tail_end)
        while swept < end:
            swept = await self._write(partial(self._database.sweep_tail, SWEPT_AT_ONCE))
        await self._write(partial(self._database.tidy, now=now))
        await self._write(self._database.touch)
        await self._pay()
        for stream in list(self._unwanted):
            await self._write(partial(self._database.forget, stream, now=now), self._on_gone)
            self._unwanted.discard(stream)

    async def _make_room(self) -> None:
        excess = self._size - self._max_bytes
        await self._forget(partial(self._database.forget_oldest, excess, now=self._wall()))

    # In memory

    def _find(self, stream: str) -> Entry | None:
        entry = self._entries.find(stream)
        if entry is not None or stream not in self._owed:
            return entry
        entry = self._owed[stream].entry
        if entry.ended_at is not None and entry.ended_at <= self._wall() - self._retention_s:
            raise expired(stream, self._retention_s, owner=entry.info.owner)
        return entry

    def _on_gone(self, gone: Gone) -> None:
        """Let go of streams that the file has let go of."""
        self._size -= gone.size
        for stream in gone.ids:
            run = self._runs.pop(stream, None) or self._owed.pop(stream, None)
            if run is not None:
                self._size -= run.size
            if self._entries.find(stream) is not None:
                self._entries.drop(stream)
        self._report_orphans(gone.ended_streams)

    def _on_unwanted(self, stream: str, _: object, error: BaseException | None) -> None:
        """Remove a stream later that never began, if the file does not do it now."""
        if error is not None and len(self._unwanted) < MAX_UNWANTED:
            self._unwanted.add(stream)

    # In the writer's thread

    def _store(self, batch: Batch) -> int | None:
        """Write a batch and give its size; None if one before it is lost."""
        run = batch.run
        if run.write_error is not None:
            return None
        size = self._database.append(run.key, batch.first, batch.events)
        if batch.ends:
            waiting = [event for before in run.batches for event in before.events]
            unfiled = [*run.entry.events[run.filed :], *waiting]
            self._database.file(run.key, run.filed + 1, unfiled)
            last = run.filed + len(unfiled)
            self._database.end(run.key, at=batch.at, last=last, size=run.size + size)
            self._database.accounts.settle(run.key, batch.stream, batch.settlement or NOTHING)
        return size

    def _end_late(self, run: _Run) -> bool:
        """Write what the file did not take at the end of a stream; False if it was removed."""
        events, at = run.entry.events, run.entry.ended_at
        self._database.file(run.key, run.filed + 1, events[run.filed :])
        ended = self._database.end(run.key, at=at or 0, last=len(events), size=run.size)
        self._database.accounts.settle(run.key, run.entry.info.id, run.settlement)
        return ended

    def _forget_owed(self, stream: str, run: _Run) -> Gone:
        """Remove a stream whose end the file did not take; it costs what it has cost."""
        self._database.accounts.settle(run.key, stream, run.settlement)
        gone = self._database.forget(stream, now=self._wall())
        return gone._replace(ended_streams=[run.entry.orphaned().ended] if gone.ids else [])

    def _file(self, run: _Run) -> int | None:
        """File what has gathered and give the number of its last event."""
        if run.ending:  # the end files it
            return None
        unfiled = run.entry.events[run.filed :]
        self._database.file(run.key, run.filed + 1, unfiled)
        return run.filed + len(unfiled)

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
        if row.ended_at is None or after >= row.last or not limit:  # one that runs is in memory
            return row, []
        return row, self._database.read(row.key, after, limit)

    # After a commit

    def _stored(self, batch: Batch, size: int | None, error: BaseException | None) -> None:
        run, stream = batch.run, batch.stream
        run.batches.popleft()
        if self._runs.get(stream) is not run:
            owner = run.entry.info.owner
            batch.settle(expired(stream, self._retention_s, owner=owner))
        elif size is not None:
            run.size += size
            self._size += size
            self._show(batch)
            if not batch.ends:
                self._file_soon(run)
        elif batch.ends and run.write_error is None:
            self._owed[stream] = run
            self._show_orphaned(batch)
            batch.settle(explain(error))
        else:
            error = run.write_error = run.write_error or explain(error)
            run.last = len(run.entry.events)
            run.ending = False
            if batch.settle(error) and not run.batches:
                run.write_error = None

    def _show(self, batch: Batch) -> None:
        self._entries.add(batch.stream, batch.events, size=batch.memory, ended_at=batch.at)
        if batch.ends:
            del self._runs[batch.stream]
        batch.settle()

    def _show_orphaned(self, batch: Batch) -> None:
        """End a stream whose end was refused as a restart would: from what the file has of it.

        Cursors stay true whether the file takes this end later or the process is killed. What
        it costs is what was used in truth, of the answer too that nobody gets.
        """
        run, refused = batch.run, batch.events[-1]
        ending = closing_events(run.entry.events, status="interrupted", error=LOST)
        end = ending[-1]
        assert isinstance(end, StreamEnd)  # noqa: S101  (as `closing_events` says)
        assert isinstance(refused, StreamEnd)  # noqa: S101  (as `Batch.ends` says)
        ending[-1] = msgspec.structs.replace(end, usage=refused.usage, cost=refused.cost)
        size = sum(map(size_of, ending))
        self._entries.add(batch.stream, ending, size=size, ended_at=batch.at)
        del self._runs[batch.stream]
        if batch.settlement is not None:
            orphan = run.entry.orphaned()._replace(spent=batch.settlement)
            run.settlement = closing_of(orphan, self._close_orphan).settlement

    def _file_soon(self, run: _Run) -> None:
        """File a stream that has gathered enough, unless more of it is being written."""
        count = len(run.entry.events) - run.filed
        if run.batches or (count < FILED_EVENTS and run.size - run.filing < FILED_BYTES):
            return
        run.filing = run.size
        self._writer.submit(partial(self._file, run), partial(self._on_filed, run))

    def _on_filed(self, run: _Run, last: int | None, error: BaseException | None) -> None:
        if error is None and last is not None:
            run.filed = last

    # Access

    async def _forget(self, work: Callable[[], Gone]) -> None:
        """Remove streams; their events leave the file soon after."""
        await self._write(work, self._on_gone)
        self._due.set()

    async def _write(
        self, work: Callable[[], T], on_commit: Callable[[T], None] = lambda _: None
    ) -> T:
        return await self._writer.write(work, on_commit)

    async def _read(self, work: Callable[[], T]) -> T:
        try:
            return await self._writer.read(work)
        except (sqlite3.Error, msgspec.MsgspecError, ThreadLostError) as error:
            log.error("the event log cannot be read", error=str(error))
            raise ServiceError("internal", "the event log could not be read") from None

    async def _pay(self) -> None:
        """Write the ends that the file did not take, as far as it takes them now."""
        for stream, run in list(self._owed.items()):
            with contextlib.suppress(ServiceError):
                tell = partial(self._on_paid, stream, run)
                await self._write(partial(self._end_late, run), tell)

    def _on_paid(self, stream: str, run: _Run, ended: bool) -> None:
        self._owed.pop(stream, None)
        if ended:
            self._on_ended(run.entry.orphaned().ended)

    async def _keep_swept(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SWEEP_S):
                    await self._due.wait()
            self._due.clear()
            with contextlib.suppress(RelayError):
                await self.sweep()


def explain(error: BaseException | None) -> ServiceError:
    """Return what a failed write means for its stream."""
    log.error("the event log cannot be written", error=repr(error))
    if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
        return ServiceError(
            "overloaded",
            "the event log could not be written: the disk is full; try again when there is room",
            retry_after_s=FULL_RETRY_S,
        )
    return ServiceError("internal", "the event log could not be written")
