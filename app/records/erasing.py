"""Erases a user from the records: sums stay under a random name.

A log may deliver a stream twice, or deliver one late that ended before its user was erased.
Digests of erased users and streams, stored for `ERASED_DAYS`, detect both.
"""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from sqlalchemy import bindparam, delete, exists, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from .rows import rollup_id, stream_digest, sum_up, user_digest
from .schema import BY, SUMS, erased, rollups, streams

PREFIX = "erased-"
"""Of the names that replace erased users."""

BATCH = 200
"""Streams changed in one transaction, for which writers wait."""

Writing = Callable[..., AbstractAsyncContextManager[AsyncConnection]]


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


class Erasure:
    """Erases one user; if it is interrupted, another run does the rest."""

    def __init__(self, writing: Writing, tenant: str, user: str) -> None:
        self._writing = writing
        self._tenant = tenant
        self._user = user
        self._name = pseudonym()
        self._at = time.time()

    async def run(self) -> int:
        """Erase the user in batches; return the number of streams."""
        count = 0
        async with self._writing(alone=True) as connection:
            await self._remember(connection, [user_digest(self._tenant, self._user)])
        while done := await self._hide_streams():
            count += done
        async with self._writing(alone=True) as connection:
            await self._hide_sums(connection)
        return count

    async def _hide_streams(self) -> int:
        mine = (streams.c.tenant == self._tenant) & (streams.c.user == self._user)
        old = select(streams.c.stream, streams.c.day).where(mine, streams.c.ended_at <= self._at)
        async with self._writing(alone=True) as connection:
            rows = list(await connection.execute(old.limit(BATCH)))
            if not rows:
                return 0
            await self._remember(connection, [stream_digest(row.stream) for row in rows])
            await connection.execute(
                update(streams)
                .where(streams.c.stream == bindparam("was"), streams.c.day == bindparam("on"))
                .values(stream=bindparam("becomes"), **_hide(self._name)),
                [{"was": row.stream, "on": row.day, "becomes": pseudonym()} for row in rows],
            )
        return len(rows)

    async def _remember(self, connection: AsyncConnection, digests: Iterable[bytes]) -> None:
        kind = sqlite if connection.dialect.name == "sqlite" else postgresql
        statement = kind.insert(erased)
        later = statement.on_conflict_do_update(
            index_elements=["digest"], set_={"at": statement.excluded.at}
        )
        rows = [{"digest": digest, "at": self._at} for digest in sorted(digests)]
        await connection.execute(later, rows)

    async def _hide_sums(self, connection: AsyncConnection) -> None:
        """Move the user's sums to the pseudonym, except those of streams that ended since."""
        mine = (rollups.c.tenant == self._tenant) & (rollups.c.user == self._user)
        sums = [dict(row._mapping) for row in await connection.execute(select(rollups).where(mine))]
        if not sums:
            return
        since = (streams.c.tenant == self._tenant) & (streams.c.user == self._user)
        left = sum_up(
            dict(row._mapping) for row in await connection.execute(select(streams).where(since))
        )
        await connection.execute(delete(rollups).where(mine))
        rows = [*left, *self._hidden(sums, {(row["day"], row["id"]): row for row in left})]
        if rows:
            await connection.execute(insert(rollups), rows)

    def _hidden(
        self, sums: Iterable[dict[str, Any]], left: dict[tuple[Any, bytes], dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the sums that move to the pseudonym; the user's keys become one."""
        hidden: dict[tuple[Any, bytes], Counter[str]] = {}
        names: dict[bytes, dict[str, str]] = {}
        for row in sums:
            remaining = left.get((row["day"], row["id"]), {})
            by = {name: row[name] for name in BY} | {"user": self._name, "key": self._name}
            digest = rollup_id(*by.values())
            names[digest] = by
            total = hidden.setdefault((row["day"], digest), Counter())
            total.update({name: row[name] - remaining.get(name, 0) for name in SUMS})
        return [
            {"day": day, "id": digest, **names[digest], **total}
            for (day, digest), total in hidden.items()
            if total["requests"]
        ]
