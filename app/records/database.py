"""The database of the records: made ready, written to, cleaned up.

Each of these is one transaction, which other processes may do at the same time.
"""

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, inspect, literal_column, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from .address import Address
from .erasing import Erasure, without_erased
from .rows import FIRST, Month, day_of, sum_up, today
from .schema import HEAD, SUMS, erased, rollups, streams

LOCK: Final = 0x5E5E_7261
"""Of PostgreSQL's advisory locks: shared by who writes, alone for who changes tables or erases."""

BATCH: Final = 200
"""Rows that are deleted in one transaction."""

ERASED_DAYS: Final = 30
"""How long it is remembered what was erased."""


class Newer(OSError):
    """The database is one of a newer version."""


class Database:
    """The records; opened anew after it was closed."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._engine: AsyncEngine | None = None
        self._months: set[Month] = set()
        """Those that are sure to have a partition."""

    @property
    def engine(self) -> AsyncEngine:
        if self._engine is None:
            self._engine = self.address.open()
        return self._engine

    async def close(self) -> None:
        """Let go of all connections."""
        engine, self._engine = self._engine, None
        self._months.clear()
        if engine is not None:
            await engine.dispose()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Give a connection that sees one state of the database."""
        async with self.engine.connect() as connection:
            if not self.address.sqlite:
                connection = await connection.execution_options(isolation_level="REPEATABLE READ")
            async with connection.begin():
                yield connection

    @asynccontextmanager
    async def writing(self, *, alone: bool = False) -> AsyncIterator[AsyncConnection]:
        """Give a connection in a transaction; SQLite has one writer at a time anyway."""
        async with self.engine.connect() as connection:
            connection = await connection.execution_options(writes=True)
            async with connection.begin():
                if not self.address.sqlite:
                    lock = "pg_advisory_xact_lock" + ("" if alone else "_shared")
                    await connection.execute(text(f"SELECT {lock}({LOCK})"))
                yield connection

    # Made ready

    async def migrate(self) -> None:
        """Bring the tables up, if they are not; many may do it at once.

        Raises:
            Newer: they are those of a newer version.
        """
        async with self.reading() as connection:
            if await connection.run_sync(_version) == HEAD:
                return
        async with self.writing(alone=True) as connection:
            await connection.run_sync(_upgrade)

    # Written to

    async def write(
        self, rows: Sequence[dict[str, Any]], *, did: Callable[[str], None] = lambda step: None
    ) -> int:
        """Write rows that are not there yet, and add them to the sums; return how many.

        `did` is told of each step that is done, for tests that stop there.
        """
        if not rows:
            return 0
        await self._make_partitions(Month.of(row["day"]) for row in rows)
        async with self.writing() as connection:
            rows = await without_erased(connection, rows)
            new = await self._insert(connection, rows)
            did("inserted")
            await self._add_up(connection, new)
            did("added up")
        return len(new)

    async def _insert(
        self, connection: AsyncConnection, rows: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Insert rows; return those that were not there."""
        if not rows:
            return []
        by_id = {row["stream"]: row for row in rows}
        # In one order for all: who inserts what another one does waits for that.
        ordered = [by_id[stream] for stream in sorted(by_id)]
        kind = sqlite if self.address.sqlite else postgresql
        statement = kind.insert(streams).on_conflict_do_nothing().returning(streams.c.stream)
        done = await connection.execute(statement, ordered)
        return [by_id[stream] for (stream,) in done]

    async def _add_up(self, connection: AsyncConnection, rows: Sequence[dict[str, Any]]) -> None:
        if not rows:
            return
        kind = sqlite if self.address.sqlite else postgresql
        statement = kind.insert(rollups)
        added = {name: rollups.c[name] + statement.excluded[name] for name in SUMS}
        statement = statement.on_conflict_do_update(index_elements=["day", "id"], set_=added)
        await connection.execute(statement, sum_up(rows))

    async def _make_partitions(self, months: Iterable[Month]) -> None:
        """Make sure that there is a place for rows of these months."""
        if self.address.sqlite:
            return
        for month in sorted(set(months) - self._months):
            async with self.writing(alone=True) as connection:
                await connection.execute(
                    text(
                        f"CREATE TABLE IF NOT EXISTS {month.table} PARTITION OF streams "
                        f"FOR VALUES FROM ('{month.first}') TO ('{month.next.first}')"
                    )
                )
            self._months.add(month)

    def forget_partitions(self) -> None:
        """Look again which there are: another process may have dropped one."""
        self._months.clear()

    # Cleaned up

    async def clean(self, retention_days: int) -> int:
        """Drop what is older than that; return how many rows, or partitions, were dropped."""
        now = time.time()
        async with self.writing() as connection:
            await connection.execute(delete(erased).where(erased.c.at < now - ERASED_DAYS * 86_400))
        if not retention_days:
            return 0
        before = today() - timedelta(days=retention_days)
        if self.address.sqlite:
            return await self._delete(before)
        await self._make_partitions([Month.of(today()), Month.of(today()).next])
        return await self._drop(before)

    async def _delete(self, before: date) -> int:
        """Delete a few rows at a time: whoever writes has to wait for no more than that."""
        at = (before - day_of(0)).days * 86_400
        rowid: ColumnElement[int] = literal_column("rowid")
        old = select(rowid).select_from(streams).where(streams.c.started_at < at)
        statement = delete(streams).where(rowid.in_(old.limit(BATCH)))
        count = 0
        while True:
            async with self.writing() as connection:
                deleted = (await connection.execute(statement)).rowcount
            count += deleted
            if deleted < BATCH:
                return count

    async def _drop(self, before: date) -> int:
        """Drop the partitions of which all days are older."""
        async with self.reading() as connection:
            found = await connection.execute(
                text(
                    "SELECT inhrelid::regclass::text FROM pg_inherits "
                    "WHERE inhparent = 'streams'::regclass"
                )
            )
            tables = sorted(name for (name,) in found)
        month, old = Month.of(day_of(FIRST)), []
        while month.next.first <= before:
            old.append(month.table)
            month = month.next
        dropped = [table for table in tables if table in set(old)]
        for table in dropped:
            async with self.writing(alone=True) as connection:
                # Rather later than that everybody waits for one who reads for long.
                await connection.execute(text("SET LOCAL lock_timeout = '3s'"))
                await connection.execute(text(f"DROP TABLE IF EXISTS {table}"))
            self._months.clear()
        return len(dropped)

    # Erased

    async def erase(self, tenant: str, user: str) -> int:
        """Take away who a user is from all that is recorded; return how many streams there were.

        Sums stay, under a name that says nothing. What ends from now on is recorded as before.
        """
        return await Erasure(self.writing, tenant, user).run()

    async def scrub(self) -> None:
        """Write what was erased over in a SQLite file too, as far as nobody reads there."""
        if self.address.sqlite:
            async with self.engine.connect() as connection:
                raw = await connection.get_raw_connection()
                cursor = await raw.driver_connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[union-attr]
                await cursor.close()


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _upgrade(connection: Connection) -> None:
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells of its import, too
    # 40 MB and 0.2 s, where there is something to do.
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    config = Config()
    folder = Path(__file__).parent / "migrations"
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    script = ScriptDirectory.from_config(config)

    def upgrade(revision: Any, context: Any) -> Any:
        return script._upgrade_revs(HEAD, revision)

    with EnvironmentContext(config, script, fn=upgrade) as environment:
        environment.configure(connection=connection)
        try:
            environment.run_migrations()
        except CommandError:
            raise Newer("the database is one of a newer version") from None
