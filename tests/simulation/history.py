"""The history of a run: what each part did and saw, with its time."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

Record = dict[str, Any]
"""`at` in seconds, `what`, and fields by its kind: `checker.py` lists them."""


class History:
    """Records in the order in which they happened."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.records: list[Record] = []
        self._clock = clock
        self._closed = False
        self._counts: Counter[str] = Counter()
        self._waiters: list[tuple[str, int, asyncio.Future[Record | None]]] = []

    def close(self) -> None:
        """Take no more records."""
        self._closed = True

    async def reaches(self, what: str, count: int) -> Record | None:
        """Wait until there are so many records of a kind; "": of all. Return the last of them.

        Return None if nothing more happens.
        """
        waiter: asyncio.Future[Record | None] = asyncio.get_running_loop().create_future()
        self._waiters.append((what, count, waiter))
        return await waiter

    def over(self) -> None:
        """Let nobody wait for more records."""
        for *_, waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def add(self, what: str, **fields: Any) -> None:
        if not self._closed:
            self.records.append({"at": round(self._clock(), 6), "what": what, **fields})
            self._counts[what] += 1
            self._counts[""] += 1
            for kind, count, waiter in self._waiters:
                if count <= self._counts[kind] and not waiter.done():
                    waiter.set_result(self.records[-1])

    def lines(self) -> str:
        """Return the records as lines of JSON."""
        return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in self.records)
