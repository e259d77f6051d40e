"""Converts rows of streams to the columns of the tables. Pure."""

import math
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from hashlib import blake2b
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Double, Integer

from ..telemetry.row import StreamRow
from .schema import BY, SUMS, streams

MOST = 2**50
"""The maximum number in a row: sums of thousands fit into 64 bits."""
MOST_COUNT = 2**31 - 1

FIRST, LAST = 946_684_800.0, 4_102_444_800.0
"""The years 2000 to 2100."""

MAX_CONTENT = 1 << 20
"""Bytes; longer content is not stored."""

_TEXTS = [
    (column.name, length)
    for column in streams.c
    if (length := getattr(column.type, "length", None)) is not None
]
_NUMBERS = [
    (column.name, MOST_COUNT if type(column.type) is Integer else MOST)
    for column in streams.c
    if isinstance(column.type, Integer)
]
_TIMES = [column.name for column in streams.c if isinstance(column.type, Double)]
_OTHERS = [name for name in StreamRow.__struct_fields__ if name not in streams.c]
_EPOCH = date(1970, 1, 1)


class Unusable(ValueError):
    """A row cannot be stored."""


def values_of(row: StreamRow) -> dict[str, Any]:
    """Return the columns of a row, each within its bound.

    Raises:
        Unusable: it has an invalid time.
    """
    values = msgspec.structs.asdict(row)
    for name in _OTHERS:
        del values[name]
    for name, length in _TEXTS:
        text = values[name]
        if text is not None and (len(text) > length or "\0" in text):
            # PostgreSQL's text cannot contain NUL.
            values[name] = text[:length].replace("\0", "\ufffd")
    for name, most in _NUMBERS:
        number = values[name]
        if number is not None and not -most <= number <= most:
            values[name] = max(min(number, most), -most)
    for name in _TIMES:
        time = values[name]
        if time is not None and not math.isfinite(time):
            raise Unusable(f"{name} is {time}")
    if not FIRST <= row.started_at < LAST:
        raise Unusable(f"started_at is {row.started_at}")
    values["day"] = day_of(row.started_at)
    values["content"] = _text_of(row.content)
    return values


def _text_of(content: bytes) -> str | None:
    if not content or len(content) > MAX_CONTENT:
        return None
    return content.decode("utf-8", "replace").replace("\0", "\ufffd")


def day_of(at: float) -> date:
    """Return the day (UTC) of a time."""
    return _EPOCH + timedelta(days=int(at // 86_400))


def today() -> date:
    """Return the current day (UTC)."""
    return datetime.now(UTC).date()


class Month(NamedTuple):
    """A month, the range of a partition."""

    year: int
    month: int

    @classmethod
    def of(cls, day: date) -> "Month":
        """Return the month of a day."""
        return cls(day.year, day.month)

    @property
    def next(self) -> "Month":
        return Month(self.year + self.month // 12, self.month % 12 + 1)

    @property
    def first(self) -> date:
        return date(self.year, self.month, 1)

    @property
    def table(self) -> str:
        return f"streams_{self.year:04}_{self.month:02}"


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
