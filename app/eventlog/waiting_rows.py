"""Rows of ended streams that wait in a log for the records, which may not come for them."""

import time
from collections.abc import Callable

import structlog

MAX_ROWS = 100_000
"""How many rows a log keeps. One takes about 500 bytes, so these take 50 MB: what a relay with
ten streams a second ends in three hours without its records."""

TELL_S = 60
"""How often it is told that rows were dropped, at most."""

log = structlog.get_logger("seseragi.eventlog")


class Dropped:
    """Tells of rows that were dropped because nobody has taken them."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._count = 0
        self._told_at = -float("inf")

    def add(self, count: int) -> None:
        """Count rows that were dropped."""
        self._count += count
        now = self._now()
        if self._count and now >= self._told_at + TELL_S:
            log.error(
                "rows of ended streams were dropped",
                reason="the records have not taken them",
                rows=self._count,
                kept=MAX_ROWS,
            )
            self._count, self._told_at = 0, now
