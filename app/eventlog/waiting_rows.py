"""Rows of ended streams that wait in a log until their consumers have them.

Each consumer has a queue of its own: `RECORDS`, and one for each webhook. A settlement adds the row
to all queues of the log in its own step.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Protocol

import structlog

RECORDS: Final = "rows"
"""The queue of the records database."""

MAX_ROWS = 100_000
"""How many rows a queue stores: about 50 MB at 500 bytes each, three hours without the records
database at ten streams a second."""

LOG_EVERY_S = 60
"""The shortest time between two log lines about dropped rows."""

log = structlog.get_logger("seseragi.eventlog")


class WaitingRows(Protocol):
    """The rows for the records, oldest first; the log adds one when it settles a stream."""

    async def rows(self, *, limit: int) -> list[tuple[str, bytes]]:
        """Return the ids of some ended streams, the oldest first, each with its row.

        Every process that shares the log gets them again until `forget_rows`.
        """

    async def forget_rows(self, streams: Sequence[str]) -> None:
        """Remove the rows of streams: their consumer has them. Unknown ids are ignored."""

    async def count_rows(self) -> int:
        """Return how many rows wait, of all processes that share the log."""


class RowQueues(WaitingRows, Protocol):
    """The rows of all consumers. Those of a queue beside the records are leased."""

    async def take_rows(self, queue: str, *, limit: int, for_s: float) -> list[tuple[str, bytes]]:
        """Return some due rows. No process gets them again for `for_s` seconds."""

    async def put_back_row(self, queue: str, stream: str, row: bytes, *, after_s: float) -> None:
        """Replace a row that was taken; it is due in `after_s` seconds. Forgotten ones stay so."""

    async def forget_rows(self, streams: Sequence[str], *, queue: str = RECORDS) -> None:
        """Remove rows of any queue."""

    async def count_rows(self, queue: str = RECORDS) -> int:
        """Count the rows of any queue."""


class MemoryRows:
    """The `RowQueues` of one process, gone with it."""

    def __init__(
        self, now: Callable[[], float] = time.monotonic, queues: Sequence[str] = (RECORDS,)
    ) -> None:
        self._now = now
        self._queues: dict[str, OrderedDict[str, tuple[float, bytes]]] = {
            queue: OrderedDict() for queue in queues
        }
        """By stream when its row is due, and the row."""
        self._dropped = Dropped(now)

    def add(self, stream: str, row: bytes) -> None:
        """Store a row for each consumer; beyond `MAX_ROWS` the oldest is dropped."""
        for rows in self._queues.values():
            rows[stream] = self._now(), row
            if len(rows) > MAX_ROWS:
                rows.popitem(last=False)
                self._dropped.add(1)

    async def rows(self, *, limit: int) -> list[tuple[str, bytes]]:
        rows = islice(self._queues[RECORDS].items(), limit)
        return [(stream, row) for stream, (_, row) in rows]

    async def take_rows(self, queue: str, *, limit: int, for_s: float) -> list[tuple[str, bytes]]:
        rows, now = self._queues[queue], self._now()
        # 4 ms if 100,000 wait and none is due.
        due = ((stream, row) for stream, (at, row) in rows.items() if at <= now)
        taken = list(islice(due, limit))
        rows.update((stream, (now + for_s, row)) for stream, row in taken)
        return taken

    async def put_back_row(self, queue: str, stream: str, row: bytes, *, after_s: float) -> None:
        if stream in self._queues[queue]:
            self._queues[queue][stream] = self._now() + after_s, row

    async def forget_rows(self, streams: Sequence[str], *, queue: str = RECORDS) -> None:
        for stream in streams:
            self._queues[queue].pop(stream, None)

    async def count_rows(self, queue: str = RECORDS) -> int:
        return len(self._queues[queue])


class Dropped:
    """Logs rows that were dropped because their consumer did not take them."""

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
                reason="the records or a webhook have not taken them",
                rows=self._count,
                kept=MAX_ROWS,
            )
            self._count, self._logged_at = 0, now
