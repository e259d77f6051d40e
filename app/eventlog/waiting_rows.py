"""Rows of ended streams that wait in a log until the records database has them."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

import structlog

MAX_ROWS = 100_000
"""How many rows a log stores: about 50 MB at 500 bytes each, three hours without the records
database at ten streams a second."""

LOG_EVERY_S = 60
"""The shortest time between two log lines about dropped rows."""

log = structlog.get_logger("seseragi.eventlog")


class WaitingRows(Protocol):
    """The rows, oldest first; the log adds one when it settles a stream."""

    async def rows(self, *, limit: int) -> list[tuple[str, bytes]]:
        """Return the ids of some ended streams, the oldest first, each with its row.

        Every process that shares the log gets them again until `forget_rows`.
        """

    async def forget_rows(self, streams: Sequence[str]) -> None:
        """Remove the rows of streams: the database has them. Unknown ids are ignored."""

    async def count_rows(self) -> int:
        """Return how many rows wait, of all processes that share the log."""


class MemoryRows:
    """The `WaitingRows` of one process, gone with it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._rows: OrderedDict[str, bytes] = OrderedDict()
        self._dropped = Dropped(now)

    def add(self, stream: str, row: bytes) -> None:
        """Store a row; beyond `MAX_ROWS` the oldest is dropped."""
        self._rows[stream] = row
        if len(self._rows) > MAX_ROWS:
            self._rows.popitem(last=False)
            self._dropped.add(1)

    async def rows(self, *, limit: int) -> list[tuple[str, bytes]]:
        return list(islice(self._rows.items(), limit))

    async def forget_rows(self, streams: Sequence[str]) -> None:
        for stream in streams:
            self._rows.pop(stream, None)

    async def count_rows(self) -> int:
        return len(self._rows)


class Dropped:
    """Logs rows that were dropped because the records did not take them."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._count = 0
        self._logged_at = -float("inf")

    def add(self, count: int) -> None:
        """Count rows that were dropped."""
        self._count += count
        now = self._now()
        if self._count and now >= self._logged_at + LOG_EVERY_S:
            log.error(
                "rows of ended streams were dropped",
                reason="the records have not taken them",
                rows=self._count,
                kept=MAX_ROWS,
            )
            self._count, self._logged_at = 0, now
