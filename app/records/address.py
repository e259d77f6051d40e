"""The URL of the records, and the database engine for it."""

import sqlite3
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy import event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

CONNECT_S = 5
COMMAND_S = 15
"""Timeouts for connecting to the database, and for its reply."""

BUSY_S = 10
"""SQLite's busy timeout: the wait for other writers of the file."""

SCHEMES = ("sqlite", "postgresql")

FAILURES: tuple[type[Exception], ...] = (SQLAlchemyError, sqlite3.Error, OSError, TimeoutError)
"""Errors of an unusable database."""
if find_spec("asyncpg") is not None:
    import asyncpg

    FAILURES = (*FAILURES, asyncpg.PostgresError, asyncpg.InterfaceError)


class RecordsRefused(ValueError):
    """The URL of the records is unusable; the text is the reason, in one line."""


class Address:
    """The address of the records."""

    def __init__(self, url: str) -> None:
        """Parse a URL.

        Raises:
            RecordsRefused: it is unusable, or its package is not installed.
        """
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError):
            raise RecordsRefused(_ADVICE) from None
        if parsed.drivername not in SCHEMES:
            raise RecordsRefused(_ADVICE)
        self.sqlite = parsed.drivername == "sqlite"
        self.path: Path | None = None
        if self.sqlite:
            if not parsed.database or parsed.database.startswith((":", "file:")) or parsed.query:
                raise RecordsRefused(_ADVICE)
            self.path = Path(parsed.database)
            if not self.path.parent.is_dir():
                raise RecordsRefused(f"the directory {str(self.path.parent)!r} does not exist")
        elif not parsed.database:
            raise RecordsRefused("the URL names no database: postgresql://USER@HOST/DATABASE")
        elif (root := parsed.query.get("sslrootcert")) and not Path(str(root)).is_file():
            raise RecordsRefused(f"sslrootcert: the file {root!r} does not exist")
        package, extra = ("aiosqlite", "records") if self.sqlite else ("asyncpg", "postgresql")
        for needed in (package, "alembic"):
            if find_spec(needed) is None:
                raise RecordsRefused(
                    f"{needed} is not installed; in the checkout: pip install '.[{extra}]'"
                )
        self._parsed = parsed
        self._url = url

    def __str__(self) -> str:
        """Return the URL without a password."""
        if self.sqlite:
            return f"sqlite:///{self.path}"
        return self._parsed.set(query={}).render_as_string(hide_password=True)

    def without_password(self, text: str) -> str:
        """Mask the password in a text."""
        password = self._parsed.password
        return text.replace(str(password), "***") if password else text

    def open(self) -> AsyncEngine:
        """Return an engine, which connects on use.

        Raises:
            OSError: a SQLite file cannot be created.
        """
        if self.path is None:
            return create_async_engine(
                "postgresql+asyncpg://",
                hide_parameters=True,
                pool_size=2,
                max_overflow=0,
                pool_timeout=CONNECT_S,
                connect_args={
                    "dsn": self._url,  # the driver reads the parameters of libpq
                    "timeout": CONNECT_S,
                    "command_timeout": COMMAND_S,
                    "server_settings": {"application_name": "seseragi"},
                },
            )
        if not self.path.exists():
            self.path.touch(mode=0o600)  # it has the names of users
        engine = create_async_engine(
            self._parsed.set(drivername="sqlite+aiosqlite"),
            hide_parameters=True,
            connect_args={"timeout": BUSY_S},
        )
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
        return engine


_ADVICE = "use 'sqlite:///PATH' or 'postgresql://USER:PASSWORD@HOST/DATABASE'"


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the driver begins no transaction
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    # The log deletes a row once it is committed here.
    cursor.execute("PRAGMA synchronous = FULL")
    # Overwrite deleted content with zeros.
    cursor.execute("PRAGMA secure_delete = ON")
    cursor.close()


def _begin_sqlite(connection: Any) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
