"""Times in which Redis has to answer, as this process has lived through them."""

import asyncio
from collections.abc import Callable
from types import TracebackType

LATE_S = 0.1
"""A timer that comes so late says that the loop stood still, and not what came meanwhile."""


class Timer:
    """Acts when a time is over, and once more after it where the loop stood still at its end."""

    def __init__(self, seconds: float, act: Callable[[], None]) -> None:
        self._seconds = seconds
        self._act = act
        self._loop = asyncio.get_running_loop()
        self._waited_again = False
        self._arm()

    def cancel(self) -> None:
        """Never act."""
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
    """What is done in it has so long, as with `asyncio.timeout`."""

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
