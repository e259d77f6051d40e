"""The SQLite file of a log that several processes share. All sync, for one thread.

Each process has a range of keys in the tail; it writes and removes rows of its own range only. A
process sends another a note about a stream. It reads what others append by scanning their
ranges from the last key that it has seen.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ...events import Event, Stopper, decode
from ..broadcast import MAX_MESSAGES, MAX_READ_BYTES
from ..errors import LogUnusable
from ..recovery import Close, close_free
from ..stream_ended import StreamEnded
from .database import ROW, Database, EndedOrphans, Gone, Row, TailRow
from .presence import Presence, clear
from .schema import connect, reason

RANGE_BITS = 40
"""So many rows a process may add to the tail in its life: 10,000 a second for three years."""


class WatchPosition(NamedTuple):
    """How far a stream of another process has been looked at."""

    key: int
    process: int
    at: int
    """The key of the tail that has been come to; 0 if it has not been looked at."""


class Progress(NamedTuple):
    """What others have added to one stream."""

    row: Row | None
    rows: Sequence[TailRow]
    """What has been added to the tail since the look before, and perhaps more."""
    at: int


class Note(NamedTuple):
    """What another process says of a stream that is produced here."""

    what: str
    """Who asks for its end, or `gone` where it has been removed."""
    stream: str


def prepare(
    path: Path,
    *,
    now: float,
    on_orphans: Callable[[Sequence[StreamEnded]], None] = lambda _: None,
    close: Close = close_free,
) -> None:
    """Make the file ready to be shared; end what an earlier life left running, and tell of it.

    `close` says what those streams have cost.

    Raises:
        LogUnusable: it cannot be used, or a process uses it already.
    """
    database = Database.open(path, now=now, on_orphans=on_orphans, close=close)
    clear(path)
    database.close()


class SharedDatabase(Database):
    """A file that has been prepared, open in one of several processes."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        *,
        process: int,
        presence: Presence,
        close: Close,
    ) -> None:
        super().__init__(connection, process=process, first_key=_range(process)[0] + 1, close=close)
        self.process = process
        self._path = path
        self._presence = presence
        self._dead: dict[int, Presence] = {}
        """Processes that are no more, with their locks, until their streams have ended."""
        self._version = -1

    @classmethod
    def join(cls, path: Path, *, close: Close = close_free) -> "SharedDatabase":
        """Open the file as one process more.

        Raises:
            LogUnusable: it cannot be used.
        """
        connection = connect(path, alone=False)
        try:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                process = connection.execute("INSERT INTO processes DEFAULT VALUES").lastrowid
                assert process is not None  # noqa: S101  (it is an INSERT)
                presence = Presence.take(path, process)
                assert presence is not None  # noqa: S101  (nobody else knows of it)
        except (sqlite3.Error, OSError) as error:
            connection.close()
            raise LogUnusable(f"{path}: {reason(error)}") from None
        return cls(connection, path, process=process, presence=presence, close=close)

    def close(self) -> None:
        """Leave the others; what still runs is ended by them."""
        with suppress(sqlite3.Error):
            self.transact([partial(self._sign_off, self.process)])
        super().close()
        for presence in (self._presence, *self._dead.values()):
            presence.leave()

    def _sign_off(self, process: int) -> None:
        """Forget a process, unless it has streams that have not ended."""
        if self._execute(
            "SELECT 1 FROM streams WHERE process = ? AND ended_at IS NULL AND gone_at IS NULL",
            (process,),
        ).fetchone():
            return
        self._execute("DELETE FROM tail WHERE key > ? AND key < ?", _range(process))
        self._execute("DELETE FROM notes WHERE process = ?", (process,))
        self._execute("DELETE FROM processes WHERE id = ?", (process,))

    def tally(self, own: int) -> int:
        """Return how many bytes the streams have that run here; give those of all others."""
        self._execute("UPDATE processes SET size = ? WHERE id = ?", (own, self.process))
        others = self._execute(
            "SELECT total(size) FROM processes WHERE id <> ?", (self.process,)
        ).fetchone()[0]
        return self.kept() + int(others)

    def make_room(self, own: int, *, most: int, now: float) -> Gone:
        """Remove the streams that ended first until all take no more than so many bytes."""
        return self.forget_oldest(self.tally(own) + own - most, now=now)

    # Streams

    def is_gone(self, key: int) -> bool:
        """Return whether a stream has been removed, by whichever process."""
        return not self._execute(
            "SELECT 1 FROM streams WHERE key = ? AND gone_at IS NULL", (key,)
        ).fetchone()

    def file(self, key: int, first: int, events: Sequence[Event]) -> None:
        if not self.is_gone(key):
            super().file(key, first, events)

    def let_go(self, id: str) -> None:
        """Take what was added to a stream of this process after others removed it."""
        row = self.find(id)
        if row is not None:
            self._execute("DELETE FROM tail WHERE stream = ?", (row.key,))
            self._staged.append(partial(self._settle, row.key))

    def forget(self, id: str, *, now: float) -> Gone:
        self._note("gone", id)
        return super().forget(id, now=now)

    def tidy(self, *, now: float) -> None:
        super().tidy(now=now)
        self._execute(
            "DELETE FROM attended WHERE stream NOT IN "
            "(SELECT id FROM streams WHERE ended_at IS NULL AND gone_at IS NULL)"
        )

    def read_running(self, row: Row, after: int, limit: int) -> list[Event]:
        """Return events after the cursor of a stream that another process produces."""
        filed = self.read(row.key, after, limit) if after < row.last else []
        if filed:
            return filed
        low, high = _range(row.process)
        rows = self._tails_of([row.key], after=low, end=high)[row.key]
        return list(_events_of(rows, after))[:limit]

    # Notes between processes

    def ask_stop(self, id: str, by: Stopper) -> None:
        self._note(by, id)

    def _note(self, what: str, id: str) -> None:
        """Tell the process that produces a stream, if it is another one."""
        self._execute(
            "INSERT INTO notes (process, what, stream) SELECT process, ?, streams.id FROM streams "
            "JOIN processes ON processes.id = process "
            "WHERE streams.id = ? AND process <> ? AND gone_at IS NULL",
            (what, id, self.process),
        )

    def take_notes(self) -> list[Note]:
        """Return what others had to say, once."""
        notes = [
            Note(*row)
            for row in self._execute(
                "SELECT what, stream FROM notes WHERE process = ? ORDER BY key", (self.process,)
            )
        ]
        self._execute("DELETE FROM notes WHERE process = ?", (self.process,))
        return notes

    def readers_here(self, id: str) -> None:
        """Note that a stream of another process has readers in this one."""
        self._execute("INSERT OR REPLACE INTO attended VALUES (?, ?, NULL)", (id, self.process))

    def readers_gone(self, id: str, *, now: float) -> None:
        """Note that it has none any more."""
        self._execute(
            "UPDATE attended SET left_at = ? WHERE stream = ? AND process = ?",
            (now, id, self.process),
        )

    def leave_all(self, process: int, *, now: float) -> None:
        """Note that a process has no readers any more."""
        self._execute(
            "UPDATE attended SET left_at = ? WHERE process = ? AND left_at IS NULL", (now, process)
        )

    def left_at(self, id: str) -> Iterable[float | None]:
        """Return since when it has no readers, for each process that had some; None: it has."""
        rows = self._execute("SELECT left_at FROM attended WHERE stream = ?", (id,))
        return [left_at for (left_at,) in rows.fetchall()]

    # Broadcast

    def publish(self, channel: str, name: str, message: bytes, *, now: float, for_s: float) -> bool:
        """Publish a message for so many seconds; False if the channel is full."""
        self._execute("DELETE FROM broadcast WHERE until <= ?", (now,))
        if for_s <= 0:
            self._execute("DELETE FROM broadcast WHERE channel = ? AND name = ?", (channel, name))
            return True
        others = self._execute(
            "SELECT count(*) FROM broadcast WHERE channel = ? AND name <> ?", (channel, name)
        ).fetchone()[0]
        if others >= MAX_MESSAGES:
            return False
        self._execute(
            "INSERT INTO broadcast VALUES (?, ?, ?, ?) ON CONFLICT (channel, name) DO UPDATE SET "
            "until = excluded.until, message = excluded.message",
            (channel, name, now + for_s, message),
        )
        return True

    def messages(self, channel: str, *, now: float) -> dict[str, bytes]:
        """Return the messages of a channel, up to `MAX_READ_BYTES`, those that last longest."""
        found: dict[str, bytes] = {}
        size = 0
        for name, message in self._execute(
            "SELECT name, message FROM broadcast WHERE channel = ? AND until > ? "
            "ORDER BY until DESC",
            (channel, now),
        ):
            size += len(message)
            if size > MAX_READ_BYTES:
                break
            found[name] = message
        return found

    # Processes that are no more

    def find_dead(self) -> list[int]:
        """Return which processes have ended without leaving."""
        for (process,) in self._execute(
            "SELECT id FROM processes WHERE id <> ?", (self.process,)
        ).fetchall():
            if process in self._dead:
                continue
            with suppress(OSError):  # no descriptor is free: later, then
                presence = Presence.take(self._path, process)
                if presence is not None:
                    self._dead[process] = presence
        return list(self._dead)

    def end_streams_of(self, process: int, *, now: float) -> EndedOrphans:
        """End some streams of a lost process; none, and it is forgotten, when all have ended."""
        ended = self.end_orphans(process, now=now)
        self._version = -1  # `data_version` does not count what this connection writes
        if not ended.dealt_with:
            self.leave_all(process, now=now)
            self._sign_off(process)
            self._staged.append(lambda: self._dead.pop(process).leave())
        return ended

    # What others append

    def read_progress(
        self, positions: Sequence[WatchPosition]
    ) -> tuple[bool, list[Progress] | None]:
        """Return whether there are notes, and what has come of the streams at these positions.

        None where nothing can have come: nobody else has written anything.
        """
        version = self._execute("PRAGMA data_version").fetchone()[0]
        if version == self._version and all(position.at for position in positions):
            return False, None
        with self._snapshot():
            noted = self._execute("SELECT 1 FROM notes WHERE process = ?", (self.process,))
            found = bool(noted.fetchone()), self._find_progress(positions)
        # Notes that are not taken for some reason are found again.
        self._version = -1 if found[0] else version
        return found

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Have all that is read in it be of one moment."""
        self._execute("BEGIN")
        try:
            yield
        finally:
            self._execute("COMMIT")

    def _find_progress(self, positions: Sequence[WatchPosition]) -> list[Progress]:
        marks = ",".join("?" * len(positions))
        found = self._execute(
            f"SELECT {ROW} FROM streams WHERE key IN ({marks})",  # noqa: S608  (question marks)
            [position.key for position in positions],
        )
        rows = {row[0]: Row(*row) for row in found.fetchall()}
        groups: dict[tuple[int, int], list[int]] = {}
        for position in positions:
            groups.setdefault((position.process, position.at), []).append(position.key)
        tails: dict[int, tuple[list[TailRow], int]] = {}
        for (process, at), keys in groups.items():
            end = self._tail_end_of(process)
            new = self._tails_of(keys, after=max(at, _range(process)[0]), end=end + 1)
            tails |= {key: (tail, max(at, end)) for key, tail in new.items()}
        return [Progress(rows.get(position.key), *tails[position.key]) for position in positions]

    def _tail_end_of(self, process: int) -> int:
        """Return the last key of the tail in the range of a process, or its bound."""
        low, high = _range(process)
        last = self._execute(
            "SELECT key FROM tail WHERE key > ? AND key < ? ORDER BY key DESC LIMIT 1", (low, high)
        ).fetchone()
        return last[0] if last else low


def _range(process: int) -> tuple[int, int]:
    """Return the bounds of the keys in the tail that are a process's, neither of which is."""
    return process << RANGE_BITS, (process + 1) << RANGE_BITS


def _events_of(rows: Sequence[TailRow], after: int) -> Iterator[Event]:
    """Yield the events after a cursor."""
    for first, data in rows:
        lines = data.split(b"\n")
        yield from map(decode, lines[max(after + 1 - first, 0) :])
        after = max(after, first + len(lines) - 1)
