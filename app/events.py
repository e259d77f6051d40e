"""The event schema: the events of one generation, independent of the provider.

An event is a frozen value. Its position in the stream's log, counted from 1, is its
number; the number is not part of the value. `encode` gives the JSON object that the
native wire format carries (PROTOCOL.md, "Events"); fields that are unknown are absent,
never null and never 0.

Invariants, which `dialects.reading.event_builder` upholds for every upstream:

- one `stream.start`, first, and one `stream.end`, last;
- a block's events are one start, any number of deltas, one end, in this order;
- blocks are numbered from 0 across the whole stream, whatever their choice;
- at most one `choice.end` a choice and one `usage`, all before `stream.end`.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET, UnsetType

FinishReason = Literal[
    "stop",
    "length",
    "tool_calls",
    "content_filter",
    "refusal",
    "pause",
    "error",
    "cancelled",
    "unknown",
]
Status = Literal["completed", "cancelled", "failed", "interrupted"]
Stopper = Literal["user", "operator"]
"""The principals that may cancel a running stream: its owner, or an admin."""
EndedBy = Literal[
    Stopper,
    "reader_gone",
    "budget",
    "deadline",
    "provider",
    "relay",
    "relay_lost",
    "shutdown",
]
"""The cause of an incomplete answer's end."""


class Value(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A part of an event: a JSON object without a `type`."""


class TaggedEvent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="type"):
    """Base class of all events: `type` is also the SSE event name.

    What runs for each token asks `type(event) is`: `isinstance` takes 0.3 us when it is another
    one, as msgspec's classes have a metaclass.
    """


class Raw(Value, frozen=True):
    """The provider's original data of an event, for clients of the provider's dialect.

    `format` names the dialect, `data` is a JSON object as text.
    """

    format: str
    data: str


class TokenCounts(Value, frozen=True):
    """Tokens of the whole stream so far; an unknown count is None and left out."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    """The part of `cache_write_tokens` that is cached for an hour; it may cost more."""
    audio_input_tokens: int | None = None
    audio_output_tokens: int | None = None
    """The audio tokens of the input and of the output; they may cost more."""
    service_tier: str | None = None
    """The tier that the provider bills, if it is not the default."""
    cost: str | None = None
    """The cost of these tokens in USD, as a decimal number; None if unknown."""
    estimated: bool | None = None
    """Whether the relay has estimated a count that the provider did not send."""
    cost_from: Literal["provider"] | None = None
    """The source of `cost`, if it is not computed from the relay's prices."""


class ErrorInfo(Value, frozen=True):
    """The failure of a stream; `code` is one of `errors.CODES`."""

    code: str
    message: str
    retryable: bool
    retry_after_s: float | None = None
    provider_code: str | None = None
    param: str | None = None
    """The provider's own code for a request that it refuses, and the field at fault."""


class StreamStart(TaggedEvent, frozen=True, tag="stream.start"):
    """`labels` are values of the client's own protocol, which its frames repeat."""

    stream: str
    model: str
    created: int
    labels: dict[str, str] | None = None


class StreamTarget(TaggedEvent, frozen=True, tag="stream.target"):
    """`usage` counts the input as far as known: the provider's counts, or an estimate."""

    upstream: str
    model: str
    attempt: int
    upstream_id: str | None = None
    usage: TokenCounts | None = None


class TextStart(TaggedEvent, frozen=True, tag="text.start"):
    block: int
    choice: int = 0


class TextDelta(TaggedEvent, frozen=True, tag="text.delta"):
    block: int
    text: str
    choice: int = 0


class TextEnd(TaggedEvent, frozen=True, tag="text.end"):
    block: int
    choice: int = 0


class ReasoningStart(TaggedEvent, frozen=True, tag="reasoning.start"):
    block: int
    choice: int = 0


class ReasoningDelta(TaggedEvent, frozen=True, tag="reasoning.delta"):
    block: int
    text: str
    choice: int = 0


class ReasoningEnd(TaggedEvent, frozen=True, tag="reasoning.end"):
    """`signature` and `encrypted` are opaque and go back to the provider on the next turn.

    `format` names the provider's format, if known.
    """

    block: int
    choice: int = 0
    signature: str | None = None
    encrypted: str | None = None
    format: str | None = None


class RefusalStart(TaggedEvent, frozen=True, tag="refusal.start"):
    block: int
    choice: int = 0


class RefusalDelta(TaggedEvent, frozen=True, tag="refusal.delta"):
    block: int
    text: str
    choice: int = 0


class RefusalEnd(TaggedEvent, frozen=True, tag="refusal.end"):
    block: int
    choice: int = 0


class ToolCallStart(TaggedEvent, frozen=True, tag="tool_call.start"):
    """`raw` has the other members of the provider's block."""

    block: int
    id: str
    name: str
    choice: int = 0
    raw: Raw | None = None


class ToolCallDelta(TaggedEvent, frozen=True, tag="tool_call.delta"):
    """`arguments` is a piece of JSON text."""

    block: int
    arguments: str
    choice: int = 0


class ToolCallEnd(TaggedEvent, frozen=True, tag="tool_call.end"):
    """`arguments` is the whole text: `{}` for none, and as sent where it is not valid JSON.

    An `incomplete` call was cut before its end, and must not be run.
    """

    block: int
    arguments: str
    choice: int = 0
    incomplete: bool = False


class Opaque(TaggedEvent, frozen=True, tag="opaque"):
    """Data for the provider only, which a client sends back with the next turn."""

    format: str
    data: str
    block: int | None = None
    choice: int = 0


class Source(TaggedEvent, frozen=True, tag="source"):
    """A source of a text. `start` and `end` count characters of the block.

    `raw` is the provider's whole citation.
    """

    url: str | None = None
    document: str | None = None
    title: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None
    block: int | None = None
    choice: int = 0
    raw: Raw | None = None


class Media(TaggedEvent, frozen=True, tag="media"):
    """An image or a sound: `url`, or `data` in base64."""

    block: int
    media_type: str
    url: str | None = None
    data: str | None = None
    choice: int = 0


class LogProbs(TaggedEvent, frozen=True, tag="logprobs"):
    """The provider's log probabilities of the tokens of one delta."""

    block: int
    content: list[Any]
    choice: int = 0


class ContentFilter(TaggedEvent, frozen=True, tag="content_filter"):
    """A filter's verdict; `categories` is the provider's own table."""

    scope: Literal["prompt", "completion"]
    categories: dict[str, Any]
    filtered: bool
    choice: int = 0


class ProviderTool(TaggedEvent, frozen=True, tag="provider_tool"):
    """A call of a tool that the provider executed; the client need not answer it.

    `raw` is the provider's block without the `input` or `output`.
    """

    block: int
    name: str
    input: Any | UnsetType = UNSET
    output: Any | UnsetType = UNSET
    choice: int = 0
    raw: Raw | None = None


class ProviderData(TaggedEvent, frozen=True, tag="provider_data"):
    """What only the provider's dialect has: an event of it, or fields of the answer.

    It is recorded only for a client with that dialect; other client formats leave it out. With a
    `block` it is a piece of the answer, else it is about the answer.
    """

    raw: Raw
    block: int | None = None
    choice: int = 0


class Notice(TaggedEvent, frozen=True, tag="notice"):
    """Information for developers, beside the answer."""

    code: str
    message: str


class ChoiceEnd(TaggedEvent, frozen=True, tag="choice.end"):
    """`finish_reason_raw` is the provider's own value, absent if it sent none.

    `raw` has the other members of the provider's end of a message.
    """

    finish_reason: FinishReason
    finish_reason_raw: str | None = None
    stop_sequence: str | None = None
    choice: int = 0
    raw: Raw | None = None


class Usage(TokenCounts, frozen=True, tag_field="type", tag="usage"):
    """`TokenCounts` as an event."""


class StreamEnd(TaggedEvent, frozen=True, tag="stream.end"):
    """The last event of every stream. `finish_reason` is choice 0's.

    `cost` is in USD, for the answer and all failed attempts before it.
    `ended_by` is None for a complete answer. `rescued`: another target continued the answer, and
    `usage` counts both parts.
    """

    status: Status
    finish_reason: FinishReason
    usage: TokenCounts | None = None
    error: ErrorInfo | None = None
    cost: str | None = None
    ended_by: EndedBy | None = None
    rescued: bool = False


Event = (
    StreamStart
    | StreamTarget
    | TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | RefusalStart
    | RefusalDelta
    | RefusalEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | Opaque
    | Source
    | Media
    | LogProbs
    | ContentFilter
    | ProviderTool
    | ProviderData
    | Notice
    | ChoiceEnd
    | Usage
    | StreamEnd
)

_encoder = msgspec.json.Encoder()
encode: Callable[[Event], bytes] = _encoder.encode
encode_lines: Callable[[Iterable[Event]], bytes] = _encoder.encode_lines
"""Encodes events with a line feed after each: four times as fast as one by one."""
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def decode(data: bytes | str) -> Event:
    """Decode the result of `encode`.

    Raises:
        msgspec.DecodeError: `data` is not an event.
    """
    return _decoder.decode(data)


def type_of(event: Event) -> str:
    """Return the event's `type`, such as "text.delta"."""
    return TYPES[type(event)]


TYPES: dict[type, str] = {kind: str(kind.__struct_config__.tag) for kind in get_args(Event)}
"""The `type` of each class of events."""
