"""Converts rows of streams to the columns of the tables. Pure."""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from hashlib import blake2b
from operator import itemgetter
from typing import Any

import msgspec

from ..telemetry.row import StreamRow
from .schema import BY, SUMS, streams

_FROM_OUTSIDE = ("route", "model", "target", "answered_model")
"""Columns with text that clients and providers choose, bounded where it arrives."""


def values_of(row: StreamRow) -> dict[str, Any]:
    """Return the columns of a row.

    Raises:
        ValueError, OverflowError: it has an invalid time.
    """
    values = msgspec.structs.asdict(row)
    for name in _FROM_OUTSIDE:
        if (text := values[name]) is not None:
            values[name] = text.replace("\0", "\ufffd")  # PostgreSQL has no NUL
    values["day"] = day_of(row.started_at)
    values["content"] = row.content.decode() or None
    return values


def day_of(at: float) -> date:
    """Return the day (UTC) of a time."""
    return datetime.fromtimestamp(at, UTC).date()


def today() -> date:
    """Return the current day (UTC)."""
    return datetime.now(UTC).date()


def rollup_id(*by: str) -> bytes:
    """Return the id of sums within a day: a digest of the values of `BY`."""
    return blake2b(msgspec.json.encode(by), digest_size=16).digest()


def stream_digest(stream: str) -> bytes:
    """Return the digest stored for an erased stream."""
    return blake2b(stream.encode(), digest_size=16, person=b"stream").digest()


def user_digest(tenant: str, user: str) -> bytes:
    """Return the digest stored for an erased user."""
    return blake2b(msgspec.json.encode([tenant, user]), digest_size=16, person=b"user").digest()


def sum_up(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sum up rows, in an order that all writers share, which avoids deadlocks."""
    sums: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        key = (row["day"], *[row[name] or "" for name in BY])
        total = sums.get(key)
        if total is None:
            total = sums[key] = [0] * len(SUMS)
        total[0] += 1
        total[1] += row["status"] not in ("completed", "cancelled")
        for place, name in _ADDED:
            total[place] += row[name] or 0
        total[-1] += row["nano_usd"] is None
    found = [
        {
            "day": day,
            "id": rollup_id(*by),
            **dict(zip(BY, by, strict=True)),
            **dict(zip(SUMS, total, strict=True)),
        }
        for (day, *by), total in sums.items()
    ]
    return sorted(found, key=itemgetter("day", "id"))


_ADDED = [(place, name) for place, name in enumerate(SUMS) if name in streams.c]
