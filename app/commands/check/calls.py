"""The calls by which a target is checked: the relay's own, with a note of what came and when."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextvars import ContextVar
from typing import Final

import msgspec

from ...dialects.reading.errors import MAX_READ, parse_message
from ...dialects.writing.token_estimate import estimate_tokens
from ...errors import ServiceError
from ...eventlog.stream_ended import Charge
from ...events import Event, ReasoningDelta, StreamEnd, TextDelta, ToolCallEnd, ToolCallStart
from ...generation.accounting import FREE, Accounting
from ...generation.admission import RetainedRequest
from ...generation.attempt import Attempt, is_visible
from ...generation.deadlines import Deadlines, Limits
from ...ledger.accounts import ReservationRequest
from ...requests import ChatRequest, Function, Tool, UserMessage
from ...upstreams.client import Client
from ...upstreams.targets import Target
from ...upstreams.transport import Body, Call, Reply

MAX_TOKENS: Final = 1024
"""What a call may answer at most. A model that thinks first needs some hundred."""

TOOL: Final = "get_weather"
ARGUMENT: Final = "city"

ANSWER: Final = ChatRequest(
    [UserMessage("Count from one to twenty in words, separated by commas. Say nothing else.")],
    max_completion_tokens=MAX_TOKENS,
)
"""Short, and long enough to see whether it comes in pieces."""

TOOL_CALL: Final = ChatRequest(
    [UserMessage(f"What is the weather in Kyoto now? Call the tool {TOOL}.")],
    max_completion_tokens=MAX_TOKENS,
    tools=[
        Tool(
            Function(
                TOOL,
                "Return the weather in a city.",
                {
                    "type": "object",
                    "properties": {ARGUMENT: {"type": "string"}},
                    "required": [ARGUMENT],
                    "additionalProperties": False,
                },
            )
        )
    ],
)
"""The model chooses whether it calls, as with agents: to force it is refused by some hosts
that take tools, and taken by some that cannot do without."""


class Head(msgspec.Struct, frozen=True):
    """How a call was answered."""

    status: int
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytearray
    """The start of an error's."""

    @property
    def message(self) -> str:
        """What the provider says of a failure, in one line without what looks like a secret."""
        return parse_message(bytes(self.body))


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What has come of one call."""

    end: StreamEnd
    events: Sequence[Event]
    head: Head | None
    """None: it was not answered."""
    model: str | None
    """The one that has answered, by the provider's word."""
    first_event_s: float | None
    duration_s: float
    pieces: int
    """Of text."""
    silent_s: float | None
    """Between the last of them and the end; None where there were none."""
    spread_s: float
    """How long they took to come, from the first to the last."""
    charge: Charge
    counted: bool
    """Whether the provider has said what was used."""

    @property
    def works(self) -> bool:
        return self.end.status == "completed"

    @property
    def tool_arguments(self) -> str | None:
        """The arguments of the tool call, None if there was none."""
        named = {e.block for e in self.events if isinstance(e, ToolCallStart) and e.name == TOOL}
        ends = (e for e in self.events if isinstance(e, ToolCallEnd) and e.block in named)
        return next((end.arguments for end in ends), None)


class CheckClient(Client):
    """The relay's client, which notes the head of what the calls of a task are answered."""

    async def open(self, call: Call) -> Reply:
        reply = await super().open(call)
        heads = _heads.get()
        if heads is not None:
            head = Head(
                reply.status,
                {name.lower(): value for name, value in reply.headers.items()},
                bytearray(),
            )
            heads.append(head)
            if reply.status >= 400:
                return reply._replace(body=_copy(reply.body, head.body))
        return reply


_heads: ContextVar[list[Head] | None] = ContextVar("heads", default=None)


async def _copy(body: Body | AsyncGenerator[bytes], into: bytearray) -> AsyncGenerator[bytes]:
    """Yield a body, and keep how it begins."""
    try:
        async for piece in body:
            into += piece[: MAX_READ - len(into)]
            yield piece
    finally:
        await body.aclose()


class _Recorder:
    """Takes the events of an attempt, with the times at which the pieces of the answer came."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.times: list[float] = []
        self.pieces = 0
        self.said_at: float | None = None
        self._clock = asyncio.get_running_loop().time

    def push(self, events: Sequence[Event]) -> bool:
        self.events += events
        pieces = sum(isinstance(event, TextDelta | ReasoningDelta) for event in events)
        if pieces:
            self.pieces += pieces
            self.said_at = self._clock()
        if any(map(is_visible, events)):
            self.times.append(self._clock())
        return True

    async def take(self, events: Sequence[Event]) -> bool:
        return self.push(events)


async def ask(
    target: Target, chat: ChatRequest, *, client: Client, limits: Limits, accounting: Accounting
) -> Outcome:
    """Ask a target once, as a relay would, without another try."""
    clock = asyncio.get_running_loop().time
    heads: list[Head] = []
    _heads.set(heads)
    recorder = _Recorder()
    attempt = Attempt(
        target,
        RetainedRequest(chat, None),
        number=1,
        client=client,
        limits=limits,
        headers={},
        is_last=True,
    )
    started = clock()
    await attempt.run(recorder, deadlines=Deadlines(limits, now=started))
    ended = clock()
    end = recorder.events[-1] if recorder.events else None
    if not isinstance(end, StreamEnd):
        raise ServiceError("internal", "the attempt has no end")
    times = recorder.times
    told = end.usage or attempt.parser.usage
    refused = attempt.parser.refused and not times
    charge = FREE
    if told is not None or (attempt.billable and not refused):
        charge = accounting.charge(
            target.name,
            told,
            request=ReservationRequest((), 0, estimate_tokens(chat), MAX_TOKENS),
            written=recorder.events,
            complete=end.status == "completed" and not attempt.parser.counted_early,
        )
    return Outcome(
        end=end,
        events=recorder.events,
        head=heads[-1] if heads else None,
        model=target.upstream.redact(attempt.parser.model) if attempt.parser.model else None,
        first_event_s=times[0] - started if times else None,
        duration_s=ended - started,
        pieces=recorder.pieces,
        silent_s=None if recorder.said_at is None else ended - recorder.said_at,
        spread_s=times[-1] - times[0] if times else 0,
        charge=charge,
        counted=charge.counts is not None and not charge.counts.estimated,
    )
