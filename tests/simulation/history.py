"""The history of a run: what each part did and saw, with its time."""

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

    def close(self) -> None:
        """Take no more records."""
        self._closed = True

    def add(self, what: str, **fields: Any) -> None:
        if not self._closed:
            self.records.append({"at": round(self._clock(), 6), "what": what, **fields})

    def lines(self) -> str:
        """Return the records as lines of JSON."""
        return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in self.records)
