"""The streams and calls of one process: opened, drained and closed together.

`OwnedStreams` and `Calls` do the work for clients.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from functools import partial
from typing import Any, Literal, TypeVar

import structlog

from ..errors import RelayError
from ..eventlog.takeover import Takeover
from ..identity.principal import Principal
from ..telemetry.activity import Load, Progress
from ..telemetry.observer import Refused
from ..upstreams.routes import ModelList
from .calls import Calls
from .cassette_recorder import CassetteRecorder
from .owned_streams import OwnedStreams
from .parts import Parts
from .readers import ReaderRegistry
from .runs import Runs
from .shutdown import STOP_S, Shutdown
from .starts import Starts
from .takeover import Takeovers
from .watchdog import Watchdog
from .watching import Watchers

T = TypeVar("T")

log = structlog.get_logger("seseragi.hub")


class Hub:
    """All streams and calls of this process, from start to shutdown."""

    def __init__(
        self,
        parts: Parts,
        *,
        max_readers: int,
        cassette_recorder: CassetteRecorder | None = None,
        takeover: Takeover | None = None,
    ) -> None:
        """Compose the parts; `takeover` is that of the log, if it has one."""
        self._parts = parts
        self._log = parts.event_log
        self._cassette_recorder = cassette_recorder
        self._tasks: set[asyncio.Task[Any]] = set()
        self.upstreams = parts.upstreams
        self.admission = parts.admission
        self.clock = parts.clock
        self.shutdown = Shutdown(self._is_busy)
        self._reader_registry = ReaderRegistry(
            parts, max_readers=max_readers, drain=self.drain_once, spawn=self._spawn
        )
        self._runs = Runs(parts, self._reader_registry, self.shutdown, takeover=takeover)
        self._starts = Starts(
            parts, self._runs, self.shutdown, spawn=self._spawn, cassette_recorder=cassette_recorder
        )
        if takeover is not None:
            takeover.give_to(Takeovers(parts, self._runs, self.shutdown).heir)
        self._watchers = Watchers(parts, self.shutdown, max_watchers=max_readers)
        self.streams_of = partial(
            OwnedStreams,
            event_log=parts.event_log,
            peers=parts.peers,
            runs=self._runs,
            starts=self._starts,
            watchers=self._watchers,
        )
        """Returns the streams of a principal, for a request of this `request_id`."""
        self.calls = Calls(parts, self.shutdown, spawn=self._spawn)

    def _spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _is_busy(self) -> bool:
        return bool(self._runs or self.calls.count)

    @property
    def readiness(self) -> Literal["ready", "draining", "log failing"]:
        """Whether new streams are accepted, and if not, the reason."""
        if self.shutdown.draining:
            return "draining"
        return "ready" if self._log.healthy() else "log failing"

    def load(self) -> Load:
        """Return the current load of this process."""
        size = self._log.size()
        return Load(
            streams=len(self._runs),
            readers=self._reader_registry.count,
            draining=self.shutdown.draining,
            log_healthy=self._log.healthy(),
            log_streams=size.streams,
            log_bytes=size.bytes,
            request_bytes=self.admission.bytes,
            breakers=self.upstreams.states(now=asyncio.get_running_loop().time()),
        )

    def progress(self, *, most: int) -> Iterator[Progress]:
        """Return the progress of some running streams of any owner, oldest first, for operators.

        Each is read when the iteration reaches it.
        """
        return self._runs.progress(most=most)

    def readers(self, *, most: int) -> dict[str, int]:
        """Return the numbers of readers here of some streams of any owner, for operators."""
        return self._reader_registry.some(most)

    def report_refusal(
        self, principal: Principal, request_id: str, model: str | None, error: RelayError
    ) -> None:
        """Report a request that ended in an error without a stream to the observers."""
        refused = Refused(owner=principal.owner, request_id=request_id, model=model, error=error)
        self._parts.observer.refused(refused)

    async def models(self) -> ModelList:
        """List the models, the default first."""
        parts = self._parts
        return await parts.upstreams.models(parts.client, parts.settlements.list_price)

    async def drain(self, drain_s: float) -> None:
        """Accept no new streams, wait for the running ones, and stop those that exceed the time."""
        log.info("draining", streams=len(self._runs), drain_s=drain_s)
        self._watchers.close()
        await self.shutdown.drain(drain_s)
        await self._stop_all()

    async def drain_once(self, drain_s: float) -> None:
        """Call `drain`, unless it is running."""
        if not self.shutdown.draining:
            await self.drain(drain_s)

    async def open(self) -> None:
        """Open the log and watch its streams.

        Raises:
            LogUnusable: the log cannot be opened.
        """
        await self._log.open(
            on_ended=self._parts.observer.ended,
            close=lambda orphan: self._parts.settlements.close_orphaned(orphan),  # reloadable
            on_stop=self._runs.obey_stop,
        )
        watchdog = Watchdog(self._parts, producing=lambda: {*self._runs, *self.calls.streams})
        self._spawn(watchdog.watch())

    async def close(self) -> None:
        """Stop all streams and calls; the log stays open."""
        await self._stop_all()
        if self._cassette_recorder is not None:
            await self._cassette_recorder.close(timeout_s=STOP_S)
        for task in self._tasks:
            task.cancel()

    async def _stop_all(self) -> None:
        self.shutdown.stop()
        self._watchers.close()
        await self._runs.stop_all()
        self._parts.peers.release_remote_readers()
