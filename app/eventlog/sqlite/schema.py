"""Opens the SQLite file of a log: schema, migrations and errors."""

import shlex
import sqlite3
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import structlog

from ..contract import LogUnusable

log = structlog.get_logger("seseragi.eventlog")

APPLICATION_ID = 0x53657365
VERSION = 12
"""The format of a new file: that of `SCHEMA` and of the values in it."""


def _add_places(connection: sqlite3.Connection) -> None:
    """Give each stream a place in lists."""
    for statement in (
        "ALTER TABLE streams ADD COLUMN place REAL",
        "UPDATE streams SET place = coalesce(ended_at, started_at)",
        "DROP INDEX streams_owned",
        "CREATE INDEX streams_place ON streams (place)",
        "CREATE INDEX streams_owned ON streams (owner, ended_at IS NULL, place) "
        "WHERE gone_at IS NULL AND owner != ''",
    ):
        connection.execute(statement)


STEPS: dict[int, Callable[[sqlite3.Connection], None]] = {11: _add_places}
"""By format the step to the next one, in the transaction of the whole upgrade.

A step carries accounts, idempotency keys and waiting rows, and may drop streams, except that those
with a key keep at least their start and end, or a repeated request would run again. A fixture of
each format is in `tests/upgrades`. Its statements are its own: `SCHEMA` is of the last format only.
"""

SCHEMA = """
CREATE TABLE streams (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    process INTEGER NOT NULL,           -- that produces it
    started_at REAL NOT NULL,
    ended_at REAL,                      -- null while it runs
    last INTEGER NOT NULL DEFAULT 0,    -- event in its pages
    size INTEGER NOT NULL DEFAULT 0,    -- from its end on, until its events are removed
    gone_at REAL,                       -- null until it is removed
    listed BLOB,                        -- what lists show of it, if it has an owner
    status TEXT,                        -- of its end
    place REAL                          -- in lists, of its start or its end
);
CREATE INDEX streams_ended ON streams (ended_at) WHERE gone_at IS NULL;
CREATE INDEX streams_gone ON streams (gone_at) WHERE gone_at IS NOT NULL;
CREATE INDEX streams_purge ON streams (key) WHERE gone_at IS NOT NULL AND size > 0;
CREATE INDEX streams_running ON streams (process) WHERE ended_at IS NULL AND gone_at IS NULL;
CREATE INDEX streams_place ON streams (place);
CREATE INDEX streams_owned ON streams (owner, ended_at IS NULL, place)
    WHERE gone_at IS NULL AND owner != '';
CREATE TABLE infos (
    stream INTEGER PRIMARY KEY,
    info BLOB NOT NULL
);
CREATE TABLE pages (
    stream INTEGER NOT NULL,
    first INTEGER NOT NULL,
    events BLOB NOT NULL,
    PRIMARY KEY (stream, first)
);
CREATE TABLE tail (
    key INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL,
    first INTEGER NOT NULL,
    events BLOB NOT NULL
);
CREATE TABLE idempotency_keys (
    key TEXT PRIMARY KEY,
    stream TEXT NOT NULL,
    digest TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX idempotency_keys_stream ON idempotency_keys (stream);
CREATE TABLE names (
    name TEXT PRIMARY KEY,
    stream TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX names_stream ON names (stream);
CREATE TABLE processes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    size INTEGER NOT NULL DEFAULT 0     -- of its running streams, as it last reported
);
CREATE TABLE notes (
    key INTEGER PRIMARY KEY,
    process INTEGER NOT NULL,           -- the recipient
    what TEXT NOT NULL,
    stream TEXT NOT NULL
);
CREATE TABLE readers (
    stream TEXT NOT NULL,
    process INTEGER NOT NULL,           -- that has readers of another's stream
    left_at REAL,                       -- null while they read
    PRIMARY KEY (stream, process)
) WITHOUT ROWID;
CREATE TABLE accounts (
    name TEXT PRIMARY KEY,
    month INTEGER NOT NULL,             -- of the last use
    running INTEGER NOT NULL,
    state BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX accounts_month ON accounts (month);
CREATE TABLE reservations (
    stream INTEGER PRIMARY KEY,         -- until it is settled
    reservation BLOB NOT NULL
);
CREATE TABLE waiting_rows (
    key INTEGER PRIMARY KEY,
    stream TEXT NOT NULL UNIQUE,
    row BLOB NOT NULL
);
CREATE TABLE broadcast (
    channel TEXT NOT NULL,
    name TEXT NOT NULL,
    until REAL NOT NULL,
    message BLOB NOT NULL,
    UNIQUE (channel, name)
);
"""

ADDED = """
CREATE TABLE IF NOT EXISTS queued_rows (
    key INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    stream TEXT NOT NULL,
    due REAL NOT NULL,                  -- in unix seconds
    row BLOB NOT NULL,
    UNIQUE (queue, stream)
);
CREATE INDEX IF NOT EXISTS queued_rows_due ON queued_rows (queue, due);
"""
"""Tables of a later version that an earlier one ignores, so that the format is the same."""

EXCLUSIVE = "PRAGMA locking_mode = EXCLUSIVE"

BUSY_S = 5
"""How long a process waits for others that write, before it fails."""


def connect(path: Path, *, alone: bool) -> sqlite3.Connection:
    """Open the file, or create it, for this process alone or for several.

    Raises:
        LogUnusable: it cannot be used.
    """
    if not path.parent.is_dir():
        raise LogUnusable(f"{path}: the directory {str(path.parent)!r} does not exist")
    try:
        if not path.exists():
            path.touch(mode=0o600)  # it will have conversations
        elif sys.platform != "win32":  # which has no modes
            _check_modes(path, warns=alone)
        connection = sqlite3.connect(
            path,
            timeout=1 if alone else BUSY_S,
            isolation_level=None,
            check_same_thread=False,  # opened in one thread, used in another
        )
    except (OSError, sqlite3.Error) as error:
        raise LogUnusable(f"{path}: {reason(error)}") from None
    try:
        if alone:
            connection.execute(EXCLUSIVE)
        _prepare(connection, path, alone=alone)
    except (LogUnusable, sqlite3.Error) as error:
        connection.close()
        why = reason(error) if isinstance(error, sqlite3.Error) else error
        raise LogUnusable(f"{path}: {why}") from None
    return connection


def _check_modes(path: Path, *, warns: bool) -> None:
    """Refuse files that every user can write to; warn of those that others can read.

    Raises:
        LogUnusable: every user can write to the log.
    """
    modes = {
        file: stat.S_IMODE(file.stat().st_mode)
        for file in (path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm")))
        if file.is_file()
    }
    for file, mode in modes.items():
        if mode & stat.S_IWOTH:
            raise LogUnusable(
                f"{path}: every user of this machine can write to {file.name!r} (mode {mode:o}); "
                f"run: chmod 600 {shlex.quote(str(file))}"
            )
        if warns and mode & (stat.S_IRWXG | stat.S_IRWXO):
            log.warning(
                "other users can read the event log; run: chmod 600",
                file=str(file),
                mode=f"{mode:o}",
            )
    folder = stat.S_IMODE(path.parent.stat().st_mode)
    if warns and folder & stat.S_IWOTH and not folder & stat.S_ISVTX:
        log.warning(
            "every user can replace the event log; run: chmod o-w on its directory",
            directory=str(path.parent),
            mode=f"{folder:o}",
        )


def _prepare(connection: sqlite3.Connection, path: Path, *, alone: bool) -> None:
    """Check that the file is a log, or make it one; upgrade it if no other process has it."""
    execute = connection.execute
    application, version = (
        execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    empty = not execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    if not empty and application != APPLICATION_ID:
        raise LogUnusable("it is a database of another program; choose another file")
    upgrades = alone and version < VERSION and STEPS.keys() >= {*range(version, VERSION)}
    if not (empty or version == VERSION or upgrades):
        age = "a newer" if version > VERSION else "an older"
        raise LogUnusable(
            f"it was written by {age} version of seseragi (format {version}, this one reads "
            f"{VERSION}); use that version, or your copy of before the upgrade, or another file"
        )
    execute("PRAGMA journal_mode = WAL")
    if upgrades and not empty:
        _upgrade(connection, path, version)
    execute("PRAGMA synchronous = NORMAL")
    execute("PRAGMA secure_delete = ON")
    execute("PRAGMA journal_size_limit = 67108864")
    with connection:
        execute("BEGIN IMMEDIATE")
        if empty:
            execute(f"PRAGMA application_id = {APPLICATION_ID}")
            execute(f"PRAGMA user_version = {VERSION}")
        for statement in (*(SCHEMA.split(";\n") if empty else ()), *ADDED.split(";\n")):
            execute(statement)


def _upgrade(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Carry a file of an earlier format to this one in one transaction, and sync it."""
    stored = "SELECT count(*) FROM streams WHERE gone_at IS NULL"
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        before = connection.execute(stored).fetchone()[0]
        for number in range(version, VERSION):
            STEPS[number](connection)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        after = connection.execute(stored).fetchone()[0]
    log.warning(
        "event log upgraded; older versions refuse it",
        file=str(path),
        from_format=version,
        to_format=VERSION,
        streams_dropped=before - after,
    )


def reason(error: OSError | sqlite3.Error) -> str:
    """Explain what is wrong with the file."""
    if isinstance(error, OSError):
        return f"it cannot be created: {error.strerror}"
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_BUSY"):
        return "another process uses it; stop that one or choose another file"
    if name == "SQLITE_NOTADB":
        return "it is not an SQLite database; choose another file"
    if name.startswith("SQLITE_CORRUPT"):
        return f"it is damaged ({error}); restore it or choose another file"
    # A read-only file cannot be locked for writing either.
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_IOERR_LOCK")):
        return "it cannot be opened for writing; check its permissions and its directory's"
    if name == "SQLITE_FULL":
        return "the disk is full"
    return f"it cannot be used: {error}"
