"""Rows of ended streams that wait in a log until their consumers have them.

Each consumer has a queue of its own: `RECORDS`, and one for each webhook. A settlement adds the row
to all queues of the log in its own step.
"""

import heapq
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

    async def forget_rows(self, streams: Sequence[str], *, queue: str = RECORDS) -> None:
        """Remove the rows of streams: their consumer has them. Unknown ids are ignored."""

    async def count_rows(self, queue: str = RECORDS) -> int:
        """Return how many rows wait, of all processes that share the log."""


class RowQueues(WaitingRows, Protocol):
    """The rows of all consumers. Those of a queue beside the records are leased."""

    async def take_rows(self, queue: str, *, limit: int, for_s: float) -> list[tuple[str, bytes]]:
        """Return some due rows. No process gets them again for `for_s` seconds."""

    async def put_back_row(self, queue: str, stream: str, row: bytes, *, after_s: float) -> None:
        """Replace a row that was taken; it is due in `after_s` seconds. Forgotten ones stay so."""


class MemoryRows:
    """The `RowQueues` of one process, gone with it."""

    def __init__(
        self, now: Callable[[], float] = time.monotonic, queues: Sequence[str] = (RECORDS,)
    ) -> None:
        self._now = now
        self._queues: dict[str, OrderedDict[str, tuple[float, bytes]]] = {
            name: OrderedDict() for name in queues
        }
        """By stream when its row is due, and the row."""
        self._due: dict[str, list[tuple[float, str]]] = {name: [] for name in queues}
        """Heaps; an entry that is not when its row is due is an old one."""
        self._dropped = Dropped(now)

    def add(self, stream: str, row: bytes) -> None:
        """Store a row for each consumer; beyond `MAX_ROWS` the oldest is dropped."""
        for queue, rows in self._queues.items():
            self._put(queue, stream, row, due=self._now())
            if len(rows) > MAX_ROWS:
                rows.popitem(last=False)
                self._dropped.add(1)

    def _put(self, queue: str, stream: str, row: bytes, *, due: float) -> None:
        self._queues[queue][stream] = due, row
        if queue != RECORDS:
            heapq.heappush(self._due[queue], (due, stream))

    async def rows(self, *, limit: int) -> list[tuple[str, bytes]]:
        rows = islice(self._queues[RECORDS].items(), limit)
        return [(stream, row) for stream, (_, row) in rows]

    async def take_rows(self, queue: str, *, limit: int, for_s: float) -> list[tuple[str, bytes]]:
        heap, rows, now = self._due[queue], self._queues[queue], self._now()
        taken: list[tuple[str, bytes]] = []
        while len(taken) < limit and heap and heap[0][0] <= now:
            due, stream = heapq.heappop(heap)
            at, row = rows.get(stream, (None, b""))
            if at == due:
                taken.append((stream, row))
                self._put(queue, stream, row, due=now + for_s)
        return taken

    async def put_back_row(self, queue: str, stream: str, row: bytes, *, after_s: float) -> None:
        if stream in self._queues[queue]:
            self._put(queue, stream, row, due=self._now() + after_s)

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
