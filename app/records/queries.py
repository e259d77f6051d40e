"""Queries of the records: sums by day, tenant, user and so on, and the latest streams.

Sums come from the daily rollups: their cost does not grow with the number of streams.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

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


SHOWN: Final = (
    *LISTED,
    *("client_format", "model", "answered_model", "finish_reason", "longest_gap_s", "readers"),
    *("resumes", "cached_input_tokens", "reasoning_tokens", "content"),
)


async def sums_by(
    database: Database, by: Sequence[str], *, since: date, until: date
) -> list[dict[str, Any]]:
    """Sum up the streams of a range of days, `until` included: one dict a group, with `SUMS`.

    Ordered by day, then by descending cost.
    """
    columns = [BY[name].label(name) for name in by]
    sums = [func.coalesce(func.sum(rollups.c[name]), 0).label(name) for name in SUMS]
    order = [rollups.c.day] if "day" in by else []
    statement = (
        select(*columns, *sums)
        .where(rollups.c.day.between(since, until))
        .group_by(*columns)
        .order_by(*order, desc("nano_usd"), desc("requests"), *columns)
    )
    async with database.reading() as connection:
        return [
            {name: str(cell) if name in by else int(cell) for name, cell in row._mapping.items()}
            for row in await connection.execute(statement)
        ]


async def latest(
    database: Database,
    *,
    limit: int,
    since: date | None = None,
    until: date | None = None,
    **equal: str | None,
) -> list[dict[str, Any]]:
    """Return the latest streams, newest first, without their content.

    `equal` has values of columns, or None for any; `until` is included.
    """
    statement = select(*(streams.c[name] for name in LISTED))
    for name, value in equal.items():
        if value is not None:
            statement = statement.where(streams.c[name] == value)
    if since is not None:
        statement = statement.where(streams.c.day >= since)
    if until is not None:
        statement = statement.where(streams.c.day <= until)
    statement = statement.order_by(desc(streams.c.started_at)).limit(limit)
    async with database.reading() as connection:
        return [dict(row._mapping) for row in await connection.execute(statement)]


async def find(database: Database, id: str, *, limit: int = 10) -> list[dict[str, Any]]:
    """Return the stream with an id, or the streams started by a request with that id."""
    statement = select(*(streams.c[name] for name in SHOWN))
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
