"""A loop's clock that a test moves on, so that nothing depends on how long the machine takes."""

import asyncio

import pytest


class Clock:
    """What the running loop goes by: its timers are due when a test says that time has passed.

    Times that are long for the machine cost nothing, and are never over by themselves.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self._time = loop.time
        self._passed = 0.0
        monkeypatch.setattr(loop, "time", lambda: self._time() + self._passed)

    async def pass_(self, seconds: float) -> None:
        """Let so much time pass, and whatever is due by then happen."""
        self._passed += seconds
        for _ in range(5):  # timers, the tasks that they wake, and what those begin
            await asyncio.sleep(0)
