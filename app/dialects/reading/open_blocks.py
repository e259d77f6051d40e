"""The open blocks of an answer, and the events that end them. No I/O."""

from typing import assert_never

import msgspec

from ...events import (
    ChoiceEnd,
    ContentFilter,
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
)

_Start = TextStart | ReasoningStart | RefusalStart | ToolCallStart


class OpenBlocks:
    """Tracks the open blocks of one stream, by its events in order."""

    def __init__(self) -> None:
        self.finish_reason: FinishReason | None = None
        """The finish reason of choice 0, once it has ended."""
        self.usage: TokenCounts | None = None
        """The latest usage."""
        self._starts: dict[int, _Start] = {}
        self._arguments: dict[int, list[str]] = {}

    def note(self, event: Event) -> None:
        """Process the next event."""
        match event:
            case TextDelta() | ReasoningDelta() | RefusalDelta():
                pass
            case ToolCallDelta():
                self._arguments.setdefault(event.block, []).append(event.arguments)
            case TextStart() | ReasoningStart() | RefusalStart() | ToolCallStart():
                self._starts[event.block] = event
            case TextEnd() | ReasoningEnd() | RefusalEnd() | ToolCallEnd():
                del self._starts[event.block]
                self._arguments.pop(event.block, None)
            case ChoiceEnd():
                if event.choice == 0:
                    self.finish_reason = event.finish_reason
            case Usage():
                self.usage = TokenCounts(*msgspec.structs.astuple(event))
            case Opaque() | Source() | Media() | LogProbs() | ContentFilter() | ProviderTool():
                pass
            case ProviderData() | StreamStart() | StreamTarget() | Notice() | StreamEnd():
                pass
            case _:
                assert_never(event)

    def ends(self) -> list[Event]:
        """Return the end events of all open blocks, in the order of their starts.

        A tool call ends with the arguments so far, complete or not: no arguments stay "",
        which differs from the `{}` of a complete call.
        """
        return [
            _end_of(start, self._arguments.get(start.block, [])) for start in self._starts.values()
        ]


def _end_of(start: _Start, arguments: list[str]) -> Event:
    match start:
        case TextStart():
            return TextEnd(start.block, start.choice)
        case ReasoningStart():
            return ReasoningEnd(start.block, start.choice)
        case RefusalStart():
            return RefusalEnd(start.block, start.choice)
        case ToolCallStart():
            return ToolCallEnd(start.block, "".join(arguments), start.choice, incomplete=True)
