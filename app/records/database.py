"""The database of the records: migrations, writes, retention and erasure.

Several processes may do any of these at the same time, in transactions. When a user is erased,
sums stay under a random name. A log may deliver a stream twice, or deliver one late that ended
before its user was erased: digests of erased users and streams, stored for `ERASED_DAYS`, detect
both.
"""

import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    bindparam,
    delete,
    exists,
    insert,
    inspect,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from .address import Address
from .schema import (
    BY,
    HEAD,
    SUMS,
    day_of,
    erased,
    rollup_id,
    rollups,
    stream_digest,
    streams,
    sum_up,
    today,
    user_digest,
)

PREFIX = "erased-"
"""Of the names that replace erased users."""

BATCH: Final = 200
"""Streams changed or deleted by one statement."""


def pseudonym() -> str:
    """Return a unique random name."""
    return f"{PREFIX}{secrets.token_hex(8)}"


def _hide(name: str) -> dict[str, Any]:
    """Return the columns that may identify a user, beside the stream's id, with a pseudonym."""
    return {"user": name, "key": name, "request_id": "", "trace_id": "", "content": None}


async def without_erased(
    connection: AsyncConnection, rows: Sequence[dict[str, Any]]
) -> Sequence[dict[str, Any]]:
    """Drop rows of erased streams, and pseudonymise rows of erased users."""
    if not (await connection.execute(select(exists().select_from(erased)))).scalar():
        return rows
    digests = {stream_digest(row["stream"]) for row in rows}
    digests |= {user_digest(row["tenant"], row["user"]) for row in rows}
    found = await connection.execute(select(erased).where(erased.c.digest.in_(digests)))
    known = {row.digest: row.at for row in found}
    left = []
    for row in rows:
        if stream_digest(row["stream"]) in known:
            continue
        at = known.get(user_digest(row["tenant"], row["user"]))
        if at is not None and row["ended_at"] <= at:
            name = pseudonym()
            row = {**row, **_hide(name), "stream": name}
        left.append(row)
    return left


async def erase(connection: AsyncConnection, tenant: str, user: str, *, at: float) -> int:
    """Erase what a user's streams say that ended by `at`; return the number of streams.

    Nobody else may write until the transaction ends: the sums are those of the streams.
    """
    name = pseudonym()
    await _remember(connection, [user_digest(tenant, user)], at=at)
    mine = (streams.c.tenant == tenant) & (streams.c.user == user)
    some = select(streams.c.stream, streams.c.day).where(mine).limit(BATCH)
    change = (
        update(streams)
        .where(streams.c.stream == bindparam("was"), streams.c.day == bindparam("on"))
        .values(stream=bindparam("becomes"), **_hide(name))
    )
    count = 0
    while rows := list(await connection.execute(some)):
        await _remember(connection, [stream_digest(row.stream) for row in rows], at=at)
        changes = [{"was": row.stream, "on": row.day, "becomes": pseudonym()} for row in rows]
        await connection.execute(change, changes)
        count += len(rows)
    await _hide_sums(connection, tenant, user, name)
    return count


async def _remember(connection: AsyncConnection, digests: Iterable[bytes], *, at: float) -> None:
    kind = sqlite if connection.dialect.name == "sqlite" else postgresql
    statement = kind.insert(erased)
    later = statement.on_conflict_do_update(
        index_elements=["digest"], set_={"at": statement.excluded.at}
    )
    rows = [{"digest": digest, "at": at} for digest in sorted(digests)]
    await connection.execute(later, rows)


async def _hide_sums(connection: AsyncConnection, tenant: str, user: str, name: str) -> None:
    """Move a user's sums to a pseudonym; those of several keys become one."""
    mine = (rollups.c.tenant == tenant) & (rollups.c.user == user)
    hidden: dict[tuple[Any, bytes], dict[str, Any]] = {}
    for row in await connection.execute(select(rollups).where(mine)):
        sums = row._mapping
        by = {column: sums[column] for column in BY} | {"user": name, "key": name}
        digest = rollup_id(*by.values())
        empty = {"day": sums["day"], "id": digest, **by, **dict.fromkeys(SUMS, 0)}
        total = hidden.setdefault((sums["day"], digest), empty)
        for column in SUMS:
            total[column] += sums[column]
    if hidden:
        await connection.execute(delete(rollups).where(mine))
        await connection.execute(insert(rollups), list(hidden.values()))


LOCK: Final = 0x5E5E_7261
"""PostgreSQL's advisory lock: shared by writers, exclusive for migrations and erasure."""

ERASED_DAYS: Final = 30
"""Retention of the digests of erased streams and users."""


PARTITION: Final = re.compile(r"streams_[0-9]{4}_[0-9]{2}")
"""Partitions are months. Their names sort as the months do."""


class UnknownSchema(OSError):
    """The database has the schema of another version, or of another application."""

    def __init__(
        self,
        why: str = "the schema is that of a newer version, or of another application; upgrade, or "
        "use a database of its own",
    ) -> None:
        super().__init__(why)


class Database:
    """The records; reopens after `close`."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._engine: AsyncEngine | None = None
        self._partitions: set[str] = set()
        """Those that are known to exist."""

    @property
    def engine(self) -> AsyncEngine:
        if self._engine is None:
            self._engine = self.address.open()
        return self._engine

    async def close(self) -> None:
        """Close all connections."""
        engine, self._engine = self._engine, None
        self._partitions.clear()
        if engine is not None:
            await engine.dispose()

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Open a transaction for reading."""
        return self.engine.begin()

    @asynccontextmanager
    async def writing(self, *, alone: bool = False) -> AsyncIterator[AsyncConnection]:
        """Open a transaction for writing, `alone` under the exclusive lock.

        SQLite has only one writer at a time.
        """
        async with self.engine.execution_options(writes=True).begin() as connection:
            if not self.address.sqlite:
                lock = "pg_advisory_xact_lock" + ("" if alone else "_shared")
                await connection.execute(text(f"SELECT {lock}({LOCK})"))
            yield connection

    # Migrations

    async def migrate(self) -> None:
        """Upgrade the schema to `HEAD`; processes may do so concurrently.

        Raises:
            UnknownSchema: it is that of a newer version, or of another application.
        """
        async with self.reading() as connection:
            if await connection.run_sync(_version) == HEAD:
                return
        async with self.writing(alone=True) as connection:
            await connection.run_sync(_upgrade)

    async def check(self) -> None:
        """Check that the schema is `HEAD`: commands do not upgrade it, relays do.

        Raises:
            UnknownSchema: it is another one.
        """
        async with self.reading() as connection:
            found = await connection.run_sync(_version)
        if found is None or found < HEAD:
            raise UnknownSchema(
                f"the schema is {found or 'not there'}, this version reads {HEAD}: start a relay "
                "of this version, which upgrades it"
            )
        if found != HEAD:
            raise UnknownSchema

    # Writes

    async def write(
        self, rows: Sequence[dict[str, Any]], *, did: Callable[[str], None] = lambda step: None
    ) -> int:
        """Insert new rows, and add them to the sums; return their number.

        `did` is called after each step, for tests that stop there.
        """
        if not rows:
            return 0
        await self._make_partitions(row["day"] for row in rows)
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
        """Insert rows; return the new ones."""
        if not rows:
            return []
        by_id = {row["stream"]: row for row in rows}
        # The same order in every process avoids deadlocks between inserts of the same rows.
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

    async def _make_partitions(self, days: Iterable[date]) -> None:
        """Create the missing partitions of the months of these days."""
        if self.address.sqlite:
            return
        for month in sorted({day.replace(day=1) for day in days}):
            partition, until = f"streams_{month:%Y_%m}", _next_month(month)
            if partition in self._partitions:
                continue
            async with self.writing(alone=True) as connection:
                await connection.execute(
                    text(
                        f"CREATE TABLE IF NOT EXISTS {partition} PARTITION OF streams "
                        f"FOR VALUES FROM ('{month}') TO ('{until}')"
                    )
                )
            self._partitions.add(partition)

    def forget_partitions(self) -> None:
        """Clear the cache of partitions: another process may have dropped one."""
        self._partitions.clear()

    # Retention

    async def clean(self, retention_days: int) -> int:
        """Drop older streams; return the number of dropped rows or partitions."""
        now = time.time()
        async with self.writing() as connection:
            await connection.execute(delete(erased).where(erased.c.at < now - ERASED_DAYS * 86_400))
        if not retention_days:
            return 0
        before = today() - timedelta(days=retention_days)
        if self.address.sqlite:
            return await self._delete(before)
        await self._make_partitions([today(), _next_month(today())])
        return await self._drop(before)

    async def _delete(self, before: date) -> int:
        """Delete in small batches, to keep writers waiting only briefly."""
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
        """Drop the partitions that end by this day."""
        async with self.reading() as connection:
            found = await connection.execute(
                text(
                    "SELECT inhrelid::regclass::text FROM pg_inherits "
                    "WHERE inhparent = 'streams'::regclass"
                )
            )
            tables = sorted(name for (name,) in found if PARTITION.fullmatch(name))
        dropped = [table for table in tables if table < f"streams_{before:%Y_%m}"]
        for table in dropped:
            async with self.writing(alone=True) as connection:
                # Otherwise a long read would block the DROP, and the DROP everyone else.
                await connection.execute(text("SET LOCAL lock_timeout = '3s'"))
                await connection.execute(text(f"DROP TABLE IF EXISTS {table}"))
            self._partitions.clear()
        return len(dropped)

    # Erasure

    async def erase(self, tenant: str, user: str) -> int:
        """Replace a user's identity in all records; return the number of streams.

        Sums stay, under a random name. Streams that end later are recorded as before. Writers
        wait: their rows stay in the log.
        """
        async with self.writing(alone=True) as connection:
            return await erase(connection, tenant, user, at=time.time())

    async def scrub(self) -> None:
        """Truncate SQLite's write-ahead log, which still has erased rows, unless others read it."""
        if self.address.sqlite:
            async with self.engine.connect() as connection:
                raw = await connection.get_raw_connection()
                cursor = await raw.driver_connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[union-attr]
                await cursor.close()


def _next_month(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=31)).replace(day=1)


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _upgrade(connection: Connection) -> None:
    if _version(connection) is None and inspect(connection).has_table("streams"):
        raise UnknownSchema
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it logs even its import
    # Imported only for a migration: 40 MB and 0.2 s.
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
            raise UnknownSchema from None
