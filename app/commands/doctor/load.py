"""How busy this machine and the relay are: late timers look like tokens held back."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Sequence

TICK_S = 0.02
KEPT = 20_000
"""Ticks: more than an examination has."""
LATE_S = 0.06
"""Of timers, and of short answers: tokens that are 25 ms apart come together by that."""
OFTEN = 0.2
"""Of the short answers may be late."""
BUSY_S = 0.5
"""A machine that is late by so much can say little about times at all."""


class Lag:
    """By how much this process is woken too late."""

    def __init__(self) -> None:
        self._ticks: deque[tuple[float, float]] = deque(maxlen=KEPT)

    async def watch(self) -> None:
        """Sleep and see, until it is cancelled."""
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
    """Say why times that were measured meanwhile say nothing of a proxy; "" if they do.

    `answers_s`: how long short answers took that nobody holds back.
    """
    if lag_s > LATE_S:
        return f"this machine's timers are late by up to {lag_s * 1000:.0f} ms"
    usual = min(answers_s, default=0.0)
    late = [taken for taken in answers_s if taken - usual > LATE_S]
    if len(late) > OFTEN * len(answers_s):
        return f"answers that take {usual * 1000:.0f} ms also take {max(late) * 1000:.0f} ms"
    return ""
