"""The stop of a process: first nothing new is taken, then nothing is waited for."""

import asyncio
import contextlib
from collections.abc import Callable

STOP_S = 2.0
"""How long what goes on may take to write its end when everything stops."""


class Shutdown:
    """How far the stop of this process has come."""

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        """Prepare it; `is_busy` says whether anything goes on that is to be waited for."""
        self.draining = False
        """Whether nothing new is taken."""
        self.stopping = asyncio.Event()
        """Set once nothing is waited for any more."""
        self.hastened = asyncio.Event()
        """Set once the drain is cut short."""
        self._is_busy = is_busy
        self._drained = asyncio.Event()

    def check_drained(self) -> None:
        """Look whether that was the last which was waited for; to be called at each end."""
        if self.draining and not self._is_busy():
            self._drained.set()

    async def drain(self, drain_s: float) -> None:
        """Take nothing new, and wait until all that goes on has ended, but not longer."""
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
        """Take nothing new, and have nothing waited for."""
        self.draining = True
        self.stopping.set()
