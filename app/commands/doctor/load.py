"""Load of this machine: late timers look like tokens that are held back."""

import asyncio
import math
import time
from collections import deque

TICK_S = 0.02
MAX_TICKS = 20_000
LATE_S = 0.06
"""Timers as late as this join tokens that are 25 ms apart."""
BUSY_S = 0.5
"""With timers as late as this, times mean nothing."""


class Lag:
    """Delays of this process's timers."""

    def __init__(self) -> None:
        self._ticks: deque[tuple[float, float]] = deque(maxlen=MAX_TICKS)

    async def watch(self) -> None:
        """Measure until cancelled."""
        while True:
            due = time.monotonic() + TICK_S
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            self.note(now, now - due)

    def note(self, at: float, late_s: float) -> None:
        self._ticks.append((at, late_s))

    def worst(self, since: float = 0.0, until: float = math.inf) -> float:
        """Return the longest delay that reaches into a span of time."""
        return max(
            (late for at, late in self._ticks if at >= since and at - late <= until), default=0.0
        )
