"""The runs of this process: begun, read, stopped, ended.

The list of running streams is local to the process; their events are in the log.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice

import msgspec
import structlog

from ..errors import RelayError, shutting_down
from ..eventlog import LogState, Look
from ..eventlog.stream_info import StreamInfo
from ..eventlog.takeover import Takeover
from ..events import Stopper
from ..ledger.accounts import Grant
from ..policies.admission import LOCAL
from ..requests import ChatRequest
from ..telemetry.activity import Progress, ReaderCounts
from ..upstreams.routes import Route
from .parts import Parts
from .readers import Reader, ReaderRegistry
from .run import Run, shut_down
from .shutdown import STOP_S, Shutdown
from .start_options import StartOptions
from .taken import Taken

log = structlog.get_logger("seseragi.generation")


class _RunningStream:
    """A run and its task."""

    __slots__ = ("address", "run", "task")

    def __init__(self, run: Run, *, address: str) -> None:
        self.run = run
        self.address = address
        self.task = asyncio.create_task(run.run(), name=f"run {run.stream}")


class Opened(msgspec.Struct, frozen=True):
    """A stream that a request has started, or found."""

    reader: Reader
    outcome: "asyncio.Future[RelayError | None] | None"
    """`Run.outcome`, or its equivalent for a stream of another process; None for an ended stream,
    and if it was not requested."""
    grant: Grant | None = None
    """The reservation of a stream that the request has started."""
    cassette: str = ""
    """The cassette that such a stream replays."""
    reply_headers: Callable[[], Mapping[str, str]] = dict
    """Returns the provider's headers for the client, as far as known."""


class Runs:
    """Runs streams, and stops them on request or without readers."""

    def __init__(
        self,
        parts: Parts,
        reader_registry: ReaderRegistry,
        shutdown: Shutdown,
        *,
        takeover: Takeover | None,
    ) -> None:
        self._parts = parts
        self._takeover = takeover
        self._log = parts.event_log
        self._admission = parts.admission
        self._observer = parts.observer
        self._reader_registry = reader_registry
        self._shutdown = shutdown
        self._runs: dict[str, _RunningStream] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids of running streams, oldest first."""
        return iter(self._runs)

    async def begin(
        self, info: StreamInfo, request: ChatRequest, options: StartOptions, *, route: Route
    ) -> Opened:
        """Run a stream that has been opened in the log and admitted; return its first reader.

        Raises:
            ServiceError: the relay is shutting down, or the log has refused the first event. No
                upstream has been called, and the key is free.
        """
        stream, origin, parts = info.id, options.origin, self._parts
        if self._shutdown.stopping.is_set():
            self._admission.leave(origin.address)
            with contextlib.suppress(RelayError):
                await self._log.delete(stream)
            raise shutting_down()
        counts = ReaderCounts()
        run = Run(info, request, route=route, parts=parts, options=options, readers=counts)
        running = self._runs[stream] = _RunningStream(run, address=origin.address)
        stop = partial(run.stop, "cancelled", by="reader_gone")
        self._reader_registry.begin(stream, counts, linger_s=options.linger_s, stop=stop)
        running.task.add_done_callback(lambda _: self._ended(stream))
        found = Look(stream, LogState(0, ended=False, owner=info.owner))
        reader = self._reader_registry.join(found, origin.address, reads=not options.leaves)
        if info.key is not None or options.leaves:
            try:
                await self._await_start(running)
            except BaseException:
                reader.leave()
                raise
        return Opened(reader, run.outcome(), reply_headers=run.reply_headers)

    def go_on(
        self,
        info: StreamInfo,
        request: ChatRequest,
        options: StartOptions,
        *,
        route: Route,
        taken: Taken,
    ) -> None:
        """Run a stream that another relay began, and that the log has given to this process."""
        stream, counts = info.id, ReaderCounts()
        self._admission.enter(LOCAL)
        run = Run(
            info,
            request,
            route=route,
            parts=self._parts,
            options=options,
            readers=counts,
            taken=taken,
        )
        running = self._runs[stream] = _RunningStream(run, address=LOCAL)
        stop = partial(run.stop, "cancelled", by="reader_gone")
        self._reader_registry.begin(
            stream, counts, linger_s=options.linger_s, stop=stop, returns=True
        )
        running.task.add_done_callback(lambda _: self._ended(stream))

    async def _await_start(self, running: _RunningStream) -> None:
        """Wait until a stream can be found again, by its key or its id.

        Raises:
            ServiceError: the log has refused its first event. No upstream has been called, and the
                key is free.
        """
        await asyncio.wait({running.run.begun})
        if (error := running.run.begun.result()) is not None:
            raise error

    def attach(
        self,
        found: Look,
        address: str,
        *,
        after: int,
        counted: bool,
        guest: bool,
        reads: bool = True,
    ) -> Opened:
        """Add a reader to a found stream, wherever it runs.

        A `guest` reads by a share link.

        Raises:
            ServiceError: `overloaded`, the stream has too many readers; `rate_limited`, its
                client reads too many streams.
        """
        self._reader_registry.check(found.stream, address, guest=guest)
        reader = self._reader_registry.join(
            found, address, after=after, counted=counted, guest=guest, reads=reads
        )
        running = self._runs.get(found.stream)
        return Opened(reader, None if running is None else running.run.outcome())

    def progress(self, *, most: int) -> Iterator[Progress]:
        """Yield the progress of some streams, oldest first, each as of its iteration."""
        runs = list(islice(self._runs.values(), most))
        return (running.run.progress() for running in runs)

    async def cancel(self, stream: str, by: Stopper) -> bool:
        """Stop a generation and wait for its end; return False if it does not run here."""
        running = self._runs.get(stream)
        if running is None:
            return False
        running.run.stop("cancelled", by=by)
        await asyncio.wait({running.task})
        return True

    def obey_stop(self, stream: str, by: Stopper) -> None:
        """Stop a stream that another process stopped or ended; see `EventLog.open`."""
        if (running := self._runs.get(stream)) is not None:
            running.run.stop("cancelled", by=by)

    async def stop_all(self) -> None:
        """Stop all runs and wait up to `STOP_S` for their ends; hand over what may outlive them."""
        runs, left = list(self._runs.values()), list[_RunningStream]()
        for running in runs:
            if self._takeover is not None and running.run.hand_over():
                left.append(running)
            else:
                running.run.stop("interrupted", shut_down(), by="shutdown")
        if runs:
            await asyncio.wait([running.task for running in runs], timeout=STOP_S)
        if self._takeover is not None:
            streams = [running.run.stream for running in left if running.task.done()]
            if streams:
                log.info("streams handed over", streams=len(streams))
            await asyncio.gather(*map(self._takeover.hand_over, streams))

    def _ended(self, stream: str) -> None:
        running = self._runs.pop(stream)
        self._admission.leave(running.address)
        self._reader_registry.end(stream)
        self._shutdown.check_drained()
