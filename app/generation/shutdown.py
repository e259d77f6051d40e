"""Shutdown of a process: first it accepts no new work, then it stops waiting for running work."""

import asyncio
import contextlib
from collections.abc import Callable

STOP_S = 2.0
"""The maximum seconds for running streams to write their ends at the stop."""


class Shutdown:
    """The progress of this process's shutdown."""

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        """Prepare it; `is_busy` returns whether there is running work to wait for."""
        self.draining = False
        """Whether new work is refused."""
        self.stopping = asyncio.Event()
        """Set once the process no longer waits for running work."""
        self.waits: set[asyncio.Event] = set()
        """Those for the ends of running calls, which are set at the stop too."""
        self.hastened = asyncio.Event()
        """Set once the drain is cut short."""
        self._is_busy = is_busy
        self._drained = asyncio.Event()

    def check_drained(self) -> None:
        """Check whether all work has ended; to be called at each end."""
        if self.draining and not self._is_busy():
            self._drained.set()

    async def drain(self, drain_s: float) -> None:
        """Refuse new work, and wait at most `drain_s` for running work."""
        self.draining = True
        if self._is_busy():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(drain_s):
                    await self._drained.wait()

    def cut_short(self) -> None:
        """End a running `drain`."""
        self._drained.set()
        self.hastened.set()

    def stop(self) -> None:
        """Refuse new work, and stop waiting for running work."""
        self.draining = True
        for wait in (self.stopping, *self.waits):
            wait.set()
