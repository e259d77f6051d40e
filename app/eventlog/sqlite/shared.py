"""The log in a SQLite file that several processes of one machine share.

Each produces its own streams, and they are in its memory as in a file that it has alone.
Those of others are read from the file. When a process is lost, another ends its streams.
"""

import asyncio
import contextlib
import math
from collections.abc import Sequence
from functools import partial

import structlog

from ...errors import RelayError, shutting_down
from ...events import Event, Stopper
from ..broadcast import Channel, channel_full, check_message
from ..contract import PAGE, Follower
from ..peers import OnStop
from ..stream_info import StreamInfo
from ..tail import Tail
from ..values import Claim, LogState, Look
from .database import EndedOrphans, Gone, Row
from .feed import Feed
from .log import Batch, SqliteLog, explain
from .shared_database import Note, Progress, SharedDatabase, WatchPosition
from .writer import Writer

PAUSE_S = 0.002
"""Between two commits of a process that has more to write, so that others come to it too."""

LOOK_AFTER_S = 1.0
"""How often it is asked whether the other processes live."""

TALLY_S = 5.0
"""How often the processes say how much they hold."""

READERS_SURE_S = 0.5
"""For how long readers elsewhere are sure to be there."""

_REMOVED = -1
"""The size of a batch whose stream another process has removed."""

log = structlog.get_logger("seseragi.eventlog")


class SharedSqliteLog(SqliteLog):
    """An `EventLog` in a file for many processes of one machine, with all that is beside it.

    `shared_database.prepare` is called once before the first of them opens it. `max_bytes` is
    about the whole file, the limits of memory are those of each process.
    """

    _database: SharedDatabase
    _stop: OnStop

    async def open(self) -> None:
        self._stop = lambda stream, by: None
        self._stopping = False
        self._attended: set[str] = set()
        await super().open()
        self._feed = Feed(self._read_progress, busy=self._is_busy)
        self._tasks.keep("event log processes", self._keep_others)

    def _open_writer(self) -> Writer:
        return Writer(
            lambda works: self._database.transact(works), explain=explain, pause_s=PAUSE_S
        )

    def _open_file(self) -> None:
        self._database = SharedDatabase.join(self._path, close=self._price)
        self._size = self._database.kept()

    async def close(self) -> None:
        await self._tasks.close()
        await self._feed.close()
        with contextlib.suppress(RelayError):
            here = self._database.process
            await self._write(partial(self._database.leave_all, here, now=self._wall()))
        await super().close()

    def healthy(self) -> bool:
        return super().healthy() and self._feed.healthy

    # Streams

    async def create(self, info: StreamInfo, *, over: str | None = None) -> Claim:
        claim = await super().create(info, over=over)
        self._feed.rouse()
        return claim

    async def read(
        self, stream: str, after: int, *, timeout_s: float, limit: int = PAGE
    ) -> Sequence[Event]:
        entry = self._find(stream)
        if entry is not None:
            return await entry.read(after, timeout_s=timeout_s, limit=limit)
        tail = self._feed.find(stream)
        if tail is None or timeout_s <= 0:
            _, events, tail = await self._catch_up(stream, after, limit)
            if tail is None:
                return events
        if not tail.covers(after):
            return await self._read(partial(self._read_elsewhere, stream, after, limit))
        if after >= tail.last and not tail.ended and timeout_s > 0:
            if self._stopping:
                raise shutting_down()
            self._feed.wake()
            await tail.wait(timeout_s)
        return tail.after(after, limit) if tail.covers(after) else ()

    def follow(self, stream: str, after: int, follower: Follower) -> bool:
        if super().follow(stream, after, follower):
            return True
        tail = self._feed.find(stream)
        if tail is None or tail.ended or after != tail.last or self._stopping:
            return False
        tail.followers.append(follower)
        self._feed.wake()
        return True

    def unfollow(self, stream: str, follower: Follower) -> None:
        super().unfollow(stream, follower)
        tail = self._feed.find(stream)
        if tail is not None and follower in tail.followers:
            tail.followers.remove(follower)

    async def state(self, stream: str) -> LogState:
        entry = self._find(stream)
        if entry is not None:
            return entry.state()
        return (await self._look_elsewhere(stream, 0, 0, None)).state

    async def _look_elsewhere(self, stream: str, after: int, limit: int, owner: str | None) -> Look:
        row, events, tail = await self._catch_up(stream, after, limit, owner)
        state = row.state()
        if tail is None:
            return Look(stream, state, events)
        return Look(stream, state._replace(last=tail.last))

    async def delete(self, stream: str) -> None:
        await super().delete(stream)
        self._feed.stop(stream)

    async def _catch_up(
        self, stream: str, after: int, limit: int, owner: str | None = None
    ) -> tuple[Row, list[Event], Tail | None]:
        """Return the row of a stream that is not in memory, and its tail if it runs elsewhere.

        Else events after the cursor. Nothing of it is older than this call.
        """
        while True:
            row, events = await self._read(partial(self._look_file, stream, after, limit, owner))
            if row.ended_at is not None or row.process == self._database.process:
                return row, events, None
            tail = self._feed.find(stream) or self._feed.start(stream, row)
            await self._feed.catch_up()
            if not (tail.ended or tail.over):
                return row, [], tail

    async def _make_room(self) -> None:
        make = self._database.make_room
        await self._forget(partial(make, self._own(), most=self._max_bytes, now=self._wall()))
        await self._tally()

    # In the writer's thread

    def _store(self, batch: Batch) -> int | None:
        return _REMOVED if self._database.is_gone(batch.run.key) else super()._store(batch)

    def _read_elsewhere(self, stream: str, after: int, limit: int) -> list[Event]:
        return self._database.read_running(self._row(stream), after, limit)

    # After a commit

    def _stored(self, batch: Batch, size: int | None, error: BaseException | None) -> None:
        if size == _REMOVED:
            self._drop(batch.stream)
        super()._stored(batch, size, error)

    # Others

    def on_stop(self, stop: OnStop) -> None:
        self._stop = stop

    async def ask_stop(self, stream: str, by: Stopper = "user") -> None:
        await self._write(partial(self._database.ask_stop, stream, by))

    def readers_here(self, stream: str) -> None:
        if self._feed.find(stream) is not None:  # it runs elsewhere: whoever reads has asked
            self._attended.add(stream)
            self._writer.submit(partial(self._database.readers_here, stream), _ignore)

    def readers_gone(self, stream: str) -> None:
        if stream in self._attended:
            self._attended.remove(stream)
            gone = partial(self._database.readers_gone, stream, now=self._wall())
            self._writer.submit(gone, _ignore)

    async def reader_lease_s(self, stream: str) -> float:
        left_at = await self._read(partial(self._database.left_at, stream))
        return max(
            (READERS_SURE_S if at is None else at - self._wall() for at in left_at),
            default=-math.inf,
        )

    def release_remote_readers(self) -> None:
        self._stopping = True
        self._feed.stop_all()

    def _is_busy(self) -> bool:
        return len(self._entries) > 0

    async def _read_progress(self, positions: Sequence[WatchPosition]) -> Sequence[Progress] | None:
        noted, found = await self._read(partial(self._database.read_progress, positions))
        if noted:
            with contextlib.suppress(RelayError):
                for note in await self._write(self._database.take_notes):
                    self._hear(note)
        return found

    def _hear(self, note: Note) -> None:
        if note.what == "gone":
            self._drop(note.stream)
        self._stop(note.stream, "operator" if note.what == "operator" else "user")

    def _drop(self, stream: str) -> None:
        """Let go of a stream of this process that another one has removed."""
        self._on_gone(Gone([stream], 0))
        self._writer.submit(partial(self._database.let_go, stream), _ignore)

    async def publish(self, channel: Channel, name: str, message: bytes, *, for_s: float) -> None:
        check_message(message)
        publish = partial(
            self._database.publish, channel, name, message, now=self._wall(), for_s=for_s
        )
        if not await self._write(publish):
            raise channel_full()

    async def messages(self, channel: Channel) -> dict[str, bytes]:
        return await self._read(partial(self._database.messages, channel, now=self._wall()))

    # Processes that are no more, and what all hold

    async def _keep_others(self) -> None:
        loop = asyncio.get_running_loop()
        tallied_at = loop.time()
        while True:
            with contextlib.suppress(RelayError):
                for process in await self._read(self._database.find_dead):
                    await self._end_streams_of(process)
                if loop.time() >= tallied_at + TALLY_S:
                    await self._tally()
                    tallied_at = loop.time()
            await asyncio.sleep(LOOK_AFTER_S)

    async def _end_streams_of(self, process: int) -> None:
        streams = 0
        end_some = partial(self._database.end_streams_of, process, now=self._wall())
        while (ended := await self._write(end_some, self._on_orphans_ended)).dealt_with:
            streams += ended.dealt_with
        if streams:
            log.warning("streams of a lost process ended", process=process, streams=streams)

    def _on_orphans_ended(self, ended: EndedOrphans) -> None:
        self._report_orphans(ended.ended_streams)

    async def _tally(self) -> None:
        await self._write(partial(self._database.tally, self._own()), self._take_tally)

    def _take_tally(self, others: int) -> None:
        self._size = others + self._own()

    def _own(self) -> int:
        """Add up the bytes of the streams that run here."""
        return sum(run.size for run in (*self._runs.values(), *self._owed.values()))


def _ignore(_: object, error: BaseException | None) -> None:
    """What it was about is tried again, or does not matter: the log of errors has it."""
    if error is not None:
        explain(error)
