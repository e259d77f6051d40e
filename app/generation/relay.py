"""One generation: the events of its attempts into the log.

The path of a token: `Decoder.feed` (bytes to messages), `Parser.feed` (messages to
events), `EventLog.append`. What arrived in one read moves as one batch.

Nothing visible is logged before the target is committed, that is, before the upstream has
sent a first piece of answer or completed an empty one: until then a failure can still be
made good by another attempt, or become an HTTP status. Afterwards there is no other attempt.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NoReturn

import msgspec
import structlog

from ..admission import RequestMemory
from ..deadlines import Deadlines, Limits
from ..errors import RelayError, ServiceError, UpstreamError
from ..eventlog import EventLog, StreamTooLong, read_all
from ..eventlog.contract import Placed
from ..eventlog.record import StreamRecord
from ..eventlog.recovery import closing_events
from ..eventlog.stream_ended import Charge, StreamEnded
from ..events import (
    EndedBy,
    Event,
    Notice,
    Status,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TokenCounts,
    Usage,
)
from ..ledger.accounts import Settlement
from ..requests import ChatRequest, OutputCeiling, TranslatedRequest
from ..retry import Step
from ..telemetry.observer import (
    AttemptFailed,
    AttemptStarted,
    Committed,
    FirstEvent,
    Observer,
)
from ..telemetry.progress import Progress
from ..upstreams.client import Client
from ..upstreams.routes import Route, Upstreams
from .accounting import FREE, Accounting
from .attempt import Attempt, KeptRequest, is_visible
from .content import Content
from .failover import Failover
from .readers import Attended
from .token_usage import count_input

log = structlog.get_logger("seseragi.relay")


class Relay:
    """Runs one generation, once, and never raises: every end is a `stream.end` in the log.

    `begun` resolves before any upstream is called: to None when the log has the first event, to
    the error when it does not take that. Then a stream with a key is removed, which leaves that
    free, and any other one is ended. `committed` resolves as soon as the outcome of the
    start is known: to None when the answer has begun, to the error when the stream failed before
    anything visible.
    """

    def __init__(
        self,
        record: StreamRecord,
        request: ChatRequest,
        *,
        route: Route,
        upstreams: Upstreams,
        client: Client,
        event_log: EventLog,
        limits: Limits,
        observer: Observer,
        accounting: Accounting,
        attended: Callable[[], Attended] = lambda: Attended(0, 0),
        headers: Mapping[str, str] | None = None,
        memory: RequestMemory | None = None,
        asks_again_s: float = 0,
        tells_content: bool = False,
    ) -> None:
        """Prepare it; with `tells_content` the observer is told what was asked and answered.

        For `asks_again_s` failures that may pass are left to the client: see `StartOptions`.
        """
        self.stream = record.id
        self._record = record.without_request()
        self._ceiling = _ceiling_of_budget(request)
        self._observer = observer
        self._accounting = accounting
        self._attended = attended
        self._charges: list[Charge] = []
        """What attempts have cost that another one has followed."""
        self._answered: Charge | None = None
        """What the last one has cost, once it is over."""
        self.begun: asyncio.Future[RelayError | None] = asyncio.Future()
        self.committed: asyncio.Future[RelayError | None] = asyncio.Future()
        self._request = KeptRequest(request, memory)
        """Until no other attempt can follow."""
        self._records_content = route.record_content and accounting.keeps_rows
        self._tells_content = tells_content
        self._content = Content(request) if self._records_content or tells_content else None
        self._headers = headers or {}
        self._route = route
        self._client = client
        self._log = event_log
        self._limits = limits
        self._clock = asyncio.get_running_loop().time
        self._started_at = self._clock()
        self._asks_again_s = asks_again_s
        self._failover = Failover(
            upstreams, route, name=self.stream, limits=limits, now=self._started_at
        )
        self._deadlines: Deadlines | None = None
        self._attempt = self._prepare(self._failover.first())
        self._asked_at = self._started_at
        """When the attempt began."""
        self._code: str | None = None
        """Of its own failure."""
        self._held: Sequence[Event] = []
        self._stop: tuple[Status, RelayError | None, EndedBy] | None = None
        self._task: asyncio.Task[None] | None = None
        self._first_event_s: float | None = None
        self._count = 0
        self._closed: StreamEnded | None = None
        """The stream as it ends."""

    async def run(self) -> None:
        """Relay the whole answer; returns when the `stream.end` is in the log.

        Where not even that can be written the stream stays without an end, which is logged,
        and which the log's own recovery mends.
        """
        self._task = asyncio.current_task()
        try:
            await self._run()
        except RelayError as failure:
            log.warning("log failed under the stream", stream=self.stream, code=failure.code)
            with contextlib.suppress(RelayError):
                await self._end_by_log(failure)
        except Exception:
            log.exception("relay failed", stream=self.stream)
            error = ServiceError("internal", "the relay failed; its log tells more")
            with contextlib.suppress(RelayError):
                await self._end_by_log(error)
        finally:
            self._request.drop()
            if not self.begun.done():
                self.begun.set_result(ServiceError("internal", "the event log failed"))
            if not self.committed.done():
                self.committed.set_result(ServiceError("internal", "the event log failed"))

    async def _run(self) -> None:
        try:
            labels, now = self._record.labels, int(self._accounting.wall())
            asked = self._route.asked_as or self._route.name
            if not await self._begin(StreamStart(self.stream, asked, now, labels)):
                return
            while self._failover.step is not None and self._stop is None:
                await self._try(self._failover.step)
        except asyncio.CancelledError:
            pass
        except RelayError as error:
            await self._end_by_log(error)
            return
        self._stop = self._stop or ("interrupted", shut_down(), "shutdown")
        await self.take(self._attempt.stop(*self._stop[:2]))

    async def _begin(self, start: StreamStart) -> bool:
        """Log the first event; False if the stream has been removed instead.

        Whoever finds that event knows that an upstream may have been called.
        """
        try:
            await self._write([start])
        except asyncio.CancelledError:  # which the append survives
            self.begun.set_result(None)
            raise
        except RelayError as error:
            failure = error if isinstance(error, ServiceError) else _not_begun()
            if self._record.key is None:
                self.begun.set_result(failure)
                raise
            with contextlib.suppress(RelayError):
                await self._log.delete(self.stream)
            self.begun.set_result(failure)
            self.committed.set_result(failure)
            return False
        self.begun.set_result(None)
        return True

    async def _end_by_log(self, error: RelayError) -> None:
        """End as failed when the parser is ahead of the log: it knows what has to be closed."""
        self._stop = self._stop or ("failed", error, "relay")
        self._held = []
        written = await read_all(self._log, self.stream)
        await self.take(closing_events(written, status="failed", error=error.info()))

    def stop(self, status: Status, error: RelayError | None = None, *, by: EndedBy) -> None:
        """End the generation from outside and close the upstream; the first call counts."""
        ended = self._attempt.parser.ended and self._failover.step is None
        if self._stop is None and not ended:
            self._stop = (status, error, by)
            if self._task is not None:
                self._task.cancel()

    def _ended_by(self, end: StreamEnd) -> EndedBy | None:
        """Return who or what ended the answer; None for one that is complete.

        Here alone it is decided for a stream whose producer lives.
        """
        attempt, ceiling = self._attempt, self._ceiling
        if end.status == "completed":
            if end.finish_reason != "length" or ceiling is None:
                return None
            counts = end.usage
            used = None if counts is None or counts.estimated else counts.output_tokens
            return "budget" if used is None or used >= ceiling.tokens else None
        if self._stop is not None:
            return self._stop[2]
        if end.ended_by is not None:  # a recording says it
            return end.ended_by
        if attempt.late:
            return "deadline"
        error = end.error
        if attempt.head is None and error and not error.code.startswith("upstream_"):
            return "relay"
        return "provider"

    def _prepare(self, step: Step) -> Attempt:
        """Make the attempt that a step of the plan asks for; it does not begin yet."""
        target = self._failover.target
        return Attempt(
            target,
            self._request,
            number=step.attempt,
            client=self._client,
            limits=target.limits(self._limits),
            headers=self._headers,
            is_last=self._failover.is_last,
        )

    async def _try(self, step: Step) -> None:
        """Run the prepared attempt, after the wait that goes before it."""
        await asyncio.sleep(step.wait_s)
        attempt = self._attempt
        headers: dict[str, str] = {}
        self._asked_at, self._code = self._clock(), None
        self._observer.attempt_started(
            AttemptStarted(
                id=self.stream, attempt=step.attempt, target=attempt.target, headers=headers
            )
        )
        now = self._clock()
        silence_s = self._failover.begin(now)
        limits = attempt.target.limits(self._limits)
        if silence_s != limits.first_event_timeout_s:
            limits = msgspec.structs.replace(limits, first_event_timeout_s=silence_s)
        budget_s = self._route.budget_s
        self._deadlines = deadlines = Deadlines(
            limits,
            now=now,
            started_at=self._started_at,
            begin_by=self._started_at + budget_s if budget_s else None,
        )
        try:
            await attempt.run(self, deadlines=deadlines, headers=headers)
        finally:
            self._failover.end()

    def push(self, events: Sequence[Event]) -> bool:
        """Append a batch within the read that brought it: the way of nearly every token.

        False, and none is appended, before the target is committed, at the end, and where
        the log has to be waited for.
        """
        if not self.committed.done() or isinstance(events[-1], StreamEnd):
            return False
        if not self._log.push(self.stream, events):
            return False
        self._count += len(events)
        return True

    async def take(self, events: Sequence[Event]) -> None:
        """Append a batch, or hold it while nothing visible has come."""
        if not events:
            return
        end = events[-1] if isinstance(events[-1], StreamEnd) else None
        if self.committed.done():
            self._note(end)
            await self._append(events)
            return
        held, self._held = [*self._held, *events], []
        if any(map(is_visible, events)) or (end is not None and end.status == "completed"):
            self._first_event_s = self._clock() - self._started_at
            self._failover.answered(self._clock())
            self._note(end)
            self._request.drop()
            counts = count_input(self._attempt.parser.usage, request=self._record.reserve)
            await self._append([*self._attempt.start(counts), *held])
        elif end is None:
            self._held = held
        elif end.error is not None and end.status == "failed":
            await self._fail(RelayError.of(end.error), held)
        else:
            await self._append(held)

    async def _fail(self, error: RelayError, held: list[Event]) -> None:
        """Take a failure before anything visible: another attempt follows, or the end."""
        now, failed = self._clock(), self._attempt.target
        self._attempt.note_wait(error)
        self._blame(error)
        cut = self._attempt.cut or error.code == "upstream_truncated"
        in_time = now - self._started_at < self._asks_again_s
        handed_on = in_time and not cut and self._attended().now > 0
        step = None
        if self._stop is None:
            step = self._failover.next(error, now, handed_on=handed_on)
        end = held[-1]
        assert isinstance(end, StreamEnd)  # noqa: S101  (for mypy; take looked)
        if step is None:
            verdict = error if self._stop else self._failover.verdict(error)
            await self._append([*held[:-1], msgspec.structs.replace(end, error=verdict.info())])
            return
        self._charges.append(self._charge(end, held, followed=True))
        reply = self._attempt.reply(duration_s=now - self._asked_at, code=self._code)
        number, self._attempt = self._attempt.number, self._prepare(step)
        target = self._attempt.target
        code = "retry" if target.name == failed.name else "fallback"
        what = f"asking {target.name!r} {'again' if code == 'retry' else 'instead'}"
        self._observer.attempt_failed(
            AttemptFailed(
                record=self._record,
                attempt=number,
                upstream=failed.upstream.name,
                target=failed.name,
                error=error,
                next_target=target.name,
                wait_s=step.wait_s,
                then=what,
                reply=reply,
            )
        )
        await self._append([Notice(code, f"{error.message}; {what}")])

    def _note(self, end: StreamEnd | None) -> None:
        """Tell the breaker how an answer that had begun has ended."""
        if end is not None and end.status == "completed":
            self._failover.completed(self._clock())
        elif end is not None and end.status == "failed" and end.error is not None:
            self._blame(RelayError.of(end.error))

    def _blame(self, error: RelayError) -> None:
        """Tell the breaker of a failure, unless it came from outside or of too little time."""
        self._code, deadlines = error.code, self._deadlines
        if self._stop is None:
            fair = deadlines is None or deadlines.fair
            self._failover.failed(error, self._clock(), fair=fair)

    async def _append(self, events: Sequence[Event]) -> None:
        try:
            await self._write(events)
        except StreamTooLong as error:
            await self._fill(events, error)

    async def _fill(self, events: Sequence[Event], full: RelayError) -> NoReturn:
        """Append as many of the events as the log takes, then fail as too long."""
        # Whoever stops it now finds a parser that is ahead of the log: it fails all the same.
        with contextlib.suppress(RelayError, asyncio.CancelledError):
            for event in events:
                await self._write([event])
        raise UpstreamError("upstream_invalid_response", full.message) from None

    async def _write(self, events: Sequence[Event]) -> None:
        settlement = None
        if isinstance(end := events[-1], StreamEnd):
            events, settlement = self._close(events, end)
        try:
            placed = await self._log.append(self.stream, events, settlement)
        except asyncio.CancelledError:  # which the append survives
            self._added(events, None)
            raise
        self._added(events, placed)

    def _close(self, events: Sequence[Event], end: StreamEnd) -> tuple[Sequence[Event], Settlement]:
        """Return the last events with what the stream has cost, and what is to be settled."""
        if self._answered is None:
            # Once: of an end that the log does not take another one follows, which knows less.
            self._answered = self._charge(end, events)
        end = msgspec.structs.replace(end, ended_by=self._ended_by(end))
        events = [*events[:-1], end]
        ended, settlement = self._accounting.close(
            self._sum_up(end, events, charges=[*self._charges, self._answered])
        )
        if self._attempt.target.replays and end.usage is not None:
            # It has the cost of the recorded stream.
            self._closed = msgspec.structs.replace(ended, end=end)
            return events, settlement
        self._closed, usage = ended, ended.end.usage
        closed = [_with_cost(one, usage) if type(one) is Usage else one for one in events]
        closed[-1] = ended.end
        return closed, settlement

    def _sum_up(
        self, end: StreamEnd, events: Sequence[Event], *, charges: Sequence[Charge]
    ) -> StreamEnded:
        """Return the stream as it ends, with these as its last events."""
        attempt, attended, now = self._attempt, self._attended(), self._clock()
        # Rows that wait while the records are away have to be small.
        recorded = self._records_content and not self._accounting.records_away()
        content = b""
        if self._content is not None and (recorded or self._tells_content):
            content = self._content.pack(self._produced(events))
        return StreamEnded(
            record=self._record,
            end=end,
            charges=charges,
            target=attempt.target.name,
            answered_model=attempt.parser.model or attempt.target.model,
            attempts=attempt.number,
            started_at=self._record.created_at,
            ended_at=self._accounting.wall(),
            duration_s=now - self._started_at,
            first_event_s=self._first_event_s,
            longest_gap_s=self._deadlines.longest_gap_s if self._deadlines else None,
            readers=attended.readers,
            resumes=attended.resumes,
            events=self._count + len(events),
            reply=attempt.reply(duration_s=now - self._asked_at, code=self._code),
            content=content if recorded else b"",
            traced_content=content if self._tells_content else b"",
        )

    def _produced(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return all events of the stream, with these at its end."""
        return [*self._log.produced(self.stream), *events]

    def _charge(self, end: StreamEnd, events: Sequence[Event], *, followed: bool = False) -> Charge:
        """Return what the attempt has cost that has ended so, with these as its last events.

        Nothing if the provider has refused it, before there was anything to bill.
        """
        attempt = self._attempt
        refused = attempt.parser.refused and self._first_event_s is None
        told = end.usage or attempt.parser.usage
        if told is None and (refused or not attempt.billable):
            return FREE
        completed, early = end.status == "completed", attempt.parser.counted_early
        deadlines, quiet = self._deadlines, None
        ended_itself = attempt.parser.refused or (completed and early)
        # Before the head of an answer a client may leave a model that thinks; a provider that has
        # sent no head by its deadline has most likely done nothing.
        taken = deadlines is not None and (deadlines.taken or self._stop is not None)
        if deadlines is not None and taken and not ended_itself:
            quiet = deadlines.quiet(self._clock())
        return self._accounting.charge(
            attempt.target.name,
            told,
            request=self._record.reserve,
            written=lambda: self._produced(events),
            complete=completed and not early,
            quiet=quiet,
            followed=followed,
        )

    def _added(self, events: Sequence[Event], placed: Placed) -> None:
        """Note what is in the log now; the first target or the end there is the outcome."""
        begins = self._count == 0
        self._count += len(events)
        end = events[-1] if isinstance(events[-1], StreamEnd) else None
        if not self.committed.done():
            if begins:
                self._observer.started(self._record)
            answer = next((event for event in events if isinstance(event, StreamTarget)), None)
            if answer is not None:
                self.committed.set_result(None)
                self._report_committed(answer, visible=any(map(is_visible, events)))
            elif end is not None:
                self.committed.set_result(outcome_of(end))
        if end is not None:
            assert self._closed is not None  # noqa: S101  (the end was closed before)
            if placed is None:
                self._observer.ended(self._closed)
            else:
                placed.add_done_callback(partial(self._report_ended, self._closed))

    def _report_ended(self, ended: StreamEnded, placed: "asyncio.Future[None]") -> None:
        if not placed.cancelled():
            self._observer.ended(ended)

    def progress(self) -> Progress:
        """Return how far it is now, for somebody who looks."""
        now, attempt, deadlines = self._clock(), self._attempt, self._deadlines
        spent = [charge.nano_usd for charge in self._charges]
        began = self._first_event_s is not None
        return Progress(
            record=self._record,
            target=attempt.target.name,
            attempt=attempt.number,
            age_s=now - self._started_at,
            first_event_s=self._first_event_s,
            events=self._count,
            silent_s=now - self._started_at if deadlines is None else deadlines.silent_s(now),
            longest_gap_s=deadlines.longest_gap_s if began and deadlines is not None else None,
            told=attempt.parser.usage,
            spent_nano_usd=None if None in spent else sum(nano or 0 for nano in spent),
            written=partial(self._log.produced, self.stream),
        )

    def _report_committed(self, answer: StreamTarget, *, visible: bool) -> None:
        attempt, now = self._attempt, self._clock()
        after_s = now - self._started_at
        self._observer.committed(
            Committed(
                record=self._record,
                attempt=attempt.number,
                target=attempt.target.name,
                after_s=after_s,
                answer=answer,
            )
        )
        if visible:
            self._observer.first_event(FirstEvent(self._record, self._first_event_s or after_s))


def _with_cost(event: Usage, counts: TokenCounts | None) -> Usage:
    """Return an event with the cost of what it counts; without one if other counts are billed."""
    if counts is None or counts.estimated:
        return msgspec.structs.replace(event, cost=None, cost_from=None)
    return msgspec.structs.replace(event, cost=counts.cost, cost_from=counts.cost_from)


def _ceiling_of_budget(request: ChatRequest) -> OutputCeiling | None:
    """Return how long the answer may be by limits of usage, unless the request asks for less."""
    ceiling = request.ceiling if isinstance(request, TranslatedRequest) else None
    return ceiling if ceiling is not None and (ceiling.lowered or not ceiling.asked) else None


def outcome_of(end: StreamEnd) -> RelayError:
    """Return the error of a stream that has ended before anything visible."""
    cancelled = ServiceError("cancelled", "the stream was cancelled before it began")
    return RelayError.of(end.error) if end.error else cancelled


def _not_begun() -> ServiceError:
    """What is told of a stream that somebody else has removed before it could begin."""
    return ServiceError(
        "overloaded", "the stream was lost before it began; try again", retry_after_s=1
    )


def shut_down() -> ServiceError:
    """What a stream ends with when the relay stops before it is complete."""
    return ServiceError("producer_lost", "the relay was shut down before the answer was complete")
