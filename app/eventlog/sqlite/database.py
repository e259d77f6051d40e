"""The SQLite file of a log: its statements and transactions. All sync, for one thread.

The events of a running stream are in `tail`, and are filed into `pages` of about a thousand, the
last of them with its end. Ended streams are read from `pages` only.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import structlog

from ...events import Event, StreamEnd, decode, encode_lines
from ...ledger.accounts import NOTHING, LimitReached
from ..contract import ChatBusy, Claim, LogState, LogUnusable
from ..listing import ListedStream, ListPosition, pack_listing, place, unpack_listing
from ..recovery import (
    REMOVED,
    UNREADABLE,
    Close,
    OrphanedStream,
    close_free,
    closing_of,
    end_orphan,
    orphan_of,
)
from ..stream_ended import StreamEnded
from ..stream_info import StreamInfo, unpack_info
from ..takeover import Orphan
from ..waiting_rows import RECORDS, Dropped
from .accounts import SqliteAccounts
from .processes import Processes, clear
from .schema import VERSION, connect, reason
from .tail_table import TailRow, TailTable

PAGE_BYTES = 2**18
"""The limit of one read, and at most one row more."""

# The limits of one transaction: streams ended, pages purged.
RECOVERED_AT_ONCE = 100
PURGED_AT_ONCE = 32

REMEMBERED_IDS = 100_000
REMEMBERED_S = 86_400
"""How many removed streams are reported as expired, not unknown, and for how long."""

_FORGET_NAME = "UPDATE OR REPLACE names SET name = name || char(31) || stream WHERE "
"""Lets a name lead to its stream no longer; `named` still finds that."""

_NAMED = (
    "SELECT stream FROM names WHERE (name = ?1 OR "
    "name BETWEEN ?1 || char(31) AND ?1 || char(32) AND name = ?1 || char(31) || stream)"
)
_RUNNING = (
    " AND stream IN (SELECT id FROM streams WHERE ended_at IS NULL AND gone_at IS NULL) LIMIT 1"
)

NOBODY = 0
"""The process of running streams that wait to be taken over; all their events are filed."""

ROW = "key, started_at, ended_at, last, gone_at IS NOT NULL, process, owner"

log = structlog.get_logger("seseragi.eventlog")


class Row(NamedTuple):
    """A stream in the file."""

    key: int
    started_at: float
    ended_at: float | None
    last: int
    gone: bool
    process: int
    """The process that produces it, or did."""
    owner: str

    @property
    def is_orphaned(self) -> bool:
        """Whether it runs, and waits for a process that takes it over."""
        return self.process == NOBODY and self.ended_at is None

    def state(self) -> LogState:
        return LogState(
            self.last,
            self.ended_at is not None,
            started_at=self.started_at,
            ended_at=self.ended_at,
            owner=self.owner,
        )


class Gone(NamedTuple):
    """Removed streams, and their size in bytes."""

    ids: list[str]
    size: int
    ended_streams: Sequence[StreamEnded] = ()
    """Those that had begun and had not ended."""


class EndedOrphans(NamedTuple):
    """Orphaned streams that were ended."""

    dealt_with: int
    """How many; 0 if there are no more."""
    ended_streams: Sequence[StreamEnded]
    """Those that had begun."""


class WatchPosition(NamedTuple):
    """How far a stream of another process was read."""

    key: int
    process: int
    at: int
    """The last key of the tail that was read; 0 at first."""


class Tailed(NamedTuple):
    """What another process has added to one stream."""

    row: Row | None
    rows: Sequence[TailRow]
    """The rows of the tail since the last poll, and perhaps earlier ones."""
    at: int


class Durable(partial[Any]):
    """Work whose transaction is on the disk when it returns (`synchronous = FULL`)."""


def prepare(
    path: Path,
    *,
    now: float,
    on_orphans: Callable[[Sequence[StreamEnded]], None] = lambda _: None,
    close: Close = close_free,
    queues: Sequence[str] = (RECORDS,),
) -> None:
    """Create the file, or end the streams that its last processes left running.

    `close` prices them; `on_orphans` receives them. Those that may be taken over wait for that, as
    streams of `NOBODY`. Then processes may `join`.

    Raises:
        LogUnusable: it cannot be used, or a process uses it.
    """
    connection = connect(path, alone=True)
    try:
        database = Database(connection, path, process=0, close=close, queues=queues)
        database.recover(now, on_orphans)
        clear(path)
    except sqlite3.Error as error:
        raise LogUnusable(f"{path}: {reason(error)}") from None
    finally:
        connection.close()


class Database:
    """The file, open in one process. All methods that write are called by `transact`.

    `close` prices orphaned streams.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        *,
        process: int,
        close: Close,
        queues: Sequence[str] = (RECORDS,),
    ) -> None:
        self.process = process
        self.accounts = SqliteAccounts(connection, queues)
        self.processes = Processes(connection, path, own=process)
        self.healthy = True
        """Whether the last transaction that wrote to the file succeeded; read by any thread."""
        self._connection = connection
        self._execute = connection.execute
        self._close_orphan = close
        self._dropped = Dropped()
        self._staged: list[Callable[[], None]] = []
        """Changes of this process's memory, made after the commit."""
        self.tail = TailTable(connection, process=process, staged=self._staged)
        self._level = "NORMAL"
        self._version = self._polled_version = -1
        """`data_version`, which others' writes change, at the last transaction and poll."""

    @classmethod
    def join(
        cls, path: Path, *, close: Close = close_free, queues: Sequence[str] = (RECORDS,)
    ) -> "Database":
        """Open a prepared file as one more process.

        Raises:
            LogUnusable: it cannot be used.
        """
        connection = connect(path, alone=False)
        try:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                process = connection.execute("INSERT INTO processes DEFAULT VALUES").lastrowid
                assert process is not None  # noqa: S101  (it is an INSERT)
                database = cls(connection, path, process=process, close=close, queues=queues)
                database.processes.take_presence()
        except (sqlite3.Error, OSError) as error:
            connection.close()
            raise LogUnusable(f"{path}: {reason(error)}") from None
        return database

    def close(self, *, now: float) -> None:
        """Sign off; other processes, or the next start, end the streams that still run."""

        def leave() -> None:
            self.processes.all_readers_gone(self.process, now=now)
            self._sign_off(self.process)

        with suppress(sqlite3.Error):
            self.transact([leave])
        self._connection.close()
        self.processes.leave()

    def _sign_off(self, process: int) -> None:
        if self.processes.sign_off(process):
            self.tail.remove_process(process)

    def transact(self, works: Sequence[Callable[[], Any]]) -> list[Any]:
        """Do the works in one transaction: all or none."""
        self._staged.clear()
        level = "FULL" if any(isinstance(work, Durable) for work in works) else "NORMAL"
        try:
            changes = self._connection.total_changes
            if level != self._level:
                self._execute(f"PRAGMA synchronous = {level}")
                self._level = level
            with self._connection:
                self._execute("BEGIN IMMEDIATE")
                self._begin()
                results = [work() for work in works]
                self.accounts.write()
                self.tail.sweep_surplus()
        except BaseException:
            self.accounts.undo()
            self.healthy = False
            raise
        # One that changes nothing succeeds on a full disk too.
        if self._connection.total_changes > changes:
            self.healthy = True
        self.accounts.written()
        for change in self._staged:
            change()
        self._dropped.add(self.accounts.dropped)
        return results

    def _begin(self) -> None:
        """Forget what is no longer true if other processes have written."""
        version = self._execute("PRAGMA data_version").fetchone()[0]
        self.accounts.begin(unchanged=version == self._version)
        if version != self._version:
            self._version = version
            for key in self.processes.removed():
                self.tail.stop(key)

    def touch(self) -> None:
        """Write to the file, to see whether that can be done."""
        self._execute(f"PRAGMA user_version = {VERSION}")
        self._staged.append(lambda: setattr(self, "healthy", True))

    # Streams

    def create(
        self, info: StreamInfo, packed: bytes, *, now: float, kept_after: float, over: str | None
    ) -> tuple[Claim, int | None] | LimitReached | ChatBusy:
        """Add a running stream with its packed info and names; return its claim and its own key.

        If its idempotency key is bound to a stream that is stored and is not `over`, nothing is
        added, and that claim is returned. A `LimitReached` or `ChatBusy` is returned, not raised:
        the same transaction has the work of others.
        """
        key, reserve, grant = info.scoped_key, info.reserve, None
        bound = None if key is None else self.claimed(key, kept_after=kept_after)
        if bound is not None and bound.stream != over:
            return bound, None
        for name in info.scoped_names if info.alone else ():
            if busy := self._execute(_NAMED + _RUNNING, (name,)).fetchone():
                return ChatBusy(*busy)
        if reserve is not None:
            try:
                grant = self.accounts.reserve(reserve)
            except LimitReached as refused:
                return refused
        listed = pack_listing(info) if info.owner else None
        row = self._execute(
            "INSERT INTO streams (id, started_at, process, owner, listed, place) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (info.id, now, self.process, info.owner, listed, self._place(now)),
        ).lastrowid
        assert row is not None  # noqa: S101  (it is an INSERT)
        if key is not None:
            self._execute(
                "INSERT OR REPLACE INTO idempotency_keys VALUES (?, ?, ?)",
                (key, info.id, info.digest),
            )
        for name in info.scoped_names:
            self._execute(_FORGET_NAME + "name = ?", (name,))
            self._execute("INSERT OR REPLACE INTO names VALUES (?, ?)", (name, info.id))
        self._execute("INSERT INTO infos VALUES (?, ?)", (row, packed))
        if reserve is not None and grant is not None:
            self.accounts.store_reservation(row, reserve, grant)
        self.tail.start(row)
        return Claim(info.id, info.digest, grant), row

    def append(self, key: int, first: int, events: Sequence[Event]) -> int | None:
        """Add events to a running stream, the first with this number; return their size.

        None if the stream was removed.
        """
        if key not in self.tail:
            return None
        data = _pack(events)
        self.tail.append(key, first, data)
        return len(data)

    def file(self, key: int, first: int, events: Sequence[Event]) -> None:
        """File the appended events of a stream from this number on, in one page."""
        if key not in self.tail:  # it was removed
            return
        self._execute("INSERT INTO pages VALUES (?, ?, ?)", (key, first, _pack(events)))
        last = first + len(events) - 1
        self._execute("UPDATE streams SET last = ? WHERE key = ?", (last, key))
        self.tail.note_filed(key, last)

    def end(self, key: int, end: Event, *, at: float, last: int, size: int) -> bool:
        """End a stream whose events are all filed; False if it was removed."""
        status = end.status if isinstance(end, StreamEnd) else None
        ended = self._execute(
            "UPDATE streams SET ended_at = ?, last = ?, size = ?, status = ?, place = ? "
            "WHERE key = ? AND gone_at IS NULL",
            (at, last, size, status, self._place(at), key),
        )
        self.tail.stop_soon(key)
        return ended.rowcount > 0

    def find(self, id: str) -> Row | None:
        row = self._execute(
            f"SELECT {ROW} FROM streams WHERE id = ?",  # noqa: S608  (a constant)
            (id,),
        ).fetchone()
        return None if row is None else Row._make(row)

    def runs(self, id: str) -> bool:
        """Return whether a stream has neither ended nor been removed."""
        row = self.find(id)
        return row is not None and row.ended_at is None and not row.gone

    def read(self, key: int, after: int, limit: int) -> list[Event]:
        """Return filed events after the cursor: some, if there are any."""
        lines: list[bytes] = []
        size = 0
        for first, data in self._execute(
            "SELECT first, events FROM pages WHERE stream = :key AND first >= "
            "(SELECT max(first) FROM pages WHERE stream = :key AND first <= :after + 1) "
            "ORDER BY first",
            {"key": key, "after": after},
        ):
            lines += data.split(b"\n")[max(after + 1 - first, 0) :]
            size += len(data)
            if len(lines) >= limit or size > PAGE_BYTES:
                break
        return [decode(line) for line in lines[:limit]]

    def read_running(self, row: Row, after: int, limit: int) -> list[Event]:
        """Return events after the cursor of a stream that another process produces."""
        filed = self.read(row.key, after, limit) if after < row.last else []
        return filed or list(islice(self.tail.read(row.key, row.process, after), limit))

    def info(self, row: Row, id: str) -> StreamInfo:
        """Return the info that a stream was created with."""
        found = self._execute("SELECT info FROM infos WHERE stream = ?", (row.key,)).fetchone()
        return unpack_info(found and found[0], id, started_at=row.started_at)

    def stored_bytes(self) -> int:
        """Return the size of all ended streams that were not removed."""
        size = self._execute("SELECT total(size) FROM streams WHERE gone_at IS NULL").fetchone()[0]
        return int(size)

    def total_bytes(self, own: int) -> int:
        """Return the size of all streams but the running ones of this process, which is given."""
        return self.stored_bytes() + self.processes.report_size(own)

    # Idempotency keys

    def claimed(self, key: str, *, kept_after: float) -> Claim | None:
        """Return the claim of a key, if its stream is still stored."""
        bound = self._execute(
            "SELECT stream, digest FROM idempotency_keys AS keys JOIN streams ON id = stream "
            "WHERE keys.key = ? AND gone_at IS NULL AND (ended_at IS NULL OR ended_at > ?)",
            (key, kept_after),
        ).fetchone()
        return None if bound is None else Claim(*bound)

    # Names

    def find_named(self, name: str) -> str | None:
        row = self._execute("SELECT stream FROM names WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def named(self, name: str) -> list[str]:
        return [stream for (stream,) in self._execute(_NAMED, (name,))]

    def forget_names(self, stream: str) -> None:
        leads = "stream = ?1 AND substr(name, -length(?1) - 1) != char(31) || ?1"
        self._execute(_FORGET_NAME + leads, (stream,))

    # Lists

    def _place(self, now: float) -> float:
        """Return the place in lists of an entry that this transaction stores."""
        return place(now, self._execute("SELECT max(place) FROM streams").fetchone()[0])

    def list_streams(
        self, owner: str, after: ListPosition, *, limit: int, kept_after: float
    ) -> list[ListedStream]:
        """Do `EventLog.list_streams`; those that ended by `kept_after` have expired."""
        rows = self._execute(
            "SELECT id, listed, started_at, place, ended_at, status, last FROM streams "
            "WHERE owner = :owner AND owner != '' AND gone_at IS NULL "
            "AND (ended_at IS NULL) = NOT :ended AND (ended_at > :kept_after OR NOT :ended) "
            "AND (place, id) < (:at, :stream) ORDER BY place DESC, id DESC LIMIT :limit",
            {**after._asdict(), "owner": owner, "kept_after": kept_after, "limit": limit},
        )
        return [
            ListedStream(
                stream,
                *unpack_listing(listed),
                started_at,
                ListPosition(after.ended, stored_at, stream),
                ended_at,
                status,
                last if after.ended else 0,
            )
            for stream, listed, started_at, stored_at, ended_at, status, last in rows
        ]

    def changed_owners(self, mark: float) -> tuple[float, list[str] | None]:
        """Do `EventLog.changed_owners`: places grow with each transaction, over all processes."""
        newest: float = self._execute("SELECT max(place) FROM streams").fetchone()[0] or 1.0
        if not 0 < mark <= newest:  # the newest were removed
            return newest, None
        changed = "SELECT DISTINCT owner FROM streams INDEXED BY streams_place WHERE place > ?"
        return newest, [owner for (owner,) in self._execute(changed, (mark,))]

    # Removal

    def forget(self, id: str, *, now: float) -> Gone:
        """Remove one stream, running or ended, and its rows of the tail."""
        row = self.find(id)
        if row is None or row.gone:
            return Gone([], 0)
        self.processes.send("gone", id)
        ended = [] if row.ended_at is not None else self._settle_removed(row, id, now=now)
        size = self._execute("SELECT size FROM streams WHERE key = ?", (row.key,)).fetchone()[0]
        self.tail.remove(row.key)
        gone = self._forget([(row.key, id, size)], now=now)
        return gone._replace(ended_streams=ended)

    def _settle_removed(self, row: Row, id: str, *, now: float) -> list[StreamEnded]:
        """Settle a running stream that is removed; return it if it had begun."""
        live = self.tail.unfiled(row.key, row.last)
        if not (row.last or live):
            return []
        info, events = self.info(row, id), self._logged(row.key, live)
        orphan = orphan_of(info, events, REMOVED, started_at=row.started_at, ended_at=now)
        return [self._settle_orphan(row.key, orphan)]

    def forget_removed(self, id: str) -> None:
        """Remove the rows of a stream that this process appended before it knew of its removal."""
        row = self.find(id)
        if row is not None:
            self.tail.remove(row.key)

    def forget_ended(self, until: float, *, now: float) -> Gone:
        """Remove some of the streams that ended by then."""
        return self._forget(
            self._execute(
                "SELECT key, id, size FROM streams "
                "WHERE gone_at IS NULL AND ended_at <= ? ORDER BY ended_at LIMIT 500",
                (until,),
            ).fetchall(),
            now=now,
        )

    def forget_oldest(self, size: int, *, now: float) -> Gone:
        """Remove the streams that ended first, until so many bytes are free."""
        rows = []
        for row in self._execute(
            "SELECT key, id, size FROM streams "
            "WHERE gone_at IS NULL AND ended_at IS NOT NULL ORDER BY ended_at, key"
        ):
            if size <= 0:
                break
            rows.append(row)
            size -= row[2]
        return self._forget(rows, now=now)

    def _forget(self, rows: Sequence[tuple[int, str, int]], *, now: float) -> Gone:
        for key, stream, _ in rows:
            self._execute(
                "UPDATE streams SET gone_at = ?, size = max(size, 1) WHERE key = ?", (now, key)
            )
            self._execute("DELETE FROM idempotency_keys WHERE stream = ?", (stream,))
            self._execute("DELETE FROM names WHERE stream = ?", (stream,))
            self.accounts.settle(key, stream, NOTHING)  # if it never began
            self.tail.stop_soon(key)
        return Gone([stream for _, stream, _ in rows], sum(size for *_, size in rows))

    def purge(self) -> bool:
        """Remove some events of removed streams; return whether there may be more."""
        room = PURGED_AT_ONCE
        for (key,) in self._execute(
            "SELECT key FROM streams WHERE gone_at IS NOT NULL AND size > 0 LIMIT ?", (room,)
        ).fetchall():
            room -= self._execute(
                "DELETE FROM pages WHERE rowid IN "
                "(SELECT rowid FROM pages WHERE stream = ? LIMIT ?)",
                (key, room),
            ).rowcount
            if room <= 0:
                return True
            room -= self._execute("DELETE FROM infos WHERE stream = ?", (key,)).rowcount
            self._execute("UPDATE streams SET size = 0 WHERE key = ?", (key,))
            room -= 1
        return room < PURGED_AT_ONCE

    def tidy(self, *, now: float) -> None:
        """Forget the ids of streams that were removed long ago."""
        self._execute("DELETE FROM streams WHERE gone_at <= ? AND size = 0", (now - REMEMBERED_S,))
        self._execute(
            "DELETE FROM streams WHERE key IN (SELECT key FROM streams WHERE gone_at IS NOT NULL "
            "ORDER BY gone_at DESC LIMIT -1 OFFSET ?) AND size = 0",
            (REMEMBERED_IDS,),
        )
        self.accounts.forget_idle(now=now)
        self.processes.tidy()

    # Orphaned streams

    def recover(self, now: float, on_orphans: Callable[[Sequence[StreamEnded]], None]) -> None:
        """End all running streams, and forget all processes: there is none.

        Streams that may be taken over are `NOBODY`'s then.
        """
        count = 0
        while (ended := self.transact([partial(self.end_orphans, now=now)])[0]).dealt_with:
            count += len(ended.ended_streams)
            on_orphans(ended.ended_streams)
        self.transact([self._release_reservations])
        with self._connection:
            self._execute("BEGIN IMMEDIATE")
            for table in ("tail", "processes", "notes", "readers"):
                self._execute(f"DELETE FROM {table}")  # noqa: S608  (a constant)
        if count:
            log.warning("streams of a lost process ended", streams=count)

    def _release_reservations(self) -> None:
        """Settle what is reserved for streams that an upgrade has dropped."""
        for (key,) in self._execute(
            "SELECT stream FROM reservations WHERE stream NOT IN "
            "(SELECT key FROM streams WHERE ended_at IS NULL AND gone_at IS NULL)"
        ).fetchall():
            self.accounts.settle(key, "", NOTHING)

    def end_streams_of(self, process: int, *, now: float) -> EndedOrphans:
        """End some streams of a dead process; forget it if there are none left."""
        ended = self.end_orphans(process, now=now)
        self._polled_version = -1  # `data_version` does not count what this connection writes
        if not ended.dealt_with and process != NOBODY:
            self.processes.all_readers_gone(process, now=now)
            self._sign_off(process)
            self._staged.append(partial(self.processes.forget_dead, process))
        return ended

    def end_orphans(self, process: int | None = None, *, now: float) -> EndedOrphans:
        """End some running streams of dead processes: of one, or of all.

        Of all, those that may be taken over become `NOBODY`'s.
        """
        keys = [
            key
            for (key,) in self._execute(
                "SELECT key FROM streams WHERE ended_at IS NULL AND gone_at IS NULL "
                "AND iif(?1 IS NULL, process <> ?2, process = ?1) LIMIT ?3",
                (process, NOBODY, RECOVERED_AT_ONCE),
            ).fetchall()
        ]
        tails = self.tail.rows_of(keys)
        keeps = process is None
        ended = [self._end_orphan(key, tail, now, keeps=keeps) for key, tail in tails.items()]
        return EndedOrphans(len(keys), [one for one in ended if one is not None])

    def _end_orphan(
        self, key: int, tail: Sequence[TailRow], now: float, *, keeps: bool
    ) -> StreamEnded | None:
        """End a stream; one that has not begun, or cannot be read, is removed.

        `keeps`: one that may be taken over is filed instead.
        """
        pages = self._execute(
            "SELECT first, events FROM pages WHERE stream = ? ORDER BY first DESC LIMIT 1", (key,)
        ).fetchone()
        filed = 0 if pages is None else pages[0] + pages[1].count(b"\n")
        live = [data for first, data in tail if first > filed]
        stream = self._execute("SELECT id FROM streams WHERE key = ?", (key,)).fetchone()[0]
        row = self.find(stream)
        assert row is not None  # noqa: S101  (it was just found)
        if not (filed or live):
            self._forget([(key, stream, 0)], now=now)
            return None
        info, events = self.info(row, stream), self._logged(key, live)
        if keeps and info.takeover:
            self._file_rest(key, filed, live, process=NOBODY)
            return None
        times = {"started_at": row.started_at, "ended_at": now}
        try:
            ending, closing = end_orphan(info, events, self._close_orphan, **times)
        except (ValueError, msgspec.MsgspecError) as error:
            log.error("stream cannot be read and is removed", stream=stream, error=str(error))
            orphan = orphan_of(info, self._logged(key, live), UNREADABLE, **times)
            ended = self._settle_orphan(key, orphan)
            self._forget([(key, stream, 0)], now=now)
            return ended
        self.accounts.settle(key, stream, closing.settlement)
        data = b"\n".join([*live, _pack(ending)])
        self._execute("INSERT INTO pages VALUES (?, ?, ?)", (key, filed + 1, data))
        last = filed + data.count(b"\n") + 1
        self.end(key, ending[-1], at=now, last=last, size=self._size_of(key))
        return closing.ended

    def _size_of(self, key: int) -> int:
        """Return the bytes in the file of a stream whose events are all filed."""
        size = self._execute(
            "SELECT total(length(events)) + (SELECT total(length(info)) FROM infos "
            "WHERE stream = :key) FROM pages WHERE stream = :key",
            {"key": key},
        ).fetchone()[0]
        return int(size)

    def _file_rest(self, key: int, filed: int, live: Sequence[bytes], *, process: int) -> int:
        """File the last events of a dead process's stream, which another has from now on.

        Returns the number of the last one.
        """
        last = filed
        if live:
            data = b"\n".join(live)
            self._execute("INSERT INTO pages VALUES (?, ?, ?)", (key, filed + 1, data))
            last += data.count(b"\n") + 1
        self._execute(
            "UPDATE streams SET process = ?, last = ? WHERE key = ?", (process, last, key)
        )
        return last

    def hand_over(self, id: str) -> None:
        """Make a stream of this process `NOBODY`'s."""
        row = self.find(id)
        if row is not None and row.ended_at is None and not row.gone:
            live = self.tail.unfiled(row.key, row.last)
            self._file_rest(row.key, row.last, live, process=NOBODY)
            self.tail.stop_soon(row.key)

    def find_left(self, process: int) -> list[str]:
        """Return the running streams of a dead process, or of `NOBODY`."""
        found = self._execute(
            "SELECT id FROM streams WHERE process = ? AND ended_at IS NULL AND gone_at IS NULL",
            (process,),
        )
        return [stream for (stream,) in found]

    def find_orphan(self, id: str) -> Orphan | None:
        """Read a running stream of a dead process; None if it may not be taken over.

        One that was stopped may not, nor one without an event.
        """
        row = self.find(id)
        if row is None or row.gone or row.ended_at is not None:
            return None
        info = self.info(row, id)
        if not info.takeover or self.processes.is_noted(id):
            return None
        events = list(self._logged(row.key, self.tail.unfiled(row.key, row.last)))
        granted = self.accounts.granted(row.key)
        return Orphan(info, events, row.started_at, granted) if events else None

    def take(self, id: str, *, process: int, last: int) -> tuple[int, int] | None:
        """Give a dead process's stream with so many events to this one; return its key and size.

        None if it has ended or was removed, or another process has it.
        """
        row = self.find(id)
        if row is None or row.gone or row.ended_at is not None or row.process != process:
            return None
        live = self.tail.unfiled(row.key, row.last)
        if self._file_rest(row.key, row.last, live, process=self.process) != last:
            raise ValueError(f"stream {id} has other events than were read")
        self.tail.start(row.key, filed=last)
        return row.key, self._size_of(row.key)

    def _settle_orphan(self, key: int, orphan: OrphanedStream) -> StreamEnded:
        """Settle an orphaned stream; return it with its cost."""
        ended, settlement = closing_of(orphan, self._close_orphan)
        self.accounts.settle(key, ended.info.id, settlement)
        return ended

    def _logged(self, key: int, live: Iterable[bytes]) -> Iterator[Event]:
        """Yield all events of a stream that has no end."""
        for (data,) in self._execute(
            "SELECT events FROM pages WHERE stream = ? ORDER BY first", (key,)
        ):
            yield from map(decode, data.split(b"\n"))
        for data in live:
            yield from map(decode, data.split(b"\n"))

    # Streams of other processes

    def read_progress(self, positions: Sequence[WatchPosition]) -> tuple[bool, list[Tailed] | None]:
        """Return whether there are notes, and what was added to the streams at these positions.

        None if no other process has written anything.
        """
        version = self._execute("PRAGMA data_version").fetchone()[0]
        if version == self._polled_version and all(position.at for position in positions):
            return False, None
        self._execute("BEGIN")  # one state of the file
        try:
            noted, found = self.processes.has_notes(), self._find_progress(positions)
        finally:
            self._execute("COMMIT")
        # Notes that could not be taken are found again.
        self._polled_version = -1 if noted else version
        return noted, found

    def _find_progress(self, positions: Sequence[WatchPosition]) -> list[Tailed]:
        marks = ",".join("?" * len(positions))
        found = self._execute(
            f"SELECT {ROW} FROM streams WHERE key IN ({marks})",  # noqa: S608  (question marks)
            [position.key for position in positions],
        )
        rows = {row[0]: Row._make(row) for row in found.fetchall()}
        groups: dict[tuple[int, int], list[int]] = {}
        for position in positions:
            groups.setdefault((position.process, position.at), []).append(position.key)
        tails: dict[int, tuple[list[TailRow], int]] = {}
        for (process, at), keys in groups.items():
            new, end = self.tail.read_new(keys, process, at)
            tails |= {key: (tail, end) for key, tail in new.items()}
        return [Tailed(rows.get(position.key), *tails[position.key]) for position in positions]


def _pack(events: Iterable[Event]) -> bytes:
    """Encode events as JSON, one a line."""
    return encode_lines(events)[:-1]
