"""The SQLite file of a log: its statements and transactions. All sync, for one thread.

Running streams all append to the end of `tail`, so that a commit writes a page or two however
many streams take part in it. The events of a
stream are filed into `pages` of up to a thousand, and with its end the last of them; ended
streams are read from there only. Rows of `tail` that are filed are dead and swept from its
front; the few live ones there move to its end. (One clustered table instead made an append
seven times dearer with a hundred streams, since each touched a page of its own.)
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import structlog

from ...events import Event, StreamEnd, decode, encode
from ...ledger.accounts import NOTHING, LimitReached, ReservationRequest
from ..errors import LogUnusable
from ..recovery import (
    LOST,
    REMOVED,
    UNREADABLE,
    Close,
    OrphanedStream,
    StreamFacts,
    close_free,
    closing_events,
    closing_of,
)
from ..stream_ended import StreamEnded
from ..stream_info import StreamInfo, unpack_info
from ..values import Claim, LogState
from ..waiting_rows import Dropped
from .accounts import SqliteAccounts
from .schema import VERSION, connect, reason

PAGE_BYTES = 2**18
"""How much of a stream is read at once, at most one row more."""

TAIL_ROWS = 10_000
"""So many dead rows may stand in the tail before any is swept."""

# How many streams, pages and rows of the tail one transaction deals with.
RECOVERED_AT_ONCE = 100
PURGED_AT_ONCE = 32
SWEPT_AT_ONCE = 1_000

REMEMBERED_IDS = 100_000
"""How many removed streams are reported as expired, not unknown, and for how long."""
REMEMBERED_S = 86_400

ROW = "key, started_at, ended_at, last, gone_at IS NOT NULL, process, owner"

log = structlog.get_logger("seseragi.eventlog")


TailRow = tuple[int, bytes]
"""The number of the first event, and the events."""

MAX_KEY = 2**63 - 1


class Row(NamedTuple):
    key: int
    started_at: float
    ended_at: float | None
    last: int
    gone: bool
    process: int
    """That produces it, or did; 0 for one that had the file alone."""
    owner: str

    def state(self) -> LogState:
        return LogState(
            self.last, self.ended_at is not None, self.started_at, self.ended_at, owner=self.owner
        )


class Gone(NamedTuple):
    """Streams that have been removed, and the bytes they had."""

    ids: list[str]
    size: int
    ended_streams: Sequence[StreamEnded] = ()
    """Those that had begun and had not ended."""


class EndedOrphans(NamedTuple):
    """Streams of a lost process that have been ended."""

    dealt_with: int
    """How many; 0 when all have ended."""
    ended_streams: Sequence[StreamEnded]
    """Those that had begun."""


class Durable(partial[Any]):
    """Work whose transaction is on the disk when it returns (`synchronous = FULL`)."""


class Database:
    """An open file. All that write are called by `transact`.

    `close` says what streams have cost that are ended for their producers.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        process: int = 0,
        first_key: int = 1,
        close: Close = close_free,
    ) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._close_orphan = close
        self.accounts = SqliteAccounts(connection, alone=not process)
        self._dropped = Dropped()
        self._process = process
        self._oldest = self._next = first_key
        """The first key of the tail and the one after its last, of this process's rows."""
        self._filed: dict[int, int] = {}
        """The last event that is in `pages`, for each running stream."""
        self._rows: dict[int, int] = {}
        """How many live rows each running stream has in the tail, and all of them."""
        self._live = 0
        self._staged: list[Callable[[], None]] = []
        self._level = "NORMAL"
        self.healthy = True
        """Whether the last transaction that wrote to the file could; read by any thread."""

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        now: float,
        on_orphans: Callable[[Sequence[StreamEnded]], None] = lambda _: None,
        close: Close = close_free,
    ) -> "Database":
        """Open or create the file, ending streams that were left running.

        Raises:
            LogUnusable: it cannot be used.
        """
        connection = connect(path)
        try:
            database = cls(connection, close=close)
            database.recover(now, on_orphans)
        except sqlite3.Error as error:
            connection.close()
            raise LogUnusable(f"{path}: {reason(error)}") from None
        return database

    def close(self) -> None:
        self._connection.close()

    def transact(self, works: Sequence[Callable[[], Any]]) -> list[Any]:
        """Do the works in one transaction: all or none."""
        self._staged = []
        self.accounts.begin()
        changes = self._connection.total_changes
        level = "FULL" if any(isinstance(work, Durable) for work in works) else "NORMAL"
        try:
            if level != self._level:
                self._execute(f"PRAGMA synchronous = {level}")
                self._level = level
            with self._connection:
                self._execute("BEGIN IMMEDIATE")
                results = [work() for work in works]
                self.accounts.write()
                surplus = self._next - self._oldest - 2 * self._live - TAIL_ROWS
                if surplus > 0:
                    self.sweep_tail(surplus + SWEPT_AT_ONCE)
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

    def touch(self) -> None:
        """Write to the file, to see whether that can be done."""
        self._execute(f"PRAGMA user_version = {VERSION}")
        self._staged.append(lambda: setattr(self, "healthy", True))

    # Streams

    def create(
        self,
        claim: Claim,
        key: str | None,
        *,
        now: float,
        kept_after: float,
        over: str | None = None,
        owner: str = "",
        info: bytes = b"",
        reserve: ReservationRequest | None = None,
    ) -> tuple[Claim, int | None] | LimitReached:
        """Add a running stream, bound to an idempotency key, and give its own key.

        If the former is bound to a stream that is kept, and is not `over`, give that and add
        nothing. Nor is anything added if there is not enough left to reserve: that is given
        then and not raised, since others' work is done in the same transaction.
        """
        bound = None if key is None else self.claimed(key, kept_after=kept_after)
        if bound is not None and bound.stream != over:
            return bound, None
        grant = None
        if reserve is not None:
            try:
                grant = self.accounts.reserve(reserve)
            except LimitReached as refused:
                return refused
        row = self._execute(
            "INSERT INTO streams (id, started_at, process, owner) VALUES (?, ?, ?, ?)",
            (claim.stream, now, self._process, owner),
        ).lastrowid
        assert row is not None  # noqa: S101  (it is an INSERT)
        if key is not None:
            self._execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", (key, *claim[:2]))
        self._execute("INSERT INTO records VALUES (?, ?)", (row, info))
        if reserve is not None and grant is not None:
            self.accounts.hold(row, reserve, grant)
        self._staged.append(lambda: self._filed.update({row: 0}))
        return claim._replace(grant=grant), row

    def append(self, key: int, first: int, events: Sequence[Event]) -> int:
        """Add events of a running stream, the first of which has this number; give the size."""
        if key not in self._filed:  # it has been removed
            return 0
        data = _pack(events)
        self._execute("INSERT INTO tail VALUES (?, ?, ?, ?)", (self._next, key, first, data))
        self._next += 1
        self._rows[key] = self._rows.get(key, 0) + 1
        self._live += 1
        return len(data)

    def file(self, key: int, first: int, events: Sequence[Event]) -> None:
        """File events that were appended, and are all there are from the first on."""
        if key not in self._filed:  # it has been removed
            return
        self._execute("INSERT INTO pages VALUES (?, ?, ?)", (key, first, _pack(events)))
        last = first + len(events) - 1
        self._execute("UPDATE streams SET last = ? WHERE key = ?", (last, key))

        def filed() -> None:
            self._filed[key] = last
            self._live -= self._rows.pop(key, 0)

        self._staged.append(filed)

    def end(self, key: int, *, at: float, last: int, size: int) -> bool:
        """Note that a stream has ended, all events of which are filed; False if it was removed."""
        ended = self._execute(
            "UPDATE streams SET ended_at = ?, last = ?, size = ? WHERE key = ? AND gone_at IS NULL",
            (at, last, size, key),
        )
        self._staged.append(lambda: self._settle(key))
        return ended.rowcount > 0

    def _settle(self, key: int) -> None:
        """All rows that the stream has in the tail are dead."""
        self._filed.pop(key, None)
        self._live -= self._rows.pop(key, 0)

    def find(self, id: str) -> Row | None:
        row = self._execute(
            f"SELECT {ROW} FROM streams WHERE id = ?",  # noqa: S608  (a constant)
            (id,),
        ).fetchone()
        return None if row is None else Row(*row)

    def read(self, key: int, after: int, limit: int) -> list[Event]:
        """Return events that are filed after the cursor: some, if there are any."""
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

    def info(self, row: Row, id: str) -> StreamInfo:
        """Return what a stream was created with."""
        found = self._execute("SELECT record FROM records WHERE stream = ?", (row.key,)).fetchone()
        return unpack_info(found and found[0], id, started_at=row.started_at)

    def kept(self) -> int:
        """Add up the sizes of the ended streams that are kept."""
        size = self._execute("SELECT total(size) FROM streams WHERE gone_at IS NULL").fetchone()[0]
        return int(size)

    # Idempotency keys

    def claimed(self, key: str, *, kept_after: float) -> Claim | None:
        """Return what a key is bound to, if that is kept."""
        bound = self._execute(
            "SELECT claims.stream, digest FROM claims JOIN streams ON streams.id = claims.stream "
            "WHERE claims.key = ? AND gone_at IS NULL AND (ended_at IS NULL OR ended_at > ?)",
            (key, kept_after),
        ).fetchone()
        return None if bound is None else Claim(*bound)

    # Names

    def name(self, name: str, id: str) -> bool:
        """Bind a name to a stream; False if the stream was removed."""
        added = self._execute(
            "INSERT OR REPLACE INTO names "
            "SELECT ?, id FROM streams WHERE id = ? AND gone_at IS NULL",
            (name, id),
        )
        return added.rowcount > 0

    def find_named(self, name: str) -> str | None:
        row = self._execute("SELECT stream FROM names WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    # Removal

    def forget(self, id: str, *, now: float) -> Gone:
        """Remove one stream, running or ended, and what the tail holds of it."""
        row = self.find(id)
        if row is None or row.gone:
            return Gone([], 0)
        orphan = self._removed(row, id, now=now) if row.ended_at is None else None
        ended = [] if orphan is None else [self._settle_orphan(row.key, orphan)]
        size = self._execute("SELECT size FROM streams WHERE key = ?", (row.key,)).fetchone()[0]
        self._execute("DELETE FROM tail WHERE stream = ?", (row.key,))
        gone = self._forget([(row.key, id, size)], now=now)
        return gone._replace(ended_streams=ended)

    def _removed(self, row: Row, id: str, *, now: float) -> OrphanedStream | None:
        """Return what there is to tell of a stream that is removed while it runs."""
        facts = StreamFacts()
        live = [data for first, data in self._tails_of([row.key])[row.key] if first > row.last]
        if not (row.last or live):
            return None
        with contextlib.suppress(msgspec.MsgspecError):
            for _ in facts.watch(self._logged(row.key, live)):
                pass
        info = self.info(row, id)
        return facts.orphaned(info, REMOVED, started_at=row.started_at, ended_at=now)

    def forget_ended(self, until: float, *, now: float) -> Gone:
        """Remove streams that ended by then, some at a time."""
        return self._forget(
            self._execute(
                "SELECT key, id, size FROM streams "
                "WHERE gone_at IS NULL AND ended_at <= ? ORDER BY ended_at LIMIT 500",
                (until,),
            ).fetchall(),
            now=now,
        )

    def forget_oldest(self, size: int, *, now: float) -> Gone:
        """Remove the streams that ended first until so many bytes are free."""
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
            self._execute("DELETE FROM claims WHERE stream = ?", (stream,))
            self._execute("DELETE FROM names WHERE stream = ?", (stream,))
            self.accounts.settle(key, stream, NOTHING)  # if it never began
            self._staged.append(partial(self._settle, key))
        return Gone([stream for _, stream, _ in rows], sum(size for *_, size in rows))

    def purge(self) -> bool:
        """Take the events of removed streams out of the file, some; tell if there may be more."""
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
            room -= self._execute("DELETE FROM records WHERE stream = ?", (key,)).rowcount
            self._execute("UPDATE streams SET size = 0 WHERE key = ?", (key,))
            room -= 1
        return room < PURGED_AT_ONCE

    def tidy(self, *, now: float) -> None:
        """Forget the names of streams long removed."""
        self._execute("DELETE FROM streams WHERE gone_at <= ? AND size = 0", (now - REMEMBERED_S,))
        self._execute(
            "DELETE FROM streams WHERE key IN (SELECT key FROM streams WHERE gone_at IS NOT NULL "
            "ORDER BY gone_at DESC LIMIT -1 OFFSET ?) AND size = 0",
            (REMEMBERED_IDS,),
        )
        self.accounts.forget_idle(now=now)

    def tail_end(self) -> int:
        """Return the key that the next row of the tail has, if any row there is dead; else 0."""
        return self._next if self._next - self._oldest > self._live else 0

    def sweep_tail(self, count: int) -> int:
        """Remove so many rows from the tail's front, but move live ones to its end.

        Gives the key of the first row that is left in place.
        """
        end = min(self._oldest + count, self._next)
        for stream, first, data in self._execute(
            "SELECT stream, first, events FROM tail WHERE key >= ? AND key < ? ORDER BY key",
            (self._oldest, end),
        ).fetchall():
            if first > self._filed.get(stream, first):
                self._execute(
                    "INSERT INTO tail VALUES (?, ?, ?, ?)", (self._next, stream, first, data)
                )
                self._next += 1
        self._execute("DELETE FROM tail WHERE key >= ? AND key < ?", (self._oldest, end))

        def swept() -> None:
            self._oldest = end

        self._staged.append(swept)
        return end

    # After a process that ended without ending its streams

    def recover(self, now: float, on_orphans: Callable[[Sequence[StreamEnded]], None]) -> None:
        """End all streams that run, and empty the tail: there is no other process."""
        count = 0
        while (ended := self.transact([partial(self.end_orphans, now=now)])[0]).dealt_with:
            count += ended.dealt_with
            on_orphans(ended.ended_streams)
        with self._connection:
            self._execute("BEGIN IMMEDIATE")
            for table in ("tail", "processes", "notes", "attended"):
                self._execute(f"DELETE FROM {table}")  # noqa: S608  (a constant)
        if count:
            log.warning("streams of a lost process ended", streams=count)

    def end_orphans(self, process: int | None = None, *, now: float) -> EndedOrphans:
        """End some streams that nobody produces any more, of one process or of all."""
        keys = [
            key
            for (key,) in self._execute(
                "SELECT key FROM streams WHERE ended_at IS NULL AND gone_at IS NULL "
                "AND process = ifnull(?, process) LIMIT ?",
                (process, RECOVERED_AT_ONCE),
            ).fetchall()
        ]
        ended: list[StreamEnded] = []
        for key, tail in self._tails_of(keys).items():
            found = self._end_orphan(key, tail, now)
            if found is not None:
                ended.append(found)
        return EndedOrphans(len(keys), ended)

    def _end_orphan(self, key: int, tail: Sequence[TailRow], now: float) -> StreamEnded | None:
        pages = self._execute(
            "SELECT first, events FROM pages WHERE stream = ? ORDER BY first DESC LIMIT 1", (key,)
        ).fetchone()
        filed = 0 if pages is None else pages[0] + pages[1].count(b"\n")
        live = [data for first, data in tail if first > filed]
        stream = self._execute("SELECT id FROM streams WHERE key = ?", (key,)).fetchone()[0]
        row = self.find(stream)
        assert row is not None  # noqa: S101  (it has just been found)
        facts = StreamFacts()
        tell = partial(
            facts.orphaned, self.info(row, stream), started_at=row.started_at, ended_at=now
        )
        try:
            events = facts.watch(self._logged(key, live))
            ending = closing_events(events, status="interrupted", error=LOST)
        except msgspec.MsgspecError as error:
            log.error("stream cannot be read and is removed", key=key, error=str(error))
            ending = []
        if not ending or not (filed or live):  # nobody has seen anything of it
            unread = self._settle_orphan(key, tell(UNREADABLE)) if filed or live else None
            found = self._execute("SELECT key, id, size FROM streams WHERE key = ?", (key,))
            self._forget(found.fetchall(), now=now)
            return unread
        end = ending[-1]
        assert isinstance(end, StreamEnd)  # noqa: S101  (as `closing_events` says)
        facts.count += len(ending)
        ended = self._settle_orphan(key, tell(end))
        data = b"\n".join([*live, _pack([*ending[:-1], ended.end])])
        self._execute("INSERT INTO pages VALUES (?, ?, ?)", (key, filed + 1, data))
        last = filed + data.count(b"\n") + 1
        size = self._execute(
            "SELECT sum(length(events)) + (SELECT total(length(record)) FROM records "
            "WHERE stream = :key) FROM pages WHERE stream = :key",
            {"key": key},
        ).fetchone()[0]
        self.end(key, at=now, last=last, size=int(size))
        return ended

    def _settle_orphan(self, key: int, orphan: OrphanedStream) -> StreamEnded:
        """Settle a stream that is ended for its producer; return it with its cost."""
        ended, settlement = closing_of(orphan, self._close_orphan)
        self.accounts.settle(key, ended.info.id, settlement)
        return ended

    def _logged(self, key: int, live: Iterable[bytes]) -> Iterator[Event]:
        """Yield all events of a stream that had no end."""
        for (data,) in self._execute(
            "SELECT events FROM pages WHERE stream = ? ORDER BY first", (key,)
        ):
            yield from map(decode, data.split(b"\n"))
        for data in live:
            yield from map(decode, data.split(b"\n"))

    def _tails_of(
        self, keys: Sequence[int], *, after: int = 0, end: int = MAX_KEY
    ) -> dict[int, list[TailRow]]:
        """Return what the tail has of each stream, filed or not, in the order of events.

        Only rows whose keys are after the one and before the other.
        """
        tails: dict[int, list[TailRow]] = {key: [] for key in keys}
        marks = ",".join("?" * len(keys))
        where = f"key > ? AND key < ? AND stream IN ({marks})"
        for stream, first, data in self._execute(
            f"SELECT stream, first, events FROM tail WHERE {where}",  # noqa: S608  (marks only)
            (after, end, *keys),
        ):
            tails[stream].append((first, data))
        for rows in tails.values():
            rows.sort()
        return tails


def _pack(events: Iterable[Event]) -> bytes:
    """JSON has no line end of its own, so one stands between two events."""
    return b"\n".join(map(encode, events))
