"""Rows for tests, a log that keeps some, and what a database has of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import select

from app.records.database import Database
from app.records.schema import rollups, streams, sum_up, values_of
from app.telemetry.row import StreamRow, pack_row

AT = 1_795_000_000.0
"""In November 2026."""


def make_row(stream: str, **values: Any) -> StreamRow:
    known: dict[str, Any] = {
        "stream": stream,
        "request_id": f"req_{stream}",
        "tenant": "acme",
        "user": "ann",
        "key": "web",
        "route": "fast",
        "model": "fast",
        "client_format": "native",
        "target": "openai/gpt",
        "answered_model": "gpt-5",
        "started_at": AT,
        "ended_at": AT + 2,
        "status": "completed",
        "finish_reason": "stop",
        "input_tokens": 10,
        "output_tokens": 20,
        "usage_from": "provider",
        "nano_usd": 1500,
    }
    return StreamRow(**known | values)


async def write(database: Database, *rows: StreamRow) -> int:
    return await database.write([values_of(row) for row in rows])


class KeptRows:
    """A log of rows in a file, which is what survives of one when its process is killed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def keep(self, rows: Sequence[StreamRow]) -> None:
        self._save({**self._load(), **{row.stream: pack_row(row) for row in rows}})

    async def rows(self, *, limit: int) -> list[tuple[str, bytes]]:
        return list(self._load().items())[:limit]

    async def forget_rows(self, streams: Sequence[str]) -> None:
        self._save({name: row for name, row in self._load().items() if name not in set(streams)})

    async def count_rows(self) -> int:
        return len(self._load())

    def _load(self) -> dict[str, bytes]:
        if not self._path.exists():
            return {}
        return {
            name: bytes.fromhex(row) for name, row in json.loads(self._path.read_text()).items()
        }

    def _save(self, rows: dict[str, bytes]) -> None:
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps({name: row.hex() for name, row in rows.items()}))
        beside.replace(self._path)


async def recorded(database: Database) -> list[dict[str, Any]]:
    """All rows of the database, by their streams."""
    async with database.reading() as connection:
        found = await connection.execute(select(streams).order_by(streams.c.stream))
        return [dict(row._mapping) for row in found]


async def check_sums(database: Database) -> None:
    """The sums are those of the rows, to the last of them."""
    async with database.reading() as connection:
        rows = [dict(row._mapping) for row in await connection.execute(select(streams))]
        sums = [dict(row._mapping) for row in await connection.execute(select(rollups))]

    expected = {(row["day"], row["id"]): row for row in sum_up(rows)}
    assert expected == {(row["day"], row["id"]): row for row in sums}
