"""Ends streams of this process that nothing produces, whatever has lost their producer.

A stream without a producer would have no end: its readers would wait, and its reservation stay.
Such a stream is a bug, and is logged as one. It ends like that of a dead process.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection

import structlog

from ..errors import RelayError
from ..eventlog.recovery import end_orphan
from .parts import Parts

CHECK_S = 2.0
"""Seconds between two checks; a stream without a producer in two of them is ended."""

log = structlog.get_logger("seseragi.generation")


class Watchdog:
    """Compares the running streams of the log with their producers."""

    def __init__(self, parts: Parts, *, producing: Callable[[], Collection[str]]) -> None:
        """`producing` returns the streams that runs and calls produce."""
        self._parts = parts
        self._log = parts.event_log
        self._producing = producing
        self._suspects: set[str] = set()

    async def watch(self) -> None:
        """Check until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            await self.check()

    async def check(self) -> None:
        """End the streams that have had no producer since the check before."""
        found = set(self._log.running()).difference(self._producing())
        lost, self._suspects = found & self._suspects, found
        for stream in lost:
            log.error("stream has no producer", stream=stream)
            with contextlib.suppress(RelayError, ValueError):  # then it is tried again
                await self._end(stream)

    async def _end(self, stream: str) -> None:
        parts, events = self._parts, self._log.produced(stream)
        if not events:
            await self._log.delete(stream)
            return
        info, state = await self._log.info(stream), await self._log.state(stream)
        ending, closing = end_orphan(
            info,
            events,
            parts.settlements.close_orphaned,
            started_at=state.started_at,
            ended_at=parts.clock.wall(),
        )
        placed = await self._log.append(stream, ending, closing.settlement)
        if placed is not None:
            await placed
        parts.observer.ended(closing.ended)
