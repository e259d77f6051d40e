"""Erases a user from the records: sums stay under a random name.

A log may deliver a stream twice, or deliver one late that ended before its user was erased.
Digests of erased users and streams, stored for `ERASED_DAYS`, detect both.
"""

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import bindparam, delete, exists, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from .rows import rollup_id, stream_digest, user_digest
from .schema import BY, SUMS, erased, rollups, streams

PREFIX = "erased-"
"""Of the names that replace erased users."""

BATCH = 200
"""Streams changed by one statement."""


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
