"""The processes that share a SQLite file: their liveness, and messages between them.

Each process holds a kernel lock on a file of its own. The kernel releases the lock however the
process ends. A suspended process retains it, so that it is never taken for dead, and no clock is
involved.
"""

import sys
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection
from typing import IO, NamedTuple

from ..peers import MAX_MESSAGES, MAX_READ_BYTES

if sys.platform != "win32":
    from fcntl import LOCK_EX, LOCK_NB, flock


class Presence:
    """The lock of one process, held until `leave` or the end of this one."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path = path
        self._file = file

    @classmethod
    def take(cls, shared: Path, process: int) -> "Presence | None":
        """Take the lock of a process; None if that process is alive.

        Raises:
            OSError: the file cannot be made.
        """
        path = shared.with_name(f"{shared.name}-process-{process}")
        path.touch(mode=0o600)
        file = path.open("rb")
        try:
            if sys.platform != "win32":  # where there is one process
                flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except BaseException:
            file.close()
            raise
        return cls(path, file)

    def leave(self) -> None:
        """Release the lock and remove its file."""
        if sys.platform == "win32":  # which removes no open file
            self._file.close()
        self._path.unlink(missing_ok=True)
        self._file.close()


def clear(shared: Path) -> None:
    """Remove the files of dead processes; none may be alive."""
    for path in shared.parent.glob(f"{shared.name}-process-*"):
        path.unlink(missing_ok=True)


class Note(NamedTuple):
    """A message from another process about a stream of this one."""

    what: str
    """Who stops it, or `gone` if it was removed."""
    stream: str


class Processes:
    """This process and the others. All sync; what writes is called in a transaction."""

    def __init__(self, connection: Connection, path: Path, *, own: int) -> None:
        self._execute = connection.execute
        self._path = path
        self._own = own
        self._presence: Presence | None = None
        self._dead: dict[int, Presence] = {}
        """Dead processes, with their locks, until their streams have ended."""

    def take_presence(self) -> None:
        """Take the lock of this process."""
        self._presence = Presence.take(self._path, self._own)

    def leave(self) -> None:
        """Release all locks."""
        for presence in (self._presence, *self._dead.values()):
            if presence is not None:
                presence.leave()

    def find_dead(self) -> list[int]:
        """Return the processes that have ended without signing off."""
        for (process,) in self._execute(
            "SELECT id FROM processes WHERE id <> ?", (self._own,)
        ).fetchall():
            if process in self._dead:
                continue
            with suppress(OSError):  # no descriptor is free: later, then
                presence = Presence.take(self._path, process)
                if presence is not None:
                    self._dead[process] = presence
        return list(self._dead)

    def forget_dead(self, process: int) -> None:
        """Release the lock of a dead process whose streams have ended."""
        self._dead.pop(process).leave()

    def sign_off(self, process: int) -> bool:
        """Remove a process, unless it has running streams; return whether it is removed."""
        if self._execute(
            "SELECT 1 FROM streams WHERE process = ? AND ended_at IS NULL AND gone_at IS NULL",
            (process,),
        ).fetchone():
            return False
        self._execute("DELETE FROM notes WHERE process = ?", (process,))
        self._execute("DELETE FROM processes WHERE id = ?", (process,))
        return True

    def report_size(self, own: int) -> int:
        """Store the size of this process's running streams; return that of all others'."""
        self._execute("UPDATE processes SET size = ? WHERE id = ?", (own, self._own))
        others = self._execute(
            "SELECT total(size) FROM processes WHERE id <> ?", (self._own,)
        ).fetchone()[0]
        return int(others)

    # Notes

    def send(self, what: str, stream: str) -> None:
        """Send a note to the process that produces a stream, if it is another one."""
        self._execute(
            "INSERT INTO notes (process, what, stream) SELECT process, ?, streams.id FROM streams "
            "JOIN processes ON processes.id = process "
            "WHERE streams.id = ? AND process <> ? AND gone_at IS NULL",
            (what, stream, self._own),
        )

    def has_notes(self) -> bool:
        """Return whether there are notes for this process."""
        found = self._execute("SELECT 1 FROM notes WHERE process = ? LIMIT 1", (self._own,))
        return found.fetchone() is not None

    def is_noted(self, stream: str) -> bool:
        """Return whether there are notes about a stream."""
        found = self._execute("SELECT 1 FROM notes WHERE stream = ? LIMIT 1", (stream,))
        return found.fetchone() is not None

    def take_notes(self) -> list[Note]:
        """Return the notes for this process, and remove them."""
        notes = [
            Note._make(row)
            for row in self._execute(
                "SELECT what, stream FROM notes WHERE process = ? ORDER BY key", (self._own,)
            )
        ]
        self._execute("DELETE FROM notes WHERE process = ?", (self._own,))
        return notes

    def removed(self) -> list[int]:
        """Return the keys of this process's streams that others removed, by untaken notes."""
        found = self._execute(
            "SELECT streams.key FROM notes JOIN streams ON streams.id = notes.stream "
            "WHERE notes.process = ? AND what = 'gone'",
            (self._own,),
        )
        return [key for (key,) in found]

    # Readers

    def readers_here(self, stream: str) -> None:
        """Store that a stream of another process has readers in this one."""
        self._execute("INSERT OR REPLACE INTO readers VALUES (?, ?, NULL)", (stream, self._own))

    def readers_gone(self, stream: str, *, now: float) -> None:
        """Store that it has none any more."""
        self._execute(
            "UPDATE readers SET left_at = ? WHERE stream = ? AND process = ?",
            (now, stream, self._own),
        )

    def all_readers_gone(self, process: int, *, now: float) -> None:
        """Store that a process has no readers any more."""
        self._execute(
            "UPDATE readers SET left_at = ? WHERE process = ? AND left_at IS NULL", (now, process)
        )

    def readers_left_at(self, stream: str) -> list[float | None]:
        """Return when the readers of a stream left, one per process; None: they read."""
        rows = self._execute("SELECT left_at FROM readers WHERE stream = ?", (stream,))
        return [left_at for (left_at,) in rows]

    def tidy(self) -> None:
        """Remove the readers of ended streams."""
        self._execute(
            "DELETE FROM readers WHERE stream NOT IN "
            "(SELECT id FROM streams WHERE ended_at IS NULL AND gone_at IS NULL)"
        )

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
            "INSERT OR REPLACE INTO broadcast VALUES (?, ?, ?, ?)",
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
