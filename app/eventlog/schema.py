"""The SQLite file of a log: opening it, its schema, and what may be wrong with it."""

import sqlite3
from pathlib import Path

from app.eventlog import LogUnusable

APPLICATION_ID = 0x53657365
SCHEMA = """
CREATE TABLE streams (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    started_at REAL NOT NULL,
    ended_at REAL,                      -- null while it runs
    last INTEGER NOT NULL DEFAULT 0,    -- from its end on
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
STEPS = (SCHEMA, NAMES, CLAIMS)
"""What each version added to the one before; a new file takes all the steps."""
VERSION = len(STEPS)


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, or make it, for this process alone.

    Raises:
        LogUnusable: it cannot be used, which the text tells why.
    """
    if not path.parent.is_dir():
        raise LogUnusable(f"{path}: the directory {str(path.parent)!r} does not exist")
    try:
        if not path.exists():
            path.touch(mode=0o600)  # it will hold what people talked about
        connection = sqlite3.connect(path, timeout=1, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise LogUnusable(f"{path}: {reason(error)}") from None
    try:
        _prepare(connection)
    except sqlite3.Error as error:
        connection.close()
        raise LogUnusable(f"{path}: {reason(error)}") from None
    except LogUnusable as error:
        connection.close()
        raise LogUnusable(f"{path}: {error}") from None
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    """Take the file for this process alone and see that it is one of ours."""
    execute = connection.execute
    # The lock is the file system's: it goes with the process, however that ends.
    execute("PRAGMA locking_mode = EXCLUSIVE")
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
            for statement in "".join(STEPS[version:]).split(";\n"):
                execute(statement)


def reason(error: OSError | sqlite3.Error) -> str:
    """Say in words what is wrong with the file."""
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
