"""One call to one target, from the request to the end of its answer, and what it has cost."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Final

import msgspec

from ..dialects.reading.rate_limits import read_wait
from ..dialects.upstream_format import Decoder
from ..dialects.writing.conversation import list_reasoning
from ..errors import RelayError, UpstreamError
from ..eventlog.stream_ended import Charge, ProviderReply
from ..events import Event, Notice, Status, StreamEnd, StreamTarget
from ..policies.admission import RequestMemory, RetainedRequest
from ..policies.deadlines import Deadlines, Limits
from ..requests import AssistantMessage, ChatRequest
from ..upstreams.client_headers import (
    ignored_header,
    list_reply_headers,
    list_request_headers,
)
from ..upstreams.connection import HttpBody
from ..upstreams.http import (
    FAILURES,
    LOST,
    MAX_PROVIDER_MESSAGE,
    HttpClient,
    HttpHead,
    explain,
    open_stream,
    was_sent,
)
from ..upstreams.http_call import HttpCall
from ..upstreams.targets import Refit, Target
from ..upstreams.transport import sent_at
from .reading import Body, EventSink, Reading, Watch
from .resuming import ResumableDecoder, Resumption
from .settlement import FREE, Billing
from .token_usage import count_input

REUSE_WAIT_S = 0.2
"""The maximum seconds from the end of an answer to that of its body, to reuse the connection."""

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

_QUERY = re.compile(r"\?[^\s'\"]+")
"""The query of a URL in an error message, which may contain a key."""


class TargetCall(msgspec.Struct, kw_only=True, eq=False):
    """One call to one target: `Call` for a stream, `DocumentCall` for anything else."""

    BILLED: ClassVar[frozenset[str]] = frozenset()
    """Codes of errors after which the provider may have done the work, and may bill it."""

    target: Target
    number: int
    client: HttpClient
    limits: Limits
    headers: Mapping[str, str] = NO_HEADERS
    more_headers: Mapping[str, str] = NO_HEADERS
    """Those of observers."""
    code: str | None = None
    """The error code of its own failure."""
    resent: bool = False
    """Whether a request was sent twice; the provider may bill both."""
    charge: Charge | None = None
    """What it has cost; None until it ends."""

    @property
    def answers(self) -> bool:
        """Whether its answer is the stream's, or a part of that."""
        return False

    def end(self, end: StreamEnd | None = None, last: Sequence[Event] = ()) -> Charge:
        """End the call; return what it has cost, once."""
        raise NotImplementedError

    def charge_first(self) -> list[Charge]:
        """Return what requests have cost that were sent again: the provider may have taken them."""
        raise NotImplementedError

    def may_bill(self, failure: BaseException, *, answered: bool = False) -> bool:
        """Return whether the provider may bill a request that failed.

        `answered`: the head of the reply had arrived.
        """
        if isinstance(failure, RelayError):
            return failure.code in self.BILLED
        return answered or was_sent(failure)

    def _add_headers(self, call: HttpCall) -> None:
        """Add the headers that need no signature."""
        call.headers.update(self.headers)
        call.headers.update(self.more_headers)


class Call(TargetCall, kw_only=True, eq=False):
    """Makes one call; converts its answer or failure to events, with `stream.end` as the last."""

    request: RetainedRequest
    billing: Billing
    is_last: bool
    """Whether no other call follows: it drops the request."""
    is_continued: bool = False
    """Whether another call may continue its answer."""
    client_format: str = ""
    client_headers: Mapping[str, str] = NO_HEADERS
    memory: RequestMemory | None = None
    """That of the request; an unfinished event of the answer counts beside it."""
    reading: Reading = msgspec.UNSET  # type: ignore[assignment]
    deadlines: Deadlines | None = None
    """None until it begins."""
    cut: bool = False
    """Whether it failed without an error from the provider: no connection, or silence."""
    billable: bool = False
    """Whether the provider may bill it: it received the request and has not refused it."""
    head: HttpHead | None = None
    """The head of the provider's reply, once it arrived."""
    late: bool = False
    """Whether one of the relay's deadlines ended it."""
    resumption: Resumption | None = None
    """None if its answer cannot be read on."""
    _stored: str = ""
    """The provider's id of an answer that it stores, which is read again instead of a new one."""
    _is_same_dialect: bool = False
    _notices: Sequence[Notice] = ()
    """Notices about fields of the request that are dropped or changed for the target."""
    _ignored: Sequence[str] = ()
    """The dropped ones."""
    _body: Body | None = None
    _clock: Callable[[], float] = time.monotonic
    """That of the event loop."""
    _called_at: float = 0.0
    _stopped_at: float | None = None
    """When it was stopped from outside."""
    _provider_message: str = ""
    _cause: str = ""
    """Why its connection failed, without secrets."""
    _over: bool = False
    """Whether the provider has ended its answer."""
    _first: int | None = None
    """The number of events before its own in the stream; None until it answers."""

    def __post_init__(self) -> None:
        target = self.target
        same = bool(self.client_format) and self.client_format == target.dialect.client_format
        self._is_same_dialect = same
        self.reading = Reading(
            target, self.request.chat, keeps_provider_data=same, memory=self.memory
        )
        self._clock = asyncio.get_running_loop().time
        self._called_at = self._clock()

    async def run(
        self,
        open_sink: Callable[[], EventSink],
        *,
        deadlines: Deadlines,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        """Call the target with additional headers; pass its events to the sink as they arrive.

        The sink is opened once the head of the reply has arrived.
        """
        self.more_headers = headers
        self.deadlines, self._called_at = deadlines, self._clock()
        try:
            events = await self._call(deadlines, open_sink)
            end = events[-1] if events else None
            self._over = isinstance(end, StreamEnd) and end.status != "failed"
            await open_sink().take(events)
            if self._body is not None:
                await _finish_body(self._body)
        finally:
            if self.reading.room is not None:
                self.reading.room.release()
            await self._close_body()

    async def _call(self, deadlines: Deadlines, open_sink: Callable[[], EventSink]) -> list[Event]:
        """Call the target and read its answer; return the last events."""
        upstream = self.target.upstream.name
        try:
            async with asyncio.timeout(None) as timeout:
                with Watch(deadlines, timeout) as self.reading.watch:
                    try:
                        body = self._body = await self._open()
                    except RelayError as error:
                        self._provider_message = error.provider_message
                        return self.reading.stop("failed", error)
                    finally:
                        deadlines.sent_at = max(deadlines.sent_at, sent_at.get())
                    deadlines.taken, sink = True, open_sink()
                    try:
                        return await self._read(body, sink)
                    except LOST as failure:
                        if self.resumption is None:
                            raise
                        return await self._read_on(failure, sink)
        except TimeoutError:
            self.late = True
            late = UpstreamError("upstream_timeout", f"upstream {upstream!r} {deadlines.reason()}")
            return self._cut(late)
        except FAILURES as failure:
            self._cause = _QUERY.sub("?...", self.target.upstream.redact(str(failure)))[:300]
            answered = deadlines.taken
            self.billable = self.billable and self.may_bill(failure, answered=answered)
            full = self.reading.full
            cut = full or explain(failure, upstream=upstream, answered=answered)
            self.late = cut.code == "upstream_timeout"
            return self._cut(cut)

    async def _read(self, body: Body, sink: EventSink) -> list[Event]:
        """Read a body of the answer; return the last events."""
        reading, resumption, limits = self.reading, self.resumption, self.limits
        decoder: Decoder
        if resumption is not None:
            decoder = resumption.decoder
        else:
            new = self.target.dialect.decoder
            decoder = new(max_line=limits.max_line, max_event=limits.max_event)
        try:
            ended = await reading.read(body, decoder, sink)
            if not ended and resumption is not None and resumption.decoder.place is not None:
                raise ConnectionError("the body ended before the answer")
            return reading.finish()
        except BaseException:
            reading.save(body)
            await self._close_body()
            raise

    async def _read_on(self, failure: Exception, sink: EventSink) -> list[Event]:
        """Read an answer whose connection broke over further ones; else raise the failure."""
        message = f"upstream {self.target.upstream.name!r} closed the connection"
        notice = Notice("upstream_resumed", f"{message}; its answer was read on")
        while (body := await self._resume()) is not None:
            self._body = body
            await self.reading.read_on(notice, sink)
            try:
                return await self._read(body, sink)
            except LOST as again:
                failure = again
        raise failure

    async def _resume(self) -> Body | None:
        """Open the rest of an answer whose connection broke; None if the provider has none."""
        resumption, parser = self.resumption, self.reading.parser
        if resumption is None or parser.upstream_id is None or parser.ended:
            return None
        return await resumption.open(parser.upstream_id)

    async def abandon(self) -> None:
        """Cancel an answer that its provider would complete without a reader.

        One that the client has begun to receive, and whose rest the provider refuses, is left:
        by its id it can be fetched there, and no other call replaces it.
        """
        resumption, self.resumption = self.resumption, None
        answer = self.reading.parser.upstream_id or self._stored
        if resumption is None or self._over or not answer:
            return
        if not resumption.refused or not self.answers or self.is_continued:
            await resumption.cancel(answer)

    async def _close_body(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            await body.aclose()

    @property
    def answers(self) -> bool:
        """Whether its answer is the stream's, or a part of that."""
        return self._first is not None

    @property
    def reads_again(self) -> bool:
        """Whether it reads an answer again that another call has begun."""
        return bool(self._stored)

    def read_again(self, answer: str, *, first: int) -> None:
        """Read a stored answer again by its id; the stream had so many events before it."""
        self._stored, self._first = answer, first

    def leave(self) -> None:
        """Leave an answer that its provider stores to another relay, which reads it again."""
        self.resumption = None

    def start(self) -> list[Event]:
        """Begin to answer; return the events before: the target with its input counts, and notices.

        Empty for a replay, whose own events contain them.
        """
        self._first = len(self.billing.produced())
        usage = count_input(self.reading.parser.usage, request=self.billing.request)
        if self.target.replays:
            return []
        upstream, parser = self.target.upstream, self.reading.parser
        model, answer = parser.model, parser.upstream_id
        target = StreamTarget(
            upstream.name,
            upstream.redact(model) if model else self.target.model,
            attempt=self.number,
            upstream_id=upstream.redact(answer) if answer else answer,
            usage=usage,
        )
        if not self.resent:
            return [target, *self._notices]
        what = f"upstream {upstream.name!r} closed the connection without an answer"
        return [Notice("retry", f"{what}; the request was sent again"), target, *self._notices]

    def silent_s(self) -> float:
        """Return the seconds since the last piece of its answer, or since it began."""
        now = self._clock()
        return now - self._called_at if self.deadlines is None else self.deadlines.silent_s(now)

    def note_wait(self, error: RelayError) -> None:
        """Set the `Retry-After` of the reply's head on a retryable error within an answer."""
        answered = self.deadlines is not None and self.deadlines.taken
        if answered and self.head and error.retryable and error.retry_after_s is None:
            limited = error.code == "upstream_rate_limited"
            now = time.time()
            error.retry_after_s = read_wait(self.head.headers, limited=limited, now=now)

    async def _open(self) -> Body:
        request = self.request
        call = await self._build_call(request.chat)
        reasoned = _has_reasoning(request.chat)
        if self.is_last:
            request.shrink(len(call.content))
        refit: Refit | None = None
        self.billable = True
        if self._stored:
            return await self._open_stored()
        while True:
            self.billable = True
            try:
                reply = await open_stream(
                    self.client, call, upstream=self.target.upstream.name, on_head=self._on_head
                )
                break
            except RelayError as error:
                self.billable = self.may_bill(error)
                if error.code != "upstream_invalid_request":
                    raise
                if refit is None:
                    fields = self.target.upstream.reasoning_fields
                    fields.refused(
                        self.target.model, error.message, content=call.content, reasoned=reasoned
                    )
                refit = await self.target.refit(call, error, refit)
                call = refit.call
            except asyncio.CancelledError as left:
                self.billable = self.may_bill(left)
                raise
        if refit is not None:
            self._notices = [*self._notices, *self.target.learn(refit)]
        if self.is_last:
            request.drop()
        return reply.body

    async def _open_stored(self) -> Body:
        body = None
        if self.resumption is not None:
            body = await self.resumption.open(self._stored, anew=True)
        if body is None:
            upstream = self.target.upstream.name
            raise UpstreamError(
                "upstream_unavailable", f"upstream {upstream!r} does not hand out its answer again"
            )
        return body

    def _on_head(self, head: HttpHead) -> None:
        self.head = head

    def _on_resend(self) -> None:
        self.resent = True

    def reply_headers(self) -> dict[str, str]:
        """Return the headers for the client, as far as known: the dropped parts of the request,
        and those of the reply if it speaks the same dialect."""
        found = ignored_header(self._ignored) if self._ignored else {}
        if self.head is not None and self._is_same_dialect:
            found |= list_reply_headers(self.target.upstream, self.head)
        return found

    def reply(self) -> ProviderReply:
        """Return the facts of the finished call, without the provider's key."""
        redact, head = self.target.upstream.redact, self.head
        return ProviderReply(
            http_status=None if head is None else head.status,
            request_id="" if head is None or not head.request_id else redact(head.request_id),
            provider_message=(self._provider_message or self.reading.parser.provider_message)[
                :MAX_PROVIDER_MESSAGE
            ],
            duration_s=self._clock() - self._called_at,
            code=self.code,
            cause=self._cause,
            reconnects=0 if self.resumption is None else self.resumption.reconnects,
            resent=self.resent,
        )

    async def _build_call(self, chat: ChatRequest) -> HttpCall:
        request = self.target.build_request(chat, last=self.is_last)
        call = await self.target.build_call(
            request, connect_timeout_s=self.limits.connect_timeout_s, on_resend=self._on_resend
        )
        # After signing: none of these needs a signature.
        headers: Mapping[str, str] = NO_HEADERS
        if self.client_headers and self._is_same_dialect:
            headers = list_request_headers(self.target.upstream, self.client_headers)
            call.headers.update({n: v for n, v in headers.items() if n not in call.headers})
        self._add_headers(call)
        self._notices, self._ignored = request.notices, request.ignored
        self.reading.tool_names = request.tool_names
        if request.resume is not None:
            new_decoder = partial(
                self.target.dialect.decoder,
                max_line=self.limits.max_line,
                max_event=self.limits.max_event,
            )
            names = {*headers, *self.headers, *self.more_headers} - {"idempotency-key"}
            self.resumption = Resumption(
                ResumableDecoder(request.resume, new_decoder, request=request.body),
                target=self.target,
                client=self.client,
                headers={name: call.headers[name] for name in names},
            )
        return call

    def stop(self, status: Status, error: RelayError | None = None) -> list[Event]:
        """End the call from outside; return the last events."""
        self.drop()
        return self.reading.stop(status, error)

    def drop(self) -> None:
        """Note that the call is of no use from now on."""
        if self._stopped_at is None:
            self._stopped_at = self._clock()

    def _cut(self, error: RelayError) -> list[Event]:
        self.cut = True
        return self.reading.cut(error)

    def charge_first(self) -> list[Charge]:
        charge, request = self.billing.settlements.charge, self.billing.request
        return [charge(self.target.name, None, request=request)]

    def end(self, end: StreamEnd | None = None, last: Sequence[Event] = ()) -> Charge:
        """End the call by these events after the logged ones; return what it has cost, once.

        `FREE` if the provider refused it before any billable output.
        """
        if self.charge is not None:
            return self.charge
        assert end is not None  # noqa: S101  (a stream has one)
        parser, deadlines, silence = self.reading.parser, self.deadlines, None
        reported = end.usage or parser.usage
        refused = parser.refused and self._first is None
        if reported is None and (refused or not self.billable):
            self.charge = FREE
            return FREE
        completed, early = end.status == "completed", parser.counted_early
        ended_itself = parser.refused or (completed and early)
        # A client may leave before the head, while the model thinks; a provider without a head by
        # its deadline has most likely generated nothing.
        stopped_at = self._stopped_at
        if deadlines and (deadlines.taken or stopped_at is not None) and not ended_itself:
            silence = deadlines.silence(self._clock() if stopped_at is None else stopped_at)
        before = () if self._first is None else self.billing.produced()[self._first :]
        self.charge = self.billing.settlements.charge(
            self.target.name,
            reported,
            request=self.billing.request,
            written=[*before, *last],
            complete=completed and not early,
            silence=silence,
        )
        return self.charge


async def _finish_body(pieces: AsyncIterator[bytes]) -> None:
    """Read to the end of a body whose answer has ended, so that its connection can be reused."""
    if isinstance(pieces, HttpBody) and pieces.at_end:
        return
    with contextlib.suppress(TimeoutError, *FAILURES):
        async with asyncio.timeout(REUSE_WAIT_S):
            async for _ in pieces:
                pass


def _has_reasoning(chat: ChatRequest) -> bool:
    """Return whether a conversation has reasoning that could be sent back."""
    messages = chat.messages
    return not chat.is_plain and any(
        isinstance(one, AssistantMessage) and list_reasoning(one) for one in messages
    )
