"""What the records say: sums by day, tenant, user and so on, and the latest streams.

Sums are those of the daily ones, however many streams there were.
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
"""What sums can be told apart by; a model is one as clients name it."""

LISTED: Final = (
    *("started_at", "stream", "request_id", "tenant", "user", "key", "route", "target"),
    *("status", "code", "ended_by", "attempts", "first_event_s", "ended_at"),
    *("input_tokens", "output_tokens", "usage_from", "nano_usd"),
)


class Report(NamedTuple):
    """Sums: in each line what it is told apart by, then the numbers by their names."""

    by: Sequence[str]
    lines: Sequence[tuple[tuple[str, ...], dict[str, int]]]
    total: dict[str, int]


async def report(
    database: Database, by: Sequence[str], *, since: date | None, until: date | None
) -> Report:
    """Add up the streams of some days, the last one included.

    Days stand in their order, and within one what has cost most comes first.
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
    """Return the streams that began last, the newest first, without their content."""
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
    """Return the stream of an id, or those that a request of that id has started."""
    statement = select(*(streams.c[name] for name in (*LISTED, "finish_reason")))
    named = or_(streams.c.stream == id, streams.c.request_id == id)
    async with database.reading() as connection:
        found = await connection.execute(statement.where(named).limit(limit))
        return [dict(row._mapping) for row in found]


async def tenants_of(database: Database, user: str) -> dict[str, int]:
    """Return in which tenants a user of this name is recorded, with how many streams."""
    count = func.sum(rollups.c.requests)
    statement = select(rollups.c.tenant, count).where(rollups.c.user == user)
    async with database.reading() as connection:
        found = await connection.execute(statement.group_by(rollups.c.tenant))
        return {tenant: int(requests) for tenant, requests in found}
