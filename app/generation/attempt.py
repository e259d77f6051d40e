"""One attempt: one call to one target, from the request to the end of its events."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import Final, Protocol

import structlog

from ..dialects.reading.json_values import decode
from ..dialects.reading.rate_limits import read_wait
from ..dialects.upstream_format import Decoder, Parser
from ..dialects.writing.conversation import list_reasoning
from ..errors import RelayError, UpstreamError
from ..eventlog.stream_ended import ProviderReply
from ..events import (
    ChoiceEnd,
    ContentFilter,
    Event,
    Notice,
    ProviderData,
    ReasoningDelta,
    RefusalDelta,
    Status,
    StreamEnd,
    StreamTarget,
    TextDelta,
    TokenCounts,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)
from ..framing.sse import FramingError
from ..requests import AssistantMessage, ChatRequest
from ..upstreams.client_headers import list_reply_headers, list_request_headers
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
from ..upstreams.targets import Target
from .admission import RetainedRequest
from .deadlines import Deadlines, Limits
from .redaction import redact_event
from .resuming import ResumableDecoder, Resumption

REUSE_WAIT_S = 0.2
"""The maximum seconds from the end of an answer to that of its body, to reuse the connection."""

LATE_S = 0.25
"""The delay of a timer, in seconds, that indicates a suspended process."""

READ_S = 0.1
"""Seconds for such a process to read arrived data before the deadline counts: uvloop runs timers
before it polls sockets."""

KNOWN_CALLS = 1000
"""The maximum number of a conversation's latest tool call ids that are tracked: 100 KB."""

NO_HEADERS: Mapping[str, str] = MappingProxyType({})

NO_CALLS: Final[frozenset[str]] = frozenset()

_QUERY = re.compile(r"\?[^\s'\"]+")
"""The logger of URLs, which may contain a key."""

_DELTAS = frozenset((TextDelta, ReasoningDelta, RefusalDelta, ToolCallDelta))
_QUOTING = (Notice, StreamEnd, ToolCallStart)
_UNSEEN = (ContentFilter, Notice, Usage, ChoiceEnd, StreamEnd)

log = structlog.get_logger("seseragi.generation")


class EventSink(Protocol):
    """The receiver of an attempt's events, one batch per read."""

    def push(self, events: Sequence[Event]) -> bool:
        """Take all events without waiting and return True; else take none, and `take` follows."""

    async def take(self, events: Sequence[Event]) -> bool:
        """Take all events and return True; else take none, to receive them again with later ones.

        Events that end in a `stream.end` are always taken. Exceptions end the attempt.
        """


def _list_calls(chat: ChatRequest) -> frozenset[str]:
    """Return the ids of the latest tool calls of a conversation."""
    if chat.is_plain:
        return NO_CALLS
    calls = [
        call.id
        for message in chat.messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls or ()
    ]
    return frozenset(calls[-KNOWN_CALLS:])


def _has_reasoning(chat: ChatRequest) -> bool:
    """Return whether a conversation has reasoning that could be sent back."""
    messages = chat.messages
    return not chat.is_plain and any(
        isinstance(one, AssistantMessage) and list_reasoning(one) for one in messages
    )


class Attempt:
    """Runs one call; converts its answer or failure to events, with `stream.end` as the last."""

    # More attributes than 30 cost 1.6 KiB in a dictionary, which has the parser alone.
    __slots__ = (
        "__dict__",
        "_body",
        "_called_at",
        "_choices",
        "_client",
        "_client_headers",
        "_clock",
        "_decoder",
        "_headers",
        "_is_last",
        "_is_same_dialect",
        "_key_ending",
        "_known_calls",
        "_more_headers",
        "_notices",
        "_over",
        "_provider_message",
        "_quotes",
        "_request",
        "_sink",
        "_waiting",
        "_watch",
        "billable",
        "code",
        "cut",
        "deadlines",
        "head",
        "late",
        "limits",
        "number",
        "resent",
        "resumption",
        "target",
    )

    def __init__(
        self,
        target: Target,
        request: RetainedRequest,
        *,
        number: int,
        client: HttpClient,
        limits: Limits,
        headers: Mapping[str, str],
        client_format: str = "",
        client_headers: Mapping[str, str] = NO_HEADERS,
        is_last: bool,
    ) -> None:
        """Prepare a call with additional headers; the last attempt drops the request."""
        self.target = target
        self._choices = request.chat.n or 1
        self._known_calls = _list_calls(request.chat)
        self._request = request
        self._is_last = is_last
        self._notices: Sequence[Notice] = ()
        """Notices about fields of the request that are dropped or changed for the target."""
        self.number = number
        self._client = client
        self.limits = limits
        self._headers = headers
        self._is_same_dialect = bool(client_format) and client_format == (
            target.dialect.client_format
        )
        self._client_headers = client_headers
        self._more_headers: Mapping[str, str]
        self._decoder: Decoder
        self._watch: _Watch
        self._sink: EventSink
        self._waiting: list[Event] = []
        """Events that the sink has not taken yet."""
        self._body: HttpBody | AsyncGenerator[bytes] | None = None
        self._clock = asyncio.get_running_loop().time
        self._called_at = self._clock()
        self.deadlines: Deadlines | None = None
        """None until the attempt begins."""
        self.code: str | None = None
        """The error code of its own failure."""
        self._key_ending: bytes | None
        self._quotes = False
        """Whether the answer has quoted the key."""
        self.cut = False
        """Whether it failed without an error from the provider: no connection, or silence."""
        self.billable = False
        """Whether the provider may bill it: it received the request and has not refused it."""
        self.head: HttpHead | None = None
        """The head of the provider's reply, once it arrived."""
        self.resent = False
        """Whether the request was sent twice; the provider may bill both."""
        self.late = False
        """Whether one of the relay's deadlines ended it."""
        self._provider_message = ""
        self.resumption: Resumption | None = None
        """None if its answer cannot be read on."""
        self._over = False
        """Whether the provider has ended its answer."""

    @cached_property
    def parser(self) -> Parser:
        """The parser of its answer: most are built while the provider works."""
        parser = self.target.dialect.parser(
            upstream=self.target.upstream.name, choices=self._choices
        )
        parser.redact = self.target.upstream.redact
        if self._known_calls:
            parser.know_calls(self._known_calls)
        if self._is_same_dialect:
            parser.keep_provider_data()
        return parser

    async def run(
        self, sink: EventSink, *, deadlines: Deadlines, headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        """Call the target with additional headers; pass its events to the sink as they arrive."""
        self._sink, self._more_headers = sink, headers
        self.deadlines, self._called_at = deadlines, self._clock()
        try:
            events = await self._call(deadlines)
            end = events[-1] if events else None
            self._over = isinstance(end, StreamEnd) and end.status != "failed"
            await sink.take(events)
            if self._body is not None:
                await _finish_body(self._body)
        finally:
            await self._close_body()

    async def _call(self, deadlines: Deadlines) -> list[Event]:
        """Call the target and read its answer; return the last events."""
        upstream = self.target.upstream.name
        try:
            async with asyncio.timeout(None) as timeout:
                with _Watch(deadlines, timeout) as self._watch:
                    try:
                        body = self._body = await self._open()
                    except RelayError as error:
                        self._provider_message = error.provider_message
                        return self.stop("failed", error)
                    deadlines.taken = True
                    try:
                        return await self._read(body)
                    except LOST as failure:
                        if self.resumption is None:
                            raise
                        return await self._read_on(failure)
        except TimeoutError:
            self.late = True
            late = UpstreamError("upstream_timeout", f"upstream {upstream!r} {deadlines.reason()}")
            return self._cut(late)
        except FAILURES as failure:
            shown = _QUERY.sub("?...", self.target.upstream.redact(str(failure)))[:300]
            log.warning("upstream connection failed", upstream=upstream, error=shown)
            answered = deadlines.taken
            self.billable = self.billable and (answered or was_sent(failure))
            cut = explain(failure, upstream=upstream, answered=answered)
            self.late = cut.code == "upstream_timeout"
            return self._cut(cut)

    async def _read_on(self, failure: Exception) -> list[Event]:
        """Read an answer whose connection broke over further ones; else raise the failure."""
        while (body := await self._resume()) is not None:
            self._body = body
            events = self._forget()
            if not await self._take(events):
                self._waiting = events
            try:
                return await self._read(body)
            except LOST as again:
                failure = again
        raise failure

    async def _resume(self) -> HttpBody | AsyncGenerator[bytes] | None:
        """Open the rest of an answer whose connection broke; None if the provider has none."""
        resumption, answer = self.resumption, self.parser.upstream_id
        if resumption is None or answer is None or self.parser.ended:
            return None
        body = await resumption.open(answer)
        if body is not None:
            message = f"upstream {self.target.upstream.name!r} closed the connection"
            self._waiting.append(Notice("upstream_resumed", f"{message}; its answer was read on"))
        return body

    async def abandon(self) -> None:
        """Cancel an answer that its provider would complete without a reader."""
        resumption, self.resumption = self.resumption, None
        if resumption is not None and not self._over and (answer := self.parser.upstream_id):
            await resumption.cancel(answer)

    async def _close_body(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            await body.aclose()

    def start(self, usage: TokenCounts | None) -> list[Event]:
        """Return the events before the answer: the target with its input counts, and notices.

        Empty for a replay, whose own events contain them.
        """
        if self.target.replays:
            return []
        upstream, model, answer = self.target.upstream, self.parser.model, self.parser.upstream_id
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

    def note_wait(self, error: RelayError) -> None:
        """Set the `Retry-After` of the reply's head on a retryable error within an answer."""
        answered = self.deadlines is not None and self.deadlines.taken
        if answered and self.head and error.retryable and error.retry_after_s is None:
            limited = error.code == "upstream_rate_limited"
            now = time.time()
            error.retry_after_s = read_wait(self.head.headers, limited=limited, now=now)

    async def _open(self) -> HttpBody | AsyncGenerator[bytes]:
        request = self._request
        call = await self._build_call(request.chat)
        reasoned = _has_reasoning(request.chat)
        if self._is_last:
            request.shrink(len(call.content))
        self.billable = True
        try:
            reply = await open_stream(
                self._client, call, upstream=self.target.upstream.name, on_head=self._on_head
            )
        except RelayError as error:
            self.billable = False
            if error.code == "upstream_invalid_request":
                fields = self.target.upstream.reasoning_fields
                fields.refused(
                    self.target.model, error.message, content=call.content, reasoned=reasoned
                )
            raise
        except asyncio.CancelledError as left:
            self.billable = was_sent(left)
            raise
        if self._is_last:
            request.drop()
        return reply.body

    def _on_head(self, head: HttpHead) -> None:
        self.head = head

    def _on_resend(self) -> None:
        self.resent = True

    def reply_headers(self) -> dict[str, str]:
        """Return the headers of the reply for a client of the same dialect, as far as known."""
        if self.head is None or not self._is_same_dialect:
            return {}
        return list_reply_headers(self.target.upstream, self.head)

    def reply(self) -> ProviderReply:
        """Return the facts of the finished call, without the provider's key."""
        redact, head = self.target.upstream.redact, self.head
        return ProviderReply(
            http_status=None if head is None else head.status,
            request_id="" if head is None or not head.request_id else redact(head.request_id),
            provider_message=(self._provider_message or self.parser.provider_message)[
                :MAX_PROVIDER_MESSAGE
            ],
            duration_s=self._clock() - self._called_at,
            code=self.code,
            reconnects=0 if self.resumption is None else self.resumption.reconnects,
            resent=self.resent,
        )

    async def _build_call(self, chat: ChatRequest) -> HttpCall:
        request = self.target.build_request(chat, last=self._is_last)
        call = await self.target.build_call(
            request, connect_timeout_s=self.limits.connect_timeout_s, on_resend=self._on_resend
        )
        # After signing: none of these needs a signature.
        headers: Mapping[str, str] = NO_HEADERS
        if self._client_headers and self._is_same_dialect:
            headers = list_request_headers(self.target.upstream, self._client_headers)
            call.headers.update({n: v for n, v in headers.items() if n not in call.headers})
        call.headers.update(self._headers)
        call.headers.update(self._more_headers)
        self._notices = request.notices
        if request.resume is not None:
            new_decoder = partial(
                self.target.dialect.decoder,
                max_line=self.limits.max_line,
                max_event=self.limits.max_event,
            )
            names = {*headers, *self._headers, *self._more_headers} - {"idempotency-key"}
            self.resumption = Resumption(
                ResumableDecoder(request.resume, new_decoder, request=request.body),
                target=self.target,
                client=self._client,
                headers={name: call.headers[name] for name in names},
            )
        return call

    async def _read(self, body: HttpBody | AsyncGenerator[bytes]) -> list[Event]:
        """Move bytes to the parser until the end of the answer or of the body.

        Returns the last events.
        """
        self._key_ending = self.target.upstream.key_ending
        resumption = self.resumption
        if resumption is not None:
            self._decoder = resumption.decoder
        else:
            self._decoder = self.target.dialect.decoder(
                max_line=self.limits.max_line, max_event=self.limits.max_event
            )
        if isinstance(body, HttpBody):
            body.push(self._push)
        try:
            async for piece in body:
                if piece:
                    self._waiting += self._parse(piece)
                if self.parser.ended:
                    return self._forget()
                events = self._forget()
                if events and not (self._sink.push(events) or await self._take(events)):
                    self._waiting = events
            if resumption is not None and resumption.decoder.place is not None:
                raise ConnectionError("the body ended before the answer")
            tail = self._decoder.close()
        except BaseException:
            self._read_rest(body)
            await self._close_body()
            raise
        end = self.parser.close(tail, strange=self._decoder.strange)
        return self._forget() + self._redacted(end)

    async def _take(self, events: list[Event]) -> bool:
        """Pass events to the sink; no deadline of the upstream interrupts it."""
        with self._watch.paused():
            return await self._sink.take(events)

    def _read_rest(self, body: HttpBody | AsyncGenerator[bytes]) -> None:
        """Parse the bytes before the body's failure, and a message that lacks only its end."""
        if self.parser.ended:
            return
        with contextlib.suppress(FramingError):
            if isinstance(body, HttpBody) and (piece := body.left()):
                self._waiting += self._parse(piece)
            tail = self._decoder.close()
            if tail is not None and is_object(tail.data):
                self._waiting += self._redacted(self.parser.feed(tail))

    def _push(self, piece: bytes) -> bool:
        """Pass a piece to the sink within the read that received it; False if that has to wait."""
        events = self._parse(piece)
        if not self.parser.ended and (not events or self._sink.push(events)):
            return True
        self._waiting += events
        return False

    def _parse(self, piece: bytes) -> list[Event]:
        ending = self._key_ending
        if ending and piece.find(ending) >= 0:  # 0.1 us, and "in" takes twice that
            self._quotes = True
        events = self.parser.feed(*self._decoder.feed(piece))
        finished = self.parser.finished
        if (
            _DELTAS.issuperset(map(type, events)) and not self._quotes
        ):  # nearly every piece: 1 us less
            self._watch.note_bytes(events=bool(events), finished=finished)
            return events
        if (field := self.parser.reasoning_field) is not None:
            self.target.upstream.reasoning_fields.learn(self.target.model, field)
        self._watch.note_bytes(events=any(map(is_visible, events)), finished=finished)
        return self._redacted(events)

    def _forget(self) -> list[Event]:
        """Return the waiting events, and clear them."""
        events, self._waiting = self._waiting, []
        return events

    def stop(self, status: Status, error: RelayError | None = None) -> list[Event]:
        """End the attempt from outside; return the last events."""
        return self._forget() + self._redacted(self.parser.stop(status, error))

    def _cut(self, error: RelayError) -> list[Event]:
        self.cut = True
        return self._forget() + self._redacted(self.parser.cut(error))

    def _redacted(self, events: list[Event]) -> list[Event]:
        """Redact the upstream's secrets in notices, errors and ids.

        Also in the answer, once its bytes have quoted the key.
        """
        redact = self.target.upstream.redact
        kinds = Event if self._quotes else _QUOTING
        return [redact_event(one, redact) if isinstance(one, kinds) else one for one in events]


class _Watch:
    """Expires `timeout` at the next of the `deadlines`.

    While tokens arrive, one timer runs and is checked when it fires; it is only set again if the
    deadline has become earlier.
    """

    def __init__(self, deadlines: Deadlines, timeout: asyncio.Timeout) -> None:
        self._deadlines = deadlines
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._stood_still = self._paused = False

    def __enter__(self) -> "_Watch":
        self._check()
        return self

    def __exit__(self, *_: object) -> None:
        self._paused = True  # for good
        if self._timer is not None:
            self._timer.cancel()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Check no deadline within the `with`."""
        self._paused = True
        self._timeout.reschedule(None)
        try:
            yield
        finally:
            self._paused = False
            self._check_again()

    def note_bytes(self, *, events: bool, finished: bool) -> None:
        """Record the arrival of bytes, and whether they contain events."""
        self._stood_still = False
        if self._deadlines.on_bytes(self._loop.time(), events=events, finished=finished):
            self._check_again()

    def _check_again(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._check()

    def _check(self) -> None:
        if self._paused:
            return
        when, now = self._deadlines.next(), self._loop.time()
        if when > now:
            self._timer = self._loop.call_at(when, self._check)
        elif now - when > LATE_S and not self._stood_still:
            self._stood_still = True
            self._timer = self._loop.call_later(READ_S, self._check)
        else:
            self._timeout.reschedule(when)


def is_visible(event: Event) -> bool:
    """Return whether an event is a visible piece of the answer."""
    if isinstance(event, ProviderData):
        return event.block is not None
    return not isinstance(event, _UNSEEN)


def is_object(text: str) -> bool:
    """Return whether a text is a complete JSON object."""
    try:
        return isinstance(decode(text), dict)
    except ValueError:
        return False


async def _finish_body(pieces: AsyncIterator[bytes]) -> None:
    """Read to the end of a body whose answer has ended, so that its connection can be reused."""
    if isinstance(pieces, HttpBody) and pieces.at_end:
        return
    with contextlib.suppress(TimeoutError, *FAILURES):
        async with asyncio.timeout(REUSE_WAIT_S):
            async for _ in pieces:
                pass
