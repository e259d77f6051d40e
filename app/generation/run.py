"""One generation: appends the events of its attempts to the log.

The path of a token: `Decoder.feed` (bytes to messages), `Parser.feed` (messages to
events), `EventLog.append`. What arrived in one read moves as one batch.

Nothing visible is logged before the target is committed, that is, before the upstream has
sent a first piece of the answer or completed an empty one. Until then a failure leads to
another attempt or an HTTP status; afterwards another attempt can only continue the answer.
`lifecycle.py` has the states, `settlement.py` the cost, `rescue.py` the continuation.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import structlog

from ..errors import RelayError, ServiceError, UpstreamError
from ..eventlog import StreamTooLong, read_all
from ..eventlog.recovery import LOST, closing_events
from ..eventlog.stream_ended import ProviderReply, StreamEnded
from ..eventlog.stream_info import StreamInfo
from ..events import (
    EndedBy,
    Event,
    Notice,
    Status,
    StreamEnd,
    StreamStart,
    StreamTarget,
)
from ..hooks.window import Waiting, Window
from ..requests import ChatRequest, TranslatedRequest
from ..telemetry.activity import Progress, ReaderCounts
from ..telemetry.observer import (
    AttemptDropped,
    AttemptFailed,
    AttemptStarted,
    FirstEvent,
)
from ..upstreams.routes import Route
from .admission import RetainedRequest
from .attempt import Attempt, EventSink, is_visible
from .content import Content
from .deadlines import Deadlines
from .failover import Failover
from .hedge import Race
from .lifecycle import State, after
from .parts import Parts
from .rescue import (
    Continuation,
    continue_request,
    find_unfinished,
    has_room,
    may_be_continued,
    without_closing,
)
from .retry import FAULTS
from .settlement import RunSettlement
from .start_options import StartOptions
from .token_usage import count_input

log = structlog.get_logger("seseragi.generation")


class Stopped(NamedTuple):
    """The reason for a run that its provider did not end."""

    status: Status
    error: RelayError | None
    by: EndedBy


class Run:
    """Runs one generation, once, and never raises: every end is a `stream.end` in the log.

    `begun` resolves before any upstream is called: to None when the log has the first event,
    to the error if the log refuses it; the stream is then removed. `committed` resolves with the
    outcome of the start: to None when the answer has begun, to the error if the stream failed
    before any visible output.
    """

    _continuation: Continuation | None = None
    """The sink of an attempt that continues the answer."""
    _window: Window | None = None
    """Where the answer waits for hooks; None without any."""
    _sink: EventSink | None = None
    """The sink of attempts, if it is not the run itself."""

    def __init__(
        self,
        info: StreamInfo,
        request: ChatRequest,
        *,
        route: Route,
        parts: Parts,
        options: StartOptions,
        readers: ReaderCounts | None = None,
    ) -> None:
        """Prepare a run; `readers` are the current numbers of its readers."""
        self.stream = info.id
        self._info = info = info.without_request()
        self._readers = readers = readers or ReaderCounts()
        self.begun: asyncio.Future[RelayError | None] = asyncio.Future()
        self.committed: asyncio.Future[RelayError | None] = asyncio.Future()
        self._request = RetainedRequest(request, options.memory)
        """Present until no other attempt can follow."""
        self._rescues = route.rescue and may_be_continued(request)
        """Whether another attempt may continue the answer."""
        if parts.hooks is not None and (hooks := parts.hooks.of(route.name, "answer")):
            self._window = Window(hooks, route=route.name, stream=info.id)
            self._sink = Waiting(self)
        self._headers = parts.via_name.headers(options.origin)
        self._client_headers = options.headers
        self._client_retries_s = options.client_retries_s
        self._route = route
        self._client = parts.client
        self._log = parts.event_log
        self._limits = parts.limits
        self._observer = parts.observer
        self._wall = parts.clock.wall
        self._clock = clock = asyncio.get_running_loop().time
        self._started_at = clock()
        records_content = route.record_content and parts.settlements.keeps_rows
        self._settlement = RunSettlement(
            info=info,
            settlements=parts.settlements,
            original=None if self._window is None else self._window.original,
            produced=partial(parts.event_log.produced, info.id),
            readers=readers,
            wall=parts.clock.wall,
            started_at=self._started_at,
            ceiling=request.ceiling if isinstance(request, TranslatedRequest) else None,
            content=Content(request) if records_content or parts.trace_content else None,
            records_content=records_content,
            traces_content=parts.trace_content,
        )
        self._failover = Failover(
            parts.upstreams,
            route,
            name=self.stream,
            limits=parts.limits,
            clock=clock,
            chat=request,
            metadata=options.metadata,
            owner=info.owner,
            tokens=0 if info.reserve is None else info.reserve.input_tokens,
        )
        self._attempt = self._prepare()
        self._state: State = "reserved"
        self._stopped: Stopped | None = None
        self._task: asyncio.Task[None] | None = None
        self._first_event_s: float | None = None
        """Seconds from the start to the first visible event."""
        self._count = 0
        """Events in the log."""

    async def run(self) -> None:
        """Relay the whole answer; returns when the `stream.end` is in the log.

        If the log refuses that too, the failure is logged, and recovery ends the stream.
        """
        self._task = asyncio.current_task()
        try:
            try:
                await self._run()
            except RelayError as error:
                await self._end_by_log(error)
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
            self._request.drop()
            if not self.begun.done():
                self.begun.set_result(ServiceError("internal", "the event log failed"))
            if not self.committed.done():
                self.committed.set_result(RelayError.of(LOST))  # as recovery ends the stream
            if self._attempt.resumption is not None:
                await self._attempt.abandon()

    async def _run(self) -> None:
        try:
            await self._begin()
            if self._state == "begun":
                if len(self._route.targets) > 1 and self._failover.choose_again():
                    self._attempt = self._prepare()
                await self._failover.run(self.call if self._route.hedge is None else self._race)
        except asyncio.CancelledError:
            self._note_stop(Stopped("interrupted", shut_down(), "shutdown"))
        if self._stopped is not None and self._state == "ending":
            await self._end_stopped(self._stopped)
        elif self._state not in ("placing", "ended"):
            raise RuntimeError(f"the attempts are over in state {self._state!r}")

    async def _begin(self) -> None:
        """Append the first event; if the log refuses it, remove the stream.

        Once that event is in the log, an upstream may have been called.
        """
        labels, now = self._info.labels, int(self._wall())
        model = self._route.requested_name or self._route.name
        try:
            start = StreamStart(self.stream, model, created=now, labels=labels)
            await self._append([start, *self._route.notices])
        except RelayError as error:
            failure = error if isinstance(error, ServiceError) else _not_begun()
            with contextlib.suppress(RelayError):
                await self._log.delete(self.stream)
            self._state = after(self._state, "lost")
            self.begun.set_result(failure)
            self.committed.set_result(failure)
        else:
            self._state = after(self._state, "started")
            self.begun.set_result(None)

    async def _end_stopped(self, stopped: Stopped) -> None:
        """End as stopped, with what the attempt has received and not passed on.

        With hooks from the events in the log: what was not checked is not shown. Likewise if a
        cancelled `take` has lost the provider's end.
        """
        last = self._attempt.stop(stopped.status, stopped.error)
        if last and self._window is None:
            await (self._continuation or self).take(last)
            return
        if self._window is not None:
            self._window.original += last
        await self._close(self._log.produced(self.stream), stopped)

    async def _end_by_log(self, error: RelayError) -> None:
        """End as failed, from the events in the log: the parser may be ahead of them."""
        self._state = after(self._state, "refused")
        if self._state == "ended":
            return
        self._stopped = self._stopped or Stopped("failed", error, "relay")
        if self._window is not None:  # a hook failed, while more came
            self._window.original += self._attempt.stop("failed", error)
        written = await read_all(self._log, self.stream)
        self._count = len(written)
        await self._close(written, Stopped("failed", error, self._stopped.by))

    async def _close(self, written: Sequence[Event], stopped: Stopped) -> None:
        """End after the events in the log; if one of them is an end, the log reports it."""
        error = None if stopped.error is None else stopped.error.info()
        events = closing_events(written, status=stopped.status, error=error)
        if not events:
            return
        if self._first_event_s is not None:
            self._note(_end_of(events))
        await self._end(events)

    def stop(self, status: Status, error: RelayError | None = None, *, by: EndedBy) -> None:
        """End the generation from outside and close the upstream; the first call counts."""
        waits = self._state != "reserved"  # the append of the start is not interrupted
        if self._note_stop(Stopped(status, error, by)) and waits and self._task is not None:
            self._task.cancel()

    def _note_stop(self, stopped: "Stopped") -> bool:
        """Return whether the stop counts."""
        before = self._state
        self._state = after(self._state, "stop")
        if self._state == before:
            return False
        self._stopped = stopped
        return True

    def _prepare(self, request: RetainedRequest | None = None) -> Attempt:
        """Create the attempt for the due step; `call` runs it."""
        failover = self._failover
        if request is None:
            request = self._request
            if self._rescues:  # which needs it later
                request = RetainedRequest(request.chat, None)
        return Attempt(
            failover.target,
            request,
            number=failover.number,
            client=self._client,
            limits=failover.target.limits(self._limits),
            headers=self._headers,
            client_format="" if self._sink or self._continuation else self._info.client_format,
            client_headers=self._client_headers,
            is_last=failover.is_last,
        )

    async def _race(self, silence_s: float) -> None:
        """Run the prepared attempt, and a second one beside it if it is late."""
        if (delay_s := self._failover.hedge_delay_s()) is None:
            await self.call(silence_s)
        else:
            self._state = after(self._state, "attempt")
            await Race(self, self._attempt, self._sink or self).run(delay_s, silence_s)

    async def call(
        self, silence_s: float, attempt: Attempt | None = None, sink: EventSink | None = None
    ) -> None:
        """Run an attempt, with a maximum of seconds until its first event.

        It is the prepared one, and passes its events to the log, unless it is one of a race.
        """
        if attempt is None:
            self._state = after(self._state, "continuation" if self._continuation else "attempt")
            attempt = self._attempt
        headers: dict[str, str] = {}
        self._observer.attempt_started(
            AttemptStarted(
                id=self.stream, attempt=attempt.number, target=attempt.target, headers=headers
            )
        )
        limits = attempt.limits
        if silence_s != limits.first_event_timeout_s:
            limits = msgspec.structs.replace(limits, first_event_timeout_s=silence_s)
        budget_s = self._route.budget_s if self._first_event_s is None else None
        deadlines = Deadlines(
            limits,
            now=self._clock(),
            started_at=self._started_at,
            begin_by=self._started_at + budget_s if budget_s else None,
        )
        sink = sink or self._continuation or self._sink or self
        await attempt.run(sink, deadlines=deadlines, headers=headers)
        if attempt.resumption is not None:
            await attempt.abandon()

    def push(self, events: Sequence[Event]) -> bool:
        """Append a batch within the read that received it: the path of nearly every token.

        Return False, with nothing appended, before the target is committed, for the end, and
        if the log has to be awaited.
        """
        if self._state != "committed" or isinstance(events[-1], StreamEnd):
            return False
        if not self._log.push(self.stream, events):
            return False
        self._count += len(events)
        return True

    async def take(self, events: Sequence[Event]) -> bool:
        """Append a batch; return False, with nothing appended, before the first visible event.

        A cancelled call has appended all events or none; then `_end_stopped` ends the stream
        without the rest.
        """
        if not events:
            return True
        end = events[-1] if isinstance(events[-1], StreamEnd) else None
        begun = self._first_event_s is not None
        if not begun and (
            any(map(is_visible, events)) or (end is not None and end.status == "completed")
        ):
            events, begun = self._commit(events), True
        if begun:
            if end is not None:
                self._note(end)
                if self._rescues:
                    if await self._continue(end, events):
                        return True
                    end = self._sum_up(end)
        elif end is None:
            return False
        elif end.status == "failed" and end.error is not None:
            error = RelayError.of(end.error)
            if await self._retry(error, end, events):
                return True
            verdict = error if self._stopped else self._failover.verdict(error)
            end = msgspec.structs.replace(end, error=verdict.info())
        if end is not None:
            events = [*events[:-1], end]
        if self._window is not None:
            self._window.original += events  # which are billed, also if a check fails
            events = await self._window.feed(events)
        if end is not None:
            await self._end(events)
        elif events:  # hooks may hold all
            await self._append(events)
        return True

    def _commit(self, events: Sequence[Event]) -> list[Event]:
        """Commit to the target; return its first events, preceded by the target and notices."""
        self._state = after(self._state, "visible")
        now = self._clock()
        self._first_event_s = now - self._started_at
        if not self._rescues:
            self._request.drop()
        return [*self._start(), *events]

    def _start(self) -> list[Event]:
        """Report that the attempt answers; return the events before its answer."""
        self._failover.answered()
        if self._route.counted:
            self._note_head()
        request = self._settlement.continued or self._info.reserve
        counts = count_input(self._attempt.parser.usage, request=request)
        return self._attempt.start(counts)

    async def _retry(self, error: RelayError, end: StreamEnd, events: Sequence[Event]) -> bool:
        """Prepare an attempt after a failure before anything visible; False if none follows."""
        now, failed = self._clock(), self._attempt
        failed.note_wait(error)
        self._blame(error)
        if self._stopped is not None:
            return False
        cut = failed.cut or error.code == "upstream_truncated"
        in_time = now - self._started_at < self._client_retries_s
        client_retries = in_time and not cut and self._readers.now > 0
        wait_s = self._failover.next(error, client_retries=client_retries)
        if wait_s is None:
            return False
        self._state = after(self._state, "retry")
        self._settlement.charge_followed(failed, end, events, now=now)
        reply = failed.reply()
        self._attempt = self._prepare()
        target = self._attempt.target
        code = "retry" if target.name == failed.target.name else "fallback"
        what = f"asking {target.name!r} {'again' if code == 'retry' else 'instead'}"
        self._report_failed(failed, error, wait_s=wait_s, then=what, reply=reply)
        await self.tell(Notice(code, f"{error.message}; {what}"))
        return True

    def _report_failed(
        self,
        failed: Attempt,
        error: RelayError,
        *,
        wait_s: float,
        then: str,
        reply: ProviderReply,
    ) -> None:
        """Report a failed attempt that the prepared one follows."""
        self._observer.attempt_failed(
            AttemptFailed(
                info=self._info,
                attempt=failed.number,
                upstream=failed.target.upstream.name,
                target=failed.target.name,
                error=error,
                next_target=self._failover.target.name,
                wait_s=wait_s,
                then=then,
                reply=reply,
            )
        )

    def hedge(self) -> Attempt | None:
        """Prepare a second attempt beside the current one; None if there may be none."""
        if not self._failover.hedge():
            return None
        second = self._prepare()
        self._failover.swap()
        return second

    async def tell(self, notice: Notice) -> None:
        """Append a notice for readers, unless another attempt has answered while hooks held it."""
        window = self._window
        events = [notice] if window is None else await window.check(notice)
        if self._state in ("begun", "trying"):
            await self._append(events)

    def prefer(self, attempt: Attempt) -> None:
        """Make one of two attempts the current one."""
        self._attempt = attempt
        if self._failover.number != attempt.number:
            self._failover.swap()

    def leave(self, end: StreamEnd, events: Sequence[Event]) -> Notice:
        """Report and charge a failure of the current attempt, which another one outlasts."""
        assert end.error is not None  # noqa: S101  (it failed)
        error, failed = RelayError.of(end.error), self._attempt
        self._blame(error)
        self._settlement.charge_followed(failed, end, events, now=self._clock())
        self._failover.leave(error)
        then = f"waiting for {self._failover.target.name!r}"
        self._report_failed(failed, error, wait_s=0.0, then=then, reply=failed.reply())
        return Notice("fallback", f"{error.message}; {then}")

    @property
    def is_placing(self) -> bool:
        """Whether the end is being appended, which nothing may interrupt."""
        return self._state == "placing"

    def report_dropped(self, attempt: Attempt) -> None:
        """Report that an attempt is cancelled, since the current one answers."""
        self._dropped_at = self._clock()
        self._failover.drop_second()
        self._observer.attempt_dropped(
            AttemptDropped(
                info=self._info,
                attempt=attempt.number,
                target=attempt.target.name,
                reply=attempt.reply(),
            )
        )

    def charge_dropped(self, attempt: Attempt, events: Sequence[Event]) -> None:
        """Charge an attempt that was cancelled, with its last events."""
        self._settlement.charge_dropped(attempt, events, now=self._dropped_at)

    def _sum_up(self, end: StreamEnd) -> StreamEnd:
        """Return the end of an answer that nobody continued, with the failures of all attempts."""
        continued = self._continuation
        if continued is None or continued.begun or self._stopped or end.error is None:
            return end
        verdict = self._failover.verdict(RelayError.of(end.error))
        return msgspec.structs.replace(end, error=verdict.info())

    async def _continue(self, end: StreamEnd, events: Sequence[Event]) -> bool:
        """Prepare an attempt that continues the answer after a failure; False if it ends here."""
        before = self._continuation
        if self._stopped or end.error is None or end.error.code not in FAULTS:
            return False
        if before is not None and before.begun:
            return False
        error, failed, kept = RelayError.of(end.error), self._attempt, without_closing(events)
        window = self._window
        before_kept = self._log.produced(self.stream) if window is None else window.original
        answer, chat = find_unfinished([*before_kept, *kept]), self._request.chat
        if answer is None or not has_room(chat, answer.text):
            return False
        wait_s = self._failover.next_part(error)  # which prepares an attempt, if there may be one
        if wait_s is None:
            return False
        target = self._failover.target
        exact = target.continues(chat)
        rest = continue_request(chat, answer.text, exact=exact)
        settlement, now = self._settlement, self._clock()
        if before is None:
            seam = len(kept) + (self._count if window is None else len(window.original))
            settlement.charge_part(failed, end, events, now=now, seam=seam)
        else:
            settlement.charge_followed(failed, end, events, now=now)
        settlement.continue_with(rest)
        reply, self._continuation = (
            failed.reply(),
            Continuation(answer, exact=exact, start=self._start, take=self.take),
        )
        self._attempt = self._prepare(RetainedRequest(rest, None))
        then = f"{target.name!r} continues the answer"
        self._report_failed(failed, error, wait_s=wait_s, then=then, reply=reply)
        events = [*kept, Notice("rescue", f"{error.message}; {then}")]
        if window is not None:
            window.original += kept
            events = await window.feed(events)
        if events:  # hooks may hold all
            await self._append(events)
        return True

    def _note(self, end: StreamEnd) -> None:
        """Report the end of an answer that had begun to the breaker."""
        if end.status == "completed":
            self._failover.completed()
            if self._route.counted and end.usage and end.usage.total_tokens:
                self._failover.count_tokens(end.usage.total_tokens)
        elif end.status == "failed" and end.error is not None:
            self._blame(RelayError.of(end.error))

    def _note_head(self) -> None:
        head = self._attempt.head
        if head is not None:
            self._failover.note_head(head.headers)

    def _blame(self, error: RelayError) -> None:
        """Report a failure to the breaker, unless it came from outside or from too little time."""
        self._attempt.code, deadlines = error.code, self._attempt.deadlines
        self._note_head()
        if self._stopped is None:
            fair = deadlines is None or deadlines.fair
            self._failover.failed(error, fair=fair)

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

    async def _end(self, events: Sequence[Event]) -> None:
        """Append the events that end the stream, uninterrupted."""
        self._state = after(self._state, "end")
        events, settlement, ended = self._settlement.settle(
            self._attempt,
            _end_of(events),
            events,
            now=self._clock(),
            logged=self._count,
            first_event_s=self._first_event_s,
            stopped_by=None if self._stopped is None else self._stopped.by,
        )
        placed = await self._log.append(self.stream, events, settlement)
        self._added(events)
        if placed is None:
            self._report_ended(ended)
        else:
            placed.add_done_callback(partial(self._on_placed, ended))

    def _on_placed(self, ended: StreamEnded, placed: "asyncio.Future[None]") -> None:
        if placed.cancelled():
            self._state = after(self._state, "lost")
        else:
            self._report_ended(ended)

    def _report_ended(self, ended: StreamEnded) -> None:
        self._state = after(self._state, "placed")
        self._observer.ended(ended)

    def _added(self, events: Sequence[Event]) -> None:
        """Count appended events; the first target or the end among them is the outcome."""
        begins = self._count == 0
        self._count += len(events)
        if self.committed.done():
            return
        if begins:
            self._observer.started(self._info)
        if any(isinstance(event, StreamTarget) for event in events):
            self.committed.set_result(None)
            if any(map(is_visible, events)):
                after_s = self._first_event_s or self._clock() - self._started_at
                self._observer.first_event(FirstEvent(self._info, after_s))
        elif isinstance(end := events[-1], StreamEnd):
            self.committed.set_result(outcome_of(end))

    def reply_headers(self) -> dict[str, str]:
        """Return the headers for the client of the last reply."""
        return self._attempt.reply_headers()

    def progress(self) -> Progress:
        """Return the current progress."""
        now, attempt, deadlines = self._clock(), self._attempt, self._attempt.deadlines
        began = self._first_event_s is not None
        return Progress(
            info=self._info,
            target=attempt.target.name,
            attempt=attempt.number,
            age_s=now - self._started_at,
            first_event_s=self._first_event_s,
            events=self._count,
            silent_s=now - self._started_at if deadlines is None else deadlines.silent_s(now),
            longest_gap_s=deadlines.longest_gap_s if began and deadlines is not None else None,
            usage=attempt.parser.usage,
            spent_nano_usd=self._settlement.spent_nano_usd,
            written=partial(self._log.produced, self.stream),
        )


def _end_of(events: Sequence[Event]) -> StreamEnd:
    end = events[-1]
    assert isinstance(end, StreamEnd)  # noqa: S101  (for mypy)
    return end


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
