"""Opens the SQLite file of a log: schema, migrations and errors."""

import shlex
import sqlite3
import stat
import sys
from pathlib import Path

import structlog

from ..errors import LogUnusable
from ..stream_info import StreamInfo, pack_info

log = structlog.get_logger("seseragi.eventlog")

APPLICATION_ID = 0x53657365
SCHEMA = """
CREATE TABLE streams (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    started_at REAL NOT NULL,
    ended_at REAL,                      -- null while it runs
    last INTEGER NOT NULL DEFAULT 0,    -- event in its pages
    size INTEGER NOT NULL DEFAULT 0,    -- from its end on, until its events are removed
    gone_at REAL                        -- null while it is kept
);
CREATE INDEX streams_ended ON streams (ended_at) WHERE gone_at IS NULL;
CREATE INDEX streams_gone ON streams (gone_at) WHERE gone_at IS NOT NULL;
CREATE INDEX streams_purge ON streams (key) WHERE gone_at IS NOT NULL AND size > 0;
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
CREATE TABLE claims (
    key TEXT PRIMARY KEY,
    stream TEXT NOT NULL,
    digest TEXT NOT NULL,
    early_at REAL                       -- when it was made, until its stream is there
) WITHOUT ROWID;
CREATE INDEX claims_stream ON claims (stream);
CREATE INDEX claims_early ON claims (early_at) WHERE early_at IS NOT NULL;
"""
NAMES = """
CREATE TABLE names (
    name TEXT PRIMARY KEY,
    stream TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX names_stream ON names (stream);
"""
CLAIMS = """
DELETE FROM claims WHERE early_at IS NOT NULL;
DROP INDEX claims_early;
ALTER TABLE claims DROP COLUMN early_at;
"""
SHARING = """
CREATE TABLE processes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    size INTEGER NOT NULL DEFAULT 0     -- of the streams that it runs, as it said last
);
CREATE TABLE notes (
    key INTEGER PRIMARY KEY,
    process INTEGER NOT NULL,           -- that is to take note of it
    what TEXT NOT NULL,
    stream TEXT NOT NULL
);
CREATE TABLE attended (
    stream TEXT NOT NULL,
    process INTEGER NOT NULL,           -- that has readers of a stream of another one
    left_at REAL,                       -- null while they are there
    PRIMARY KEY (stream, process)
) WITHOUT ROWID;
ALTER TABLE streams ADD COLUMN process INTEGER NOT NULL DEFAULT 0;
CREATE INDEX streams_running ON streams (process) WHERE ended_at IS NULL AND gone_at IS NULL;
"""
REQUESTS = """
CREATE TABLE requests (
    stream INTEGER PRIMARY KEY,
    request BLOB NOT NULL
);
"""
RECORDS = """
ALTER TABLE streams ADD COLUMN owner TEXT NOT NULL DEFAULT '';
CREATE TABLE records (
    stream INTEGER PRIMARY KEY,
    record BLOB NOT NULL
);
INSERT INTO records SELECT stream, pack_info(id, started_at, request)
    FROM requests JOIN streams ON streams.key = requests.stream;
DROP TABLE requests;
"""
ACCOUNTS = """
CREATE TABLE accounts (
    name TEXT PRIMARY KEY,
    month INTEGER NOT NULL,             -- in which it was used last
    running INTEGER NOT NULL,
    state BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX accounts_month ON accounts (month);
CREATE TABLE held (
    stream INTEGER PRIMARY KEY,         -- gone once it is settled
    held BLOB NOT NULL
);
CREATE TABLE waiting_rows (
    key INTEGER PRIMARY KEY,
    stream TEXT NOT NULL UNIQUE,
    row BLOB NOT NULL
);
"""
BROADCAST = """
CREATE TABLE broadcast (
    channel TEXT NOT NULL,
    name TEXT NOT NULL,
    until REAL NOT NULL,
    message BLOB NOT NULL,
    UNIQUE (channel, name)
);
"""
STEPS = (SCHEMA, NAMES, CLAIMS, SHARING, REQUESTS, RECORDS, ACCOUNTS, BROADCAST)
"""What each version added to the one before; a new file takes all the steps."""
VERSION = len(STEPS)


ALONE = "PRAGMA locking_mode = EXCLUSIVE"
"""The lock is the file system's: it goes with the process, however that ends."""

BUSY_S = 5
"""How long a process waits for others that write, before it fails."""


def connect(path: Path, *, alone: bool = True) -> sqlite3.Connection:
    """Open the file, or make it, for this process alone or for several.

    Raises:
        LogUnusable: it cannot be used.
    """
    if not path.parent.is_dir():
        raise LogUnusable(f"{path}: the directory {str(path.parent)!r} does not exist")
    try:
        if not path.exists():
            path.touch(mode=0o600)  # it will hold what people talked about
        elif sys.platform != "win32":  # where modes say nothing
            _check_modes(path, warns=alone)
        timeout_s = 1 if alone else BUSY_S
        connection = sqlite3.connect(
            path,
            timeout=timeout_s,
            isolation_level=None,
            check_same_thread=False,  # one after another: a thread that ends is replaced
        )
    except (OSError, sqlite3.Error) as error:
        raise LogUnusable(f"{path}: {reason(error)}") from None
    try:
        if alone:
            connection.execute(ALONE)
        _prepare(connection)
    except sqlite3.Error as error:
        connection.close()
        raise LogUnusable(f"{path}: {reason(error)}") from None
    except LogUnusable as error:
        connection.close()
        raise LogUnusable(f"{path}: {error}") from None
    return connection


def _check_modes(path: Path, *, warns: bool) -> None:
    """Refuse files that anybody can write to; warn of those that others can read.

    Raises:
        LogUnusable: what is in the log could be anybody's.
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


def _prepare(connection: sqlite3.Connection) -> None:
    """Check that the file is a log of ours, and migrate it."""
    execute = connection.execute
    application, version = (
        execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    empty = not execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    if not empty and application != APPLICATION_ID:
        raise LogUnusable("it is a database of another program; choose another file")
    if version > VERSION:
        raise LogUnusable(
            f"it was written by a newer version of seseragi (format {version}, this one reads "
            f"{VERSION}); use that version or another file"
        )
    execute("PRAGMA journal_mode = WAL")
    execute("PRAGMA synchronous = NORMAL")
    execute("PRAGMA secure_delete = ON")
    execute("PRAGMA journal_size_limit = 67108864")
    with connection:
        execute("BEGIN IMMEDIATE")
        if version < VERSION:
            execute(f"PRAGMA application_id = {APPLICATION_ID}")
            execute(f"PRAGMA user_version = {VERSION}")
            connection.create_function("pack_info", 3, _pack_info)
            for statement in "".join(STEPS[version:]).split(";\n"):
                execute(statement)


def _pack_info(stream: str, started_at: float, request: bytes) -> bytes:
    """Return the info of a stream whose request alone was kept."""
    return pack_info(StreamInfo(stream, created_at=started_at, request=request))


def reason(error: OSError | sqlite3.Error) -> str:
    """Explain what is wrong with the file."""
    if isinstance(error, OSError):
        return f"it cannot be made: {error.strerror}"
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_BUSY"):
        return "another process uses it; stop that one or choose another file"
    if name == "SQLITE_NOTADB":
        return "it is no SQLite database; choose another file"
    if name.startswith("SQLITE_CORRUPT"):
        return f"it is damaged ({error}); restore it or choose another file"
    # A file that may only be read cannot be locked for writing either.
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_IOERR_LOCK")):
        return "it cannot be opened for writing; check its permissions and its directory's"
    if name == "SQLITE_FULL":
        return "the disk is full"
    return f"it cannot be used: {error}"
