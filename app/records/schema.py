"""The tables after the newest migration, and the columns of a stream's row.

Times are unix seconds, money is nano-USD, days are UTC. The day of a stream is that of its start;
in PostgreSQL it selects the partition.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

from ..telemetry.row import StreamRow

HEAD: Final = "0002"
"""The newest migration."""

NAME: Final = 256
"""Characters of a tenant, user or key: two in an index row fit into a page of PostgreSQL."""
MODEL: Final = 512
"""Characters of a route, model or target."""

metadata = MetaData()

streams = Table(
    "streams",
    metadata,
    Column("stream", String(64), nullable=False),
    Column("day", Date, nullable=False),
    Column("request_id", String(NAME), nullable=False),
    Column("tenant", String(NAME), nullable=False),
    Column("user", String(NAME), nullable=False),
    Column("key", String(NAME), nullable=False),
    Column("route", String(MODEL), nullable=False),
    Column("model", String(MODEL), nullable=False),
    Column("client_format", String(64), nullable=False),
    Column("target", String(MODEL)),
    Column("answered_model", String(MODEL)),
    Column("started_at", Double, nullable=False),
    Column("ended_at", Double, nullable=False),
    Column("first_event_s", Double),
    Column("longest_gap_s", Double),
    Column("status", String(32), nullable=False),
    Column("finish_reason", String(32), nullable=False),
    Column("code", String(64)),
    Column("attempts", Integer, nullable=False),
    Column("readers", Integer, nullable=False),
    Column("resumes", Integer, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("cached_input_tokens", BigInteger),
    Column("cache_write_tokens", BigInteger),
    Column("reasoning_tokens", BigInteger),
    Column("usage_from", String(16), nullable=False),
    Column("nano_usd", BigInteger),
    Column("price_version", String(NAME), nullable=False),
    Column("trace_id", String(64), nullable=False),
    Column("lost", Boolean, nullable=False),
    # Nearly last: columns after a long value are slower to reach.
    Column("content", Text),
    Column("ended_by", String(32)),
    PrimaryKeyConstraint("stream", "day"),
    Index("ix_streams_started", "started_at"),
    Index("ix_streams_user", "user", "tenant"),
    postgresql_partition_by="RANGE (day)",
)
"""One row a stream. PostgreSQL requires the partition's column, `day`, in the primary key."""

BY: Final = ("tenant", "user", "key", "route", "target")
"""The columns that group the sums of a day."""

SUMS: Final = (
    "requests",
    "failures",
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "nano_usd",
    "unpriced",
)

rollups = Table(
    "rollups",
    metadata,
    Column("day", Date, nullable=False),
    Column("id", LargeBinary(16), nullable=False),
    *(Column(name, String(NAME), nullable=False) for name in ("tenant", "user", "key")),
    *(Column(name, String(MODEL), nullable=False) for name in ("route", "target")),
    *(Column(name, BigInteger, nullable=False) for name in SUMS),
    PrimaryKeyConstraint("day", "id"),
    Index("ix_rollups_user", "user", "tenant"),
)
"""Daily sums, grouped by `BY`. `id` is a digest of `BY`, whose values may exceed the length of a
key. `unpriced` counts streams with an unknown cost."""

erased = Table(
    "erased",
    metadata,
    Column("digest", LargeBinary(16), primary_key=True),
    Column("at", Double, nullable=False),
    Index("ix_erased_at", "at"),
)
"""Digests of erased streams and users, while a log may deliver their rows again."""


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
