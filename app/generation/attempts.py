"""The attempts of one run: each is a call to a target, made, reported and charged.

It has what the stages of a route share: the due call, the failover with its breakers, the charges.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from ..errors import RelayError
from ..eventlog.stream_ended import ProviderReply
from ..eventlog.stream_info import StreamInfo
from ..events import Event, Notice, StreamEnd
from ..policies.admission import RetainedRequest
from ..policies.deadlines import Deadlines
from ..requests import ChatRequest
from ..telemetry.activity import ReaderCounts
from ..telemetry.observer import AttemptDropped, AttemptFailed, AttemptStarted
from ..upstreams.routes import Route
from .call import Call
from .charges import Charges
from .failover import Failover
from .lifecycle import Life
from .parts import Parts
from .reading import EventSink
from .start_options import StartOptions
from .taken import Taken


class Attempts:
    """The calls of one run, of which `call` is the due or current one."""

    call: Call

    def __init__(
        self,
        info: StreamInfo,
        chat: ChatRequest,
        *,
        route: Route,
        parts: Parts,
        options: StartOptions,
        readers: ReaderCounts,
        life: Life,
        charges: Charges,
        keeps_request: bool,
        is_changed: bool,
        taken: Taken | None = None,
    ) -> None:
        """Prepare the first attempt.

        `keeps_request`: another one may continue the answer, and needs the request. `is_changed`:
        the answer may be changed, so that the provider's own events cannot be passed on. `taken`:
        another relay has made attempts before.
        """
        self.life = life
        self.charges = charges
        self.readers = readers
        """The current numbers of the stream's readers."""
        self._memory = options.memory
        self.request = RetainedRequest(chat, options.memory)
        """Present until no other attempt can follow."""
        self.begun = taken is not None and taken.begun
        """Whether something of the answer is visible."""
        self.first_event_s: float | None = None
        """Seconds from the start to the first visible event; None before it."""
        self._info = info
        self._route = route
        self._client = parts.client
        self._limits = parts.limits
        self._observer = parts.observer
        self._headers = parts.via_name.headers(options.origin)
        self._client_headers = options.headers
        self._client_format = "" if is_changed else info.client_format
        self._keeps_request = keeps_request
        self._clock = clock = asyncio.get_running_loop().time
        self._earlier = 0 if taken is None else taken.attempts
        self._started_at = clock() - (0 if taken is None else taken.age_s)
        self.failover = Failover(
            parts.upstreams,
            route,
            name=info.id,
            limits=parts.limits,
            clock=clock,
            chat=chat,
            metadata=options.metadata,
            owner=info.owner,
            tokens=0 if info.reserve is None else info.reserve.input_tokens,
        )
        call = self.prepare()
        if taken is not None and taken.answer:
            call.read_again(taken.answer, first=taken.first)

    def elapsed_s(self) -> float:
        """Return the seconds from the start."""
        return self._clock() - self._started_at

    def prepare(self, rest: ChatRequest | None = None) -> Call:
        """Prepare the call for the due step, which may be for the `rest` of the answer."""
        request, client_format = self.request, self._client_format
        if rest is not None:
            request, client_format = RetainedRequest(rest, None), ""
        elif self._keeps_request:
            request = RetainedRequest(request.chat, None)
        target = self.failover.target
        self.call = Call(
            target=target,
            request=request,
            number=self._earlier + self.failover.number,
            client=self._client,
            limits=target.limits(self._limits),
            billing=self.charges.billing,
            headers=self._headers,
            client_format=client_format,
            client_headers=self._client_headers,
            memory=self._memory,
            is_last=self.failover.is_last,
            is_continued=self._keeps_request,
        )
        return self.call

    async def make(self, call: Call, open_sink: Callable[[], EventSink], silence_s: float) -> None:
        """Make a call with a maximum of seconds until its first event; pass its events on."""
        headers = self._observer.attempt_started(
            AttemptStarted(id=self._info.id, attempt=call.number, target=call.target)
        )
        limits = call.limits
        if silence_s != limits.first_event_timeout_s:
            limits = msgspec.structs.replace(limits, first_event_timeout_s=silence_s)
        budget_s = None if self.begun else self._route.budget_s
        deadlines = Deadlines(
            limits,
            now=self._clock(),
            started_at=self._started_at,
            begin_by=self._started_at + budget_s if budget_s else None,
        )
        await call.run(open_sink, deadlines=deadlines, headers=headers or {})
        if call.resumption is not None:
            await call.abandon()

    def answer(self) -> list[Event]:
        """Commit to the current call, which answers; return the events before its answer."""
        self.life.enter("visible")
        if not self.begun:
            self.begun, self.first_event_s = True, self.elapsed_s()
            if not self._keeps_request:
                self.request.drop()
        self.failover.answered()
        if self._route.counted:
            self._note_head()
        return self.call.start()

    def go_on(self) -> None:
        """Go on with an answer whose beginning is in the log."""
        self.life.enter("visible")
        self.failover.answered()

    def recall(self) -> list[Event]:
        """Answer without a call; return the events before the answer."""
        self.life.enter("visible")
        self.begun, self.first_event_s = True, self.elapsed_s()
        self.request.drop()
        return self.call.start()

    def note_end(self, end: StreamEnd) -> None:
        """Report the end of an answer that had begun to the breaker."""
        if end.status == "completed":
            self.failover.completed()
            if self._route.counted and end.usage and end.usage.total_tokens:
                self.failover.count_tokens(end.usage.total_tokens)
        elif end.status == "failed" and end.error is not None:
            self.blame(RelayError.of(end.error))

    def blame(self, error: RelayError) -> None:
        """Report a failure to the breaker, unless it came from outside or from too little time."""
        self.call.code, deadlines = error.code, self.call.deadlines
        self._note_head()
        if self.life.stopped is None:
            self.failover.failed(error, fair=deadlines is None or deadlines.fair)

    def _note_head(self) -> None:
        head = self.call.head
        if head is not None:
            self.failover.note_head(head.headers)

    def sum_up(self, end: StreamEnd, error: RelayError) -> StreamEnd:
        """Return the end of the last attempt, whose error this is, with one for those of all."""
        if self.life.stopped is None:
            error = self.failover.verdict(error)
        return msgspec.structs.replace(end, error=error.info())

    def report_failed(
        self,
        failed: Call,
        error: RelayError,
        *,
        then: str,
        reply: ProviderReply,
        wait_s: float = 0.0,
    ) -> None:
        """Report a failed attempt that the current one follows."""
        self._observer.attempt_failed(
            AttemptFailed(
                info=self._info,
                attempt=failed.number,
                upstream=failed.target.upstream.name,
                target=failed.target.name,
                error=error,
                next_target=self.failover.target.name,
                wait_s=wait_s,
                then=then,
                reply=reply,
            )
        )

    def hedge(self) -> Call | None:
        """Prepare a second call beside the current one; None if there may be none."""
        first = self.call
        if not self.failover.hedge():
            return None
        self.life.enter("hedge")
        second = self.prepare()
        self.prefer(first)
        return second

    def prefer(self, call: Call) -> None:
        """Make one of two calls the current one."""
        self.call = call
        if self.failover.number != call.number:
            self.failover.swap()

    def leave(self, end: StreamEnd, events: Sequence[Event], other: Call) -> Notice:
        """Report and charge a failure of the current call, which another one outlasts."""
        assert end.error is not None  # noqa: S101  (it failed)
        error, failed = RelayError.of(end.error), self.call
        self.blame(error)
        self.charges.follow(failed, end, events)
        self.failover.leave(error)
        self.life.enter("won")
        self.call = other
        then = f"waiting for {other.target.name!r}"
        self.report_failed(failed, error, then=then, reply=failed.reply())
        return Notice("fallback", f"{error.message}; {then}")

    def drop(self, call: Call) -> None:
        """Report that a call is cancelled, since the current one answers."""
        call.drop()
        self.failover.drop_second()
        self._observer.attempt_dropped(
            AttemptDropped(
                info=self._info,
                attempt=call.number,
                target=call.target.name,
                reply=call.reply(),
            )
        )
