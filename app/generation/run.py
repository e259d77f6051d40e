"""The driver of one generation, and the last stage of its chain: appends to the log.

The path of a token: `Reading` (bytes to events), the stages of `chain.py`, `Run.push`, the log.
What arrived in one read moves as one batch. A feature of a route is a stage in `stages/`; the
driver begins, appends, stops and ends, by the states of `lifecycle.py`.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Final

import structlog

from ..errors import RelayError, ServiceError, UpstreamError
from ..eventlog import StreamTooLong, read_all
from ..eventlog.recovery import LOST, closing_events
from ..eventlog.stream_ended import StreamEnded
from ..eventlog.stream_info import StreamInfo
from ..eventlog.takeover import StreamTaken
from ..events import EndedBy, Event, Notice, Status, StreamEnd, StreamStart, StreamTarget
from ..requests import ChatRequest
from ..telemetry.activity import Progress, ReaderCounts
from ..telemetry.observer import FirstEvent
from ..upstreams.routes import Route
from .chain import Chain
from .content import Content
from .lifecycle import Life, Stopped
from .parts import Parts
from .reading import is_visible
from .run_settlement import RunSettlement
from .stages.stage import end_of
from .start_options import StartOptions
from .taken import Taken

TAKEN_OVER: Final = Notice("takeover", "the relay stopped; another one goes on with the answer")

_GOES_ON: Final = frozenset(("begun", "trying", "racing", "committed", "continuing"))
"""The states in which another relay can go on."""

STORED_S = 10.0
"""The maximum seconds for the end of a cancelled run to be stored, so that it is reported."""

log = structlog.get_logger("seseragi.generation")


class Run:
    """Runs one generation, once, and never raises: every end is a `stream.end` in the log.

    `begun` resolves before any upstream is called: to None when the log has the first event,
    to the error if the log refuses it; the stream is then removed. `committed` resolves with the
    outcome of the start: to None when the answer has begun, to the error if the stream failed
    before any visible output.
    """

    def __init__(
        self,
        info: StreamInfo,
        request: ChatRequest,
        *,
        route: Route,
        parts: Parts,
        options: StartOptions,
        readers: ReaderCounts | None = None,
        taken: Taken | None = None,
    ) -> None:
        """Prepare a run; `readers` are the current numbers of its readers.

        `taken`: another relay has begun the stream, and this run goes on with it.
        """
        self.stream = info.id
        self._taken = taken is not None
        self._outlives = bool(info.takeover)
        """Whether another relay may go on with it."""
        self._left = False
        """Whether one is to."""
        self._info = info = info.without_request()
        readers = readers or ReaderCounts()
        self.begun: asyncio.Future[RelayError | None] = asyncio.Future()
        self.committed: asyncio.Future[RelayError | None] = asyncio.Future()
        self._waiters: list[asyncio.Future[RelayError | None]] = []
        self._route = route
        self._log = parts.event_log
        self._observer = parts.observer
        self._wall = parts.clock.wall
        self._life = Life()
        self._task: asyncio.Task[None] | None = None
        self._count = 0 if taken is None else len(taken.events)
        """Events in the log."""
        self._chain = chain = Chain(
            self,
            info,
            request,
            route=route,
            parts=parts,
            options=options,
            readers=readers,
            life=self._life,
            taken=taken,
        )
        self._attempts = chain.attempts
        records_content = route.record_content and parts.settlements.keeps_rows
        self._settlement = RunSettlement(
            info=info,
            settlements=parts.settlements,
            charges=chain.attempts.charges,
            produced=chain.produced,
            readers=readers,
            wall=parts.clock.wall,
            content=Content(request) if records_content or parts.trace_content else None,
            records_content=records_content,
            traces_content=parts.trace_content,
        )

    async def run(self) -> None:
        """Relay the whole answer; returns when the `stream.end` is in the log.

        If the log refuses that too, the failure is logged, and recovery ends the stream.
        """
        self._task = asyncio.current_task()
        try:
            try:
                await self._run()
            except StreamTaken:
                raise
            except RelayError as error:
                await self._end_by_log(error)
        except StreamTaken:
            self._attempts.call.leave()
        except RelayError as failure:
            log.warning("log failed under the stream", stream=self.stream, code=failure.code)
            with contextlib.suppress(RelayError):
                await self._end_by_log(failure)
        except Exception:
            log.exception("relay failed", stream=self.stream)
            bug = ServiceError("internal", "the relay failed; see its log")
            with contextlib.suppress(RelayError):
                await self._end_by_log(bug)
        finally:
            del self._chain  # whose stages refer to this run
            self._attempts.request.drop()
            if not self.begun.done():
                self.begun.set_result(ServiceError("internal", "the event log failed"))
            if not self.committed.done():
                self._tell_outcome(RelayError.of(LOST))  # as recovery ends the stream
            if self._attempts.call.resumption is not None:
                await self._attempts.call.abandon()

    async def _run(self) -> None:
        life, attempts = self._life, self._attempts
        try:
            await self._begin()
            if life.state == "begun":
                if len(self._route.targets) > 1 and attempts.failover.choose_again():
                    attempts.prepare()
                await attempts.failover.run(self._chain.attempt)
        except asyncio.CancelledError:
            if self._left:
                raise StreamTaken from None
            life.stop(Stopped("interrupted", shut_down(), "shutdown"))
        if life.stopped is not None and life.state == "ending":
            await self._end_stopped(life.stopped)
        elif life.state not in ("placing", "ended"):
            raise RuntimeError(f"the attempts are over in state {life.state!r}")

    async def _begin(self) -> None:
        """Append the first event; if the log refuses it, remove a stream that this relay began.

        Once that event is in the log, an upstream may have been called.
        """
        labels, now = self._info.labels, int(self._wall())
        model = self._route.requested_name or self._route.name
        try:
            start = StreamStart(self.stream, model, created=now, labels=labels)
            await self._append([TAKEN_OVER] if self._taken else [start, *self._route.notices])
        except RelayError as error:
            failure = error if isinstance(error, ServiceError) else _not_begun()
            if not self._taken:
                with contextlib.suppress(RelayError):
                    await self._log.delete(self.stream)
            self._life.enter("lost")
            self.begun.set_result(failure)
            self._tell_outcome(failure)
        else:
            self._life.enter("started")
            self.begun.set_result(None)

    async def _end_stopped(self, stopped: Stopped) -> None:
        """End as stopped, with what the call has received and not passed on.

        With hooks, or if a cancelled `take` has lost the provider's end, end after the events in
        the log.
        """
        if not await self._chain.stop(stopped.status, stopped.error):
            await self._close(self._chain.produced(), stopped)

    async def _end_by_log(self, error: RelayError) -> None:
        """End as failed, from the events in the log: the parser may be ahead of them."""
        life = self._life
        life.enter("refused")
        if life.state == "ended":
            return
        life.stopped = life.stopped or Stopped("failed", error, "relay")
        self._chain.drop()
        written = await read_all(self._log, self.stream)
        self._count = len(written)
        await self._close(written, Stopped("failed", error, life.stopped.by))

    async def _close(self, written: Sequence[Event], stopped: Stopped) -> None:
        """End after the events in the log; if one of them is an end, the log reports it."""
        error = None if stopped.error is None else stopped.error.info()
        events = closing_events(written, status=stopped.status, error=error)
        if (end := end_of(events)) is not None:
            if self._attempts.begun:
                self._attempts.note_end(end)
            await self._end(end, events)

    def stop(self, status: Status, error: RelayError | None = None, *, by: EndedBy) -> None:
        """End the generation from outside and close the upstream; the first call counts."""
        waits = self._life.state != "reserved"  # the append of the start is not interrupted
        if self._life.stop(Stopped(status, error, by)) and waits and self._task is not None:
            self._task.cancel()

    def hand_over(self) -> bool:
        """Stop without an end, so that another relay goes on; False if none may, or it ends."""
        task = self._task
        if task is None or not self._outlives or self._life.state not in _GOES_ON:
            return False
        self._left = True
        task.cancel()
        return True

    def push(self, events: Sequence[Event]) -> bool:
        """Append a batch within the read that received it: the path of nearly every token.

        Return False, with nothing appended, for the end, while the state is not `committed`, and
        if the log has to be awaited.
        """
        if self._life.state != "committed" or type(events[-1]) is StreamEnd:
            return False
        if not self._log.push(self.stream, events):
            return False
        self._count += len(events)
        return True

    async def take(self, events: Sequence[Event]) -> bool:
        """Append a batch.

        A cancelled call has appended all events or none; then `_end_stopped` ends the stream
        without the rest.
        """
        if (end := end_of(events)) is not None:
            await self._end(end, events)
        elif events:
            await self._append(events)
        return True

    async def tell(self, notice: Notice) -> None:
        """Append a notice, unless an attempt has answered meanwhile."""
        if self._life.state in ("begun", "trying", "racing"):
            await self._append([notice])

    async def _append(self, events: Sequence[Event]) -> None:
        """Append events that do not end the stream; if there are too many, those that fit.

        Raises:
            UpstreamError: there were too many.
        """
        try:
            await self._write(events)
        except StreamTooLong as full:
            # A stop meanwhile changes nothing: the parser is ahead of the log.
            with contextlib.suppress(RelayError, asyncio.CancelledError):
                for event in events:
                    await self._write([event])
            raise UpstreamError("upstream_invalid_response", full.message) from None

    async def _write(self, events: Sequence[Event]) -> None:
        try:
            await self._log.append(self.stream, events)
        except asyncio.CancelledError:  # the append itself completes
            self._added(events)
            raise
        self._added(events)

    async def _end(self, end: StreamEnd, events: Sequence[Event]) -> None:
        """Append the events that end the stream, uninterrupted."""
        life, attempts = self._life, self._attempts
        life.enter("end")
        self._chain.charge(events, end)
        events, settlement, ended = self._settlement.settle(
            attempts.call,
            events,
            duration_s=attempts.elapsed_s(),
            logged=self._count,
            first_event_s=attempts.first_event_s,
            stopped_by=None if life.stopped is None else life.stopped.by,
        )
        try:
            placed = await self._log.append(self.stream, events, settlement)
        except asyncio.CancelledError:  # the append itself completes
            with contextlib.suppress(RelayError):  # the log reports its own failures
                shown = await self._log.read(self.stream, self._count, timeout_s=STORED_S)
                if shown and shown[-1] == events[-1]:  # else the log reports another end
                    self._added(events)
                    self._report_ended(ended)
            raise
        self._added(events)
        if placed is None:  # after the client's request has had its turn
            asyncio.get_running_loop().call_soon(self._report_ended, ended)
        else:
            placed.add_done_callback(partial(self._on_placed, ended))

    def _on_placed(self, ended: StreamEnded, placed: "asyncio.Future[None]") -> None:
        if placed.cancelled():
            self._life.enter("lost")
        else:
            self._report_ended(ended)

    def _report_ended(self, ended: StreamEnded) -> None:
        self._life.enter("placed")
        self._observer.ended(ended)

    def _added(self, events: Sequence[Event]) -> None:
        """Count appended events; the first target or the end among them is the outcome."""
        begins = self._count == 0
        self._count += len(events)
        if self.committed.done():
            return
        if begins:
            self._observer.started(self._info)
        if StreamTarget in map(type, events):
            self._tell_outcome(None)
            if any(map(is_visible, events)):
                after_s = self._attempts.first_event_s or self._attempts.elapsed_s()
                self._observer.first_event(FirstEvent(self._info, after_s))
        elif type(end := events[-1]) is StreamEnd:
            self._tell_outcome(outcome_of(end))

    def outcome(self) -> "asyncio.Future[RelayError | None]":
        """Return `committed` for one waiter, who may set it: one turn of the loop less."""
        outcome = self.committed
        if not outcome.done():
            self._waiters.append(outcome := asyncio.Future())
        return outcome

    def _tell_outcome(self, error: RelayError | None) -> None:
        """Tell the outcome to all who wait."""
        for waiter in (self.committed, *self._waiters):
            if not waiter.done():
                waiter.set_result(error)

    def reply_headers(self) -> dict[str, str]:
        """Return the headers for the client of the last reply."""
        return self._attempts.call.reply_headers()

    def progress(self) -> Progress:
        """Return the current progress."""
        attempts, call = self._attempts, self._attempts.call
        deadlines = call.deadlines
        return Progress(
            info=self._info,
            target=call.target.name,
            attempt=call.number,
            first_event_s=attempts.first_event_s,
            events=self._count,
            silent_s=attempts.elapsed_s() if deadlines is None else call.silent_s(),
            longest_gap_s=deadlines.longest_gap_s if attempts.begun and deadlines else None,
        )


def outcome_of(end: StreamEnd) -> RelayError:
    """Return the error of a stream that ended before anything visible."""
    cancelled = ServiceError("cancelled", "the stream was cancelled before it began")
    return RelayError.of(end.error) if end.error else cancelled


def _not_begun() -> ServiceError:
    """Return the error for a stream that was removed before it began."""
    return ServiceError(
        "overloaded", "the stream was lost before it began; try again", retry_after_s=1
    )


def shut_down() -> ServiceError:
    """Return the error of a stream that a shutdown interrupts."""
    return ServiceError("producer_lost", "the relay was shut down before the answer was complete")
