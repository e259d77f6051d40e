"""Reports on the records: sums by day, tenant, user and so on, and the latest streams.

Sums come from the daily rollups: their cost does not grow with the number of streams.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, desc, func, or_, select

from .database import Database
from .schema import SUMS, rollups, streams

BY: Final[Mapping[str, ColumnElement[Any]]] = {
    "day": rollups.c.day,
    "tenant": rollups.c.tenant,
    "user": rollups.c.user,
    "key": rollups.c.key,
    "model": rollups.c.route,
    "target": rollups.c.target,
}
"""The columns to group by; `model` is the name that clients use."""

LISTED: Final = (
    "started_at",
    "stream",
    "request_id",
    "tenant",
    "user",
    "key",
    "route",
    "target",
    "status",
    "code",
    "ended_by",
    "attempts",
    "first_event_s",
    "ended_at",
    "input_tokens",
    "output_tokens",
    "usage_from",
    "nano_usd",
)


class Report(NamedTuple):
    """Sums: each line has the values grouped by, then the numbers by their names."""

    by: Sequence[str]
    lines: Sequence[tuple[tuple[str, ...], dict[str, int]]]
    total: dict[str, int]


async def report(
    database: Database, by: Sequence[str], *, since: date | None, until: date | None
) -> Report:
    """Sum up the streams of a range of days, `until` included.

    Lines are ordered by day, then by descending cost.
    """
    columns = [BY[name] for name in by]
    sums = [func.sum(rollups.c[name]).label(name) for name in SUMS]
    statement = select(*columns, *sums).group_by(*columns)
    if since is not None:
        statement = statement.where(rollups.c.day >= since)
    if until is not None:
        statement = statement.where(rollups.c.day <= until)
    order = [rollups.c.day] if "day" in by else []
    costly = [desc("nano_usd"), desc("requests"), *columns]
    async with database.reading() as connection:
        found = await connection.execute(statement.order_by(*order, *costly))
        width = len(columns)
        lines = [
            (
                tuple(str(cell) for cell in row[:width]),
                {name: int(cell or 0) for name, cell in zip(SUMS, row[width:], strict=True)},
            )
            for row in found
        ]
    total = {name: sum(numbers[name] for _, numbers in lines) for name in SUMS}
    return Report(by, lines if columns else [], total)


async def latest(
    database: Database,
    *,
    limit: int,
    tenant: str | None,
    user: str | None,
    ended_by: str | None = None,
) -> list[dict[str, Any]]:
    """Return the latest streams, newest first, without their content."""
    statement = select(*(streams.c[name] for name in LISTED))
    if tenant is not None:
        statement = statement.where(streams.c.tenant == tenant)
    if user is not None:
        statement = statement.where(streams.c.user == user)
    if ended_by is not None:
        statement = statement.where(streams.c.ended_by == ended_by)
    statement = statement.order_by(desc(streams.c.started_at)).limit(limit)
    async with database.reading() as connection:
        return [dict(row._mapping) for row in await connection.execute(statement)]


async def find(database: Database, id: str, *, limit: int = 10) -> list[dict[str, Any]]:
    """Return the stream with an id, or the streams started by a request with that id."""
    statement = select(*(streams.c[name] for name in (*LISTED, "finish_reason")))
    named = or_(streams.c.stream == id, streams.c.request_id == id)
    async with database.reading() as connection:
        found = await connection.execute(statement.where(named).limit(limit))
        return [dict(row._mapping) for row in found]


async def tenants_of(database: Database, user: str) -> dict[str, int]:
    """Return the tenants in which a user is recorded, with the number of streams."""
    count = func.sum(rollups.c.requests)
    statement = select(rollups.c.tenant, count).where(rollups.c.user == user)
    async with database.reading() as connection:
        found = await connection.execute(statement.group_by(rollups.c.tenant))
        return {tenant: int(requests) for tenant, requests in found}
