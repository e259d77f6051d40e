"""Load of this machine and of the relay: late timers look like tokens that are held back."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Sequence

TICK_S = 0.02
MAX_TICKS = 20_000
LATE_S = 0.06
"""Of timers and short answers: that joins tokens that are 25 ms apart."""
OFTEN = 0.2
"""Part of the short answers that may be late."""
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


def why_not_calm(lag_s: float, answers_s: Sequence[float]) -> str:
    """Return why times that were measured meanwhile do not show what a proxy does, or "".

    `answers_s`: seconds of short answers, which no proxy holds back.
    """
    if lag_s > LATE_S:
        return f"this machine's timers are late by up to {lag_s * 1000:.0f} ms"
    usual = min(answers_s, default=0.0)
    late = [taken for taken in answers_s if taken - usual > LATE_S]
    if len(late) > OFTEN * len(answers_s):
        return f"answers that take {usual * 1000:.0f} ms also take {max(late) * 1000:.0f} ms"
    return ""
