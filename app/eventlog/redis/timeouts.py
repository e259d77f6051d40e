"""Timeouts that ignore the time the event loop was blocked."""

import asyncio
from collections.abc import Callable
from types import TracebackType

LATE_S = 0.1
"""A timer that fires so late means that the loop was blocked, and replies may be unread."""


class Timer:
    """Calls `act` after a delay; if the loop was blocked at its end, it waits once more."""

    def __init__(self, seconds: float, act: Callable[[], None]) -> None:
        self._seconds = seconds
        self._act = act
        self._loop = asyncio.get_running_loop()
        self._waited_again = False
        self._arm()

    def cancel(self) -> None:
        """Cancel the call."""
        self._handle.cancel()

    def _arm(self) -> None:
        self._due = self._loop.time() + self._seconds
        self._handle = self._loop.call_at(self._due, self._check)

    def _check(self) -> None:
        if self._loop.time() - self._due > LATE_S and not self._waited_again:
            self._waited_again = True
            self._arm()
        else:
            self._act()


class Timeout:
    """An `asyncio.timeout` on a `Timer`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._bound = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._bound.__aenter__()
        loop = asyncio.get_running_loop()
        self._timer = Timer(self._seconds, lambda: self._bound.reschedule(loop.time()))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        await self._bound.__aexit__(kind, error, trace)
