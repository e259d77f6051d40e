"""Renderer of the native wire format: one frame per event.

The cursor is the event's own number (PROTOCOL.md, "Frames and ids").
"""

from collections.abc import Iterable
from typing import Any, Final, Literal, assert_never

import msgspec

from ....events import (
    TYPES,
    ChoiceEnd,
    ContentFilter,
    EndedBy,
    ErrorInfo,
    Event,
    FinishReason,
    LogProbs,
    Media,
    Notice,
    Opaque,
    ProviderData,
    ProviderTool,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    RefusalEnd,
    RefusalStart,
    Source,
    Status,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TextDelta,
    TextEnd,
    TextStart,
    TokenCounts,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    encode,
    type_of,
)
from ....framing.ndjson import escape_line_ends
from ....requests import AssistantMessage
from ...answering.assistant_message import TextBlock, ToolCallBlock, render_message
from ...client_format import EVENT_STREAM, JSON_LINES, Frame

LINES: Final = {kind: f"event: {name}\ndata: ".encode() for kind, name in TYPES.items()}
"""The bytes of a frame before its data, by the class of the event."""


class Renderer:
    """The frames of one stream: its events."""

    def __init__(self, stream: str) -> None:
        pass

    def feed(self, event: Event) -> tuple[Frame]:
        """Return the frame of an event."""
        return (Frame(encode(event), type_of(event)),)


class Writer:
    """The bytes of one connection: `feed` it the log's events after the cursor, in order.

    `retry_ms` goes into the first frame of the connection and no other.
    """

    form = EVENT_STREAM

    def __init__(self, stream: str, *, after: int = 0, retry_ms: int) -> None:
        self._id = f"\nid: {stream}.".encode()
        self.begin = after
        self._number = after
        self._retry = b"retry: %d\n" % retry_ms

    def feed(self, *events: Event) -> bytes:
        """Return the frames of the next events."""
        line = self._id
        written = [self._retry]
        for number, event in enumerate(events, self._number + 1):
            data = encode(event)
            if not data.isascii():
                data = escape_line_ends(data)
            written.append(b"%b%b%b%d\n\n" % (LINES[type(event)], data, line, number))
        if events:
            self._number += len(events)
            self._retry = b""
        return b"".join(written)

    def skip(self, count: int) -> None:
        """Skip `count` numbers: those of lost events."""
        self._number += count

    def frame(self, number: int, event: Event) -> bytes:
        """Return the frame of a later event, skipping the numbers before it."""
        self._number = number
        retry, self._retry = self._retry, b""
        data = escape_line_ends(encode(event))
        return b"%b%b%b%b%d\n\n" % (retry, LINES[type(event)], data, self._id, number)


class PingWriter(Writer):
    """The same frames, with an event as heartbeat: `EventSource` hides comments from its page."""

    form = EVENT_STREAM._replace(heartbeat=b'event: ping\ndata: {"type":"ping"}\n\n')


class LineWriter(Writer):
    """The same events as JSON lines (NDJSON), each with its id as `event_id`: some have an `id`."""

    form = JSON_LINES

    def __init__(self, stream: str, *, after: int = 0, retry_ms: int) -> None:
        super().__init__(stream, after=after, retry_ms=retry_ms)
        self._start = f'{{"event_id":"{stream}.'.encode()

    def feed(self, *events: Event) -> bytes:
        """Return the lines of the next events."""
        return b"".join([self.frame(self._number + 1, event) for event in events])

    def frame(self, number: int, event: Event) -> bytes:
        """Return the line of a later event, skipping the numbers before it."""
        self._number = number
        return b'%b%d",%b\n' % (self._start, number, escape_line_ends(encode(event))[1:])


def event_id(stream: str, number: int) -> str:
    """Return the id of an event's frame."""
    return f"{stream}.{number}"


def compact(events: Iterable[Event], *, after: int = 0) -> list[tuple[int, Event]]:
    """Join successive deltas of one block; return the events with their numbers.

    A joined delta has the number of its last piece, so that its id is a cursor like any
    other. `after` is the number of the event before the first.
    """
    joined: list[tuple[int, Event]] = []
    pieces: list[str] = []
    for number, event in enumerate(events, after + 1):
        last = joined[-1][1] if joined else None
        piece = _piece(event)
        if piece is not None and _continues(last, event):
            pieces.append(piece)
            joined[-1] = (number, joined[-1][1])
            continue
        _join(joined, pieces)
        pieces = [] if piece is None else [piece]
        joined.append((number, event))
    _join(joined, pieces)
    return joined


def _piece(event: Event) -> str | None:
    match event:
        case TextDelta() | ReasoningDelta() | RefusalDelta():
            return event.text
        case ToolCallDelta():
            return event.arguments
        case _:
            return None


def _continues(last: Event | None, event: Event) -> bool:
    return type(last) is type(event) and getattr(last, "block", None) == getattr(
        event, "block", None
    )


def _join(joined: list[tuple[int, Event]], pieces: list[str]) -> None:
    if len(pieces) > 1:
        number, event = joined[-1]
        field = "arguments" if isinstance(event, ToolCallDelta) else "text"
        joined[-1] = (number, msgspec.structs.replace(event, **{field: "".join(pieces)}))


class Timings(msgspec.Struct, omit_defaults=True):
    """Unix seconds."""

    started_at: float
    ended_at: float | None = None


class Result(msgspec.Struct, omit_defaults=True):
    """A stream as one JSON object: the answer so far, or all of it."""

    stream: str
    status: Status | Literal["running"]
    model: str
    created: int
    last_event_id: str
    text: str
    """The text of choice 0."""
    blocks: list[Any]
    """Of `Block`: msgspec has no schema for a union of structs without tags."""
    choices: list[ChoiceEnd]
    content_filters: list[ContentFilter] = []
    message: AssistantMessage | None = None
    """Choice 0 as the message to send with the next turn, once the stream has ended."""
    target: StreamTarget | None = None
    finish_reason: FinishReason | None = None
    usage: TokenCounts | None = None
    cost: str | None = None
    """The cost of the whole stream in USD."""
    error: ErrorInfo | None = None
    ended_by: EndedBy | None = None
    timings: Timings | None = None


def render_result(
    stream: str,
    events: Iterable[Event],
    *,
    timings: Timings | None = None,
    last: int | None = None,
) -> Result:
    """Fold the events of a stream into one object; `last` is the number of the last one."""
    result = Result(
        stream,
        "running",
        model="",
        created=0,
        last_event_id=event_id(stream, 0),
        text="",
        blocks=[],
        choices=[],
    )
    blocks: dict[int, Any] = {}
    pieces: dict[int, list[str]] = {}
    count = 0
    for event in events:
        count += 1
        match event:
            case TextDelta() | ReasoningDelta() | RefusalDelta():
                pieces[event.block].append(event.text)
            case ToolCallDelta():
                pieces[event.block].append(event.arguments)
            case TextStart() | ReasoningStart() | RefusalStart():
                kind: Any = type_of(event).removesuffix(".start")
                blocks[event.block] = TextBlock(kind, event.block, "", choice=event.choice)
                pieces[event.block] = []
                result.blocks.append(blocks[event.block])
            case ToolCallStart():
                blocks[event.block] = ToolCallBlock(
                    "tool_call",
                    event.block,
                    id=event.id,
                    name=event.name,
                    arguments="",
                    choice=event.choice,
                )
                pieces[event.block] = []
                result.blocks.append(blocks[event.block])
            case ReasoningEnd():
                blocks[event.block].signature = event.signature
                blocks[event.block].encrypted = event.encrypted
                blocks[event.block].format = event.format
            case ToolCallEnd():
                pieces[event.block] = [event.arguments]
                blocks[event.block].incomplete = event.incomplete
            case Opaque() | Source() | Media() | ProviderTool():
                result.blocks.append(event)
            case LogProbs():
                blocks[event.block].logprobs += event.content
            case ContentFilter():
                result.content_filters.append(event)
            case ChoiceEnd():
                result.choices.append(event)
            case Usage():
                result.usage = TokenCounts(
                    **{name: getattr(event, name) for name in TokenCounts.__struct_fields__}
                )
            case StreamStart():
                result.model, result.created = event.model, event.created
            case StreamTarget():
                result.target = event
            case StreamEnd():
                result.status = event.status
                result.finish_reason = event.finish_reason
                result.usage = event.usage or result.usage
                result.cost = event.cost
                result.error = event.error
                result.ended_by = event.ended_by
            case TextEnd() | RefusalEnd() | Notice() | ProviderData():
                pass
            case _:
                assert_never(event)
    for index, block in blocks.items():
        whole = "".join(pieces[index])
        if isinstance(block, ToolCallBlock):
            block.arguments = whole
        else:
            block.text = whole
    result.text = "".join(
        block.text for block in blocks.values() if block.type == "text" and block.choice == 0
    )
    if result.status != "running":
        result.message = render_message(result.blocks, calls=result.status == "completed")
    result.last_event_id = event_id(stream, count if last is None else last)
    result.timings = timings
    return result
