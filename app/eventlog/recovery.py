"""How a stream ends whose producer is gone: from its events alone. No I/O."""

from collections.abc import Iterable

import msgspec

from ..errors import CODES
from ..events import (
    ChoiceEnd,
    ErrorInfo,
    Event,
    FinishReason,
    ReasoningEnd,
    ReasoningStart,
    RefusalEnd,
    RefusalStart,
    Status,
    StreamEnd,
    TextEnd,
    TextStart,
    TokenCounts,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)

LOST = ErrorInfo(
    "producer_lost",
    "the relay stopped before the answer was complete",
    CODES["producer_lost"].retryable,
)
"""Why a stream is ended for its producer."""

_STARTS = (TextStart, ReasoningStart, RefusalStart, ToolCallStart)
_ENDS = (TextEnd, ReasoningEnd, RefusalEnd, ToolCallEnd)


def closing_events(
    events: Iterable[Event], *, status: Status, error: ErrorInfo | None
) -> list[Event]:
    """Return what has to follow the events, all there are of a stream, to end it well.

    That is the end of every open block, in the order in which they began, and the
    `stream.end`; nothing when it is there. A tool call ends with the arguments that came,
    whole or not: none at all stay an empty text, which is not the `{}` of a whole call.
    """
    blocks: dict[int, TextStart | ReasoningStart | RefusalStart | ToolCallStart] = {}
    arguments: dict[int, list[str]] = {}
    usage: TokenCounts | None = None
    finish_reason: FinishReason = "cancelled" if status == "cancelled" else "error"
    for event in events:
        if isinstance(event, _STARTS):
            blocks[event.block] = event
        elif isinstance(event, _ENDS):
            del blocks[event.block]
            arguments.pop(event.block, None)
        elif isinstance(event, ToolCallDelta):
            arguments.setdefault(event.block, []).append(event.arguments)
        elif isinstance(event, ChoiceEnd) and event.choice == 0:
            finish_reason = event.finish_reason
        elif isinstance(event, Usage):
            usage = TokenCounts(*msgspec.structs.astuple(event))
        elif isinstance(event, StreamEnd):
            return []
    ending = [_end_of(start, arguments.get(start.block, ())) for start in blocks.values()]
    return [*ending, StreamEnd(status, finish_reason, usage, error)]


def _end_of(
    start: TextStart | ReasoningStart | RefusalStart | ToolCallStart, arguments: Iterable[str]
) -> Event:
    match start:
        case TextStart():
            return TextEnd(start.block, start.choice)
        case ReasoningStart():
            return ReasoningEnd(start.block, start.choice)
        case RefusalStart():
            return RefusalEnd(start.block, start.choice)
        case ToolCallStart():
            return ToolCallEnd(start.block, "".join(arguments), start.choice)
