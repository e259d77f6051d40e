"""The history of a run: what each part did and saw, with its time."""

import asyncio
import json
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
        self._billed = 0
        self._waiters: list[tuple[int, bool, asyncio.Future[bool]]] = []

    def close(self) -> None:
        """Take no more records."""
        self._closed = True

    async def reaches(self, count: int, *, billed: bool = False) -> bool:
        """Wait until there are so many records, or so many calls are `billed`.

        Return False if nothing more happens.
        """
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters.append((count, billed, waiter))
        return await waiter

    def over(self) -> None:
        """Let nobody wait for more records."""
        for *_, waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(False)

    def add(self, what: str, **fields: Any) -> None:
        if not self._closed:
            self.records.append({"at": round(self._clock(), 6), "what": what, **fields})
            self._billed += what == "billed"
            for count, billed, waiter in self._waiters:
                found = self._billed if billed else len(self.records)
                if count <= found and not waiter.done():
                    waiter.set_result(True)

    def lines(self) -> str:
        """Return the records as lines of JSON."""
        return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in self.records)
