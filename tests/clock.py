"""Clocks that a test moves on, so that nothing depends on how long the machine takes."""

import asyncio
import time

import pytest

from app import clock


class Clock(clock.Clock):
    """The time of day, the time that passes and the running loop's timers, moved on together.

    Times that are long for the machine cost nothing, and are never over by themselves.
    `serve_relay(clock=...)` takes it: the relay then goes by it in all three.
    """

    _passed: list[float]

    def __new__(cls, monkeypatch: pytest.MonkeyPatch) -> "Clock":
        passed = [0.0]
        loop = asyncio.get_running_loop()
        loop_time = loop.time
        monkeypatch.setattr(loop, "time", lambda: loop_time() + passed[0])
        made = super().__new__(
            cls,
            wall=lambda: time.time() + passed[0],
            monotonic=lambda: time.monotonic() + passed[0],
        )
        made._passed = passed
        return made

    async def pass_(self, seconds: float) -> None:
        """Let so much time pass, and whatever is due by then happen."""
        self._passed[0] += seconds
        for _ in range(5):  # timers, the tasks that they wake, and what those begin
            await asyncio.sleep(0)


class StoppedClock:
    """One clock that stands still until a test sets `now`; call it for the time."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
