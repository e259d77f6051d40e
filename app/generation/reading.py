"""The reading of one call: the bytes of its bodies to events, without the provider's secrets.

`Watch` is the timer of the call's deadlines.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

import msgspec

from ..dialects.reading.json_values import decode
from ..dialects.upstream_format import Decoder, Parser
from ..errors import RelayError, ServiceError
from ..events import (
    ChoiceEnd,
    ContentFilter,
    ErrorInfo,
    Event,
    Notice,
    ProviderData,
    Raw,
    ReasoningDelta,
    RefusalDelta,
    Status,
    StreamEnd,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)
from ..framing.sse import FramingError
from ..policies.admission import AGAIN_S, RequestMemory
from ..policies.deadlines import Deadlines
from ..requests import AssistantMessage, ChatRequest
from ..upstreams.connection import HttpBody
from ..upstreams.targets import Target

KNOWN_CALLS = 1000
"""The maximum number of a conversation's latest tool call ids that are tracked: 100 KB."""

LATE_S = 0.25
"""The delay of a timer, in seconds, that indicates a suspended process."""

READ_S = 0.1
"""Seconds for such a process to read arrived data before the deadline counts: uvloop runs timers
before it polls sockets."""

UNCOUNTED: Final = 2**20
"""The bytes of an unfinished event that are not counted as memory: nearly all are smaller."""

_NO_NAMES: Final[Mapping[str, str]] = {}
NO_CALLS: Final[frozenset[str]] = frozenset()

_DELTAS = frozenset((TextDelta, ReasoningDelta, RefusalDelta, ToolCallDelta))
_QUOTING = frozenset((Notice, StreamEnd, ToolCallStart))
_UNSEEN = frozenset((ContentFilter, Notice, Usage, ChoiceEnd, StreamEnd))

Body = HttpBody | AsyncGenerator[bytes]
Redact = Callable[[str], str]


class EventSink(Protocol):
    """The receiver of a call's events, one batch per read: a stage, and at last the log."""

    def push(self, events: Sequence[Event]) -> bool:
        """Take all events without waiting and return True; else take none, and `take` follows."""

    async def take(self, events: Sequence[Event]) -> bool:
        """Take all events and return True; else take none, to receive them again with later ones.

        Events that end in a `stream.end` are always taken. Exceptions end the call.
        """


class Reading:
    """Passes what the bodies of one answer contain to a sink, within the read that received it."""

    # More attributes than 30 cost 1.6 KiB in a dictionary, which has the parser alone.
    __slots__ = (
        "__dict__",
        "_choices",
        "_decoder",
        "_held",
        "_keeps_provider_data",
        "_key_ending",
        "_known_calls",
        "_memory",
        "_output_limit",
        "_quotes",
        "_sink",
        "_target",
        "_waiting",
        "full",
        "room",
        "tool_names",
        "watch",
    )

    def __init__(
        self,
        target: Target,
        chat: ChatRequest,
        *,
        keeps_provider_data: bool,
        memory: RequestMemory | None = None,
    ) -> None:
        """Prepare to read the answer to a request, which has this memory.

        `keeps_provider_data`: the client reads the provider's own format.
        """
        self._target = target
        self._choices = chat.n or 1
        self._known_calls = _list_calls(chat)
        self._output_limit = None if chat.is_plain else _find_limit(chat)
        self.tool_names: Mapping[str, str] = _NO_NAMES
        """The client's names of tools that were sent by others, by those."""
        self._keeps_provider_data = keeps_provider_data
        self._decoder: Decoder
        self._sink: EventSink
        self.watch: Watch
        """The timer of the call's deadlines."""
        self._key_ending: bytes | None = None
        self._quotes = False
        """Whether the answer has quoted the key."""
        self._waiting: list[Event] = []
        """Events that the sink has not taken yet."""
        self._held = 0
        """The bytes that have come since the last event."""
        self._memory = memory
        self.room: RequestMemory | None = None
        """The memory of an unfinished event, once it is counted."""
        self.full: RelayError | None = None
        """The error if there is no memory for more of an event."""

    @cached_property
    def parser(self) -> Parser:
        """The parser of the answer: most are built while the provider works."""
        upstream = self._target.upstream
        parser = self._target.dialect.parser(upstream=upstream.name, choices=self._choices)
        parser.redact = upstream.redact
        parser.output_limit = self._output_limit
        if self._known_calls:
            parser.know_calls(self._known_calls)
        if self.tool_names:
            parser.know_names(self.tool_names)
        if self._keeps_provider_data:
            parser.keep_provider_data()
        return parser

    async def read(self, body: Body, decoder: Decoder, sink: EventSink) -> bool:
        """Move bytes to the sink until the end of the answer, or of the body.

        The last events wait for `finish` then. Return whether the answer has ended.
        """
        self._key_ending = self._target.upstream.key_ending
        self._decoder, self._sink = decoder, sink
        if isinstance(body, HttpBody):
            body.push(self._push)
        try:
            async for piece in body:
                if piece:
                    self._waiting += self._parse(piece)
                if self.parser.ended:
                    return True
                events = self.rest()
                if events and not (sink.push(events) or await self._take(events, sink)):
                    self._waiting = events
            return False
        finally:
            del self._sink  # it refers to this call

    def finish(self) -> list[Event]:
        """Return the last events, after the end of the body."""
        if not self.parser.ended:
            tail = self._decoder.close()
            self._waiting += self._redacted(
                self.parser.close(tail, malformed=self._decoder.malformed)
            )
        return self.rest()

    async def _take(self, events: list[Event], sink: EventSink) -> bool:
        """Pass events to the sink; no deadline of the upstream interrupts it."""
        with self.watch.paused():
            return await sink.take(events)

    async def read_on(self, notice: Notice, sink: EventSink) -> None:
        """Continue with another body of the same answer, after the events that wait."""
        events = [*self.rest(), notice]
        if not await self._take(events, sink):
            self._waiting = events

    def save(self, body: Body) -> None:
        """Parse the bytes before the body's failure, and a message that lacks only its end."""
        if self.parser.ended:
            return
        with contextlib.suppress(FramingError):
            if isinstance(body, HttpBody) and (piece := body.left()):
                self._waiting += self._parse(piece)
            tail = self._decoder.close()
            if tail is not None and is_object(tail.data):
                self._waiting += self._redacted(self.parser.feed(tail))

    def stop(self, status: Status, error: RelayError | None = None) -> list[Event]:
        """End the answer from outside; return the last events."""
        return self.rest() + self._redacted(self.parser.stop(status, error))

    def cut(self, error: RelayError) -> list[Event]:
        """End the answer for a lost connection or a deadline; return the last events."""
        return self.rest() + self._redacted(self.parser.cut(error))

    def rest(self) -> list[Event]:
        """Return the waiting events, and clear them."""
        events, self._waiting = self._waiting, []
        return events

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
        if not events or self._held:
            self._hold(0 if events else self._held + len(piece))
        finished = self.parser.finished
        if (
            _DELTAS.issuperset(map(type, events)) and not self._quotes
        ):  # nearly every piece: 1 us less
            self.watch.note_bytes(events=bool(events), finished=finished)
            return events
        if (field := self.parser.reasoning_field) is not None:
            self._target.upstream.reasoning_fields.learn(self._target.model, field)
        self.watch.note_bytes(events=any(map(is_visible, events)), finished=finished)
        return self._redacted(events)

    def _hold(self, size: int) -> None:
        """Count so many bytes of an unfinished event as memory, which is bounded for all requests.

        Raises:
            FramingError: so much is not free; `full` says why.
        """
        self._held = size
        if self.room is None and size > UNCOUNTED and self._memory is not None:
            self.room = self._memory.for_answer()
        if self.room is not None:
            try:
                self.room.resize(max(0, size - UNCOUNTED))
            except RelayError as error:
                self.full = ServiceError(
                    "overloaded",
                    f"there is no memory for {size} bytes of one event of the provider "
                    "(max_request_memory_bytes); try again later",
                    retry_after_s=AGAIN_S,
                )
                raise FramingError("there is no memory") from error

    def _redacted(self, events: list[Event]) -> list[Event]:
        """Redact the upstream's secrets in notices, errors and ids.

        Also in the answer, once its bytes have quoted the key.
        """
        redact = self._target.upstream.redact
        quotes = self._quotes
        return [
            redact_event(one, redact) if quotes or type(one) in _QUOTING else one for one in events
        ]


class Watch:
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

    def __enter__(self) -> "Watch":
        self._check()
        return self

    def __exit__(self, *_: object) -> None:
        self._paused = True  # for good
        if self._timer is not None:
            self._timer.cancel()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Check no deadline within the `with`: nothing is read, and the upstream is not silent."""
        self._paused, since = True, self._loop.time()
        self._timeout.reschedule(None)
        try:
            yield
        finally:
            self._paused = False
            self._deadlines.leave_out(self._loop.time() - since)
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
        if self._paused or self._timeout.expired():
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
    if type(event) is ProviderData:
        return event.block is not None
    return type(event) not in _UNSEEN


def is_object(text: str) -> bool:
    """Return whether a text is a complete JSON object."""
    try:
        return isinstance(decode(text), dict)
    except ValueError:
        return False


def _find_limit(chat: ChatRequest) -> int | None:
    """Return the most tokens of each answer, of the request and of its reservation."""
    reserved = None if chat.ceiling is None else chat.ceiling.tokens
    return min((limit for limit in (chat.limit, reserved) if limit is not None), default=None)


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


def redact_event(event: Event, redact: Redact) -> Event:
    """Return an event with all its texts redacted; the same object if none changes."""
    if isinstance(event, StreamEnd) and event.error is None:
        return event  # its other texts are the relay's
    changed = {}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if value is not None and (redacted := _redact(value, redact)) != value:
            changed[name] = redacted
    return msgspec.structs.replace(event, **changed) if changed else event


def _redact(value: Any, redact: Redact) -> Any:
    """Redact every text of a field's value: JSON, or an object of an event."""
    match value:
        case str():
            return redact(value)
        case list():
            return [_redact(item, redact) for item in value]
        case dict():
            return {redact(str(k)): _redact(v, redact) for k, v in value.items()}
        case Raw():
            return msgspec.structs.replace(value, data=redact(value.data))
        case ErrorInfo():
            return msgspec.structs.replace(
                value,
                message=redact(value.message),
                provider_code=value.provider_code and redact(value.provider_code),
                param=value.param and redact(value.param),
            )
        case _:
            return value
