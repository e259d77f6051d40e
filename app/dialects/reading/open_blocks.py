"""What of an answer has begun and not ended, for whoever has to end it. No I/O."""

import msgspec

from ...events import (
    ChoiceEnd,
    Event,
    FinishReason,
    ReasoningEnd,
    ReasoningStart,
    RefusalEnd,
    RefusalStart,
    TextEnd,
    TextStart,
    TokenCounts,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)

_Start = TextStart | ReasoningStart | RefusalStart | ToolCallStart
_STARTS = (TextStart, ReasoningStart, RefusalStart, ToolCallStart)
_ENDS = (TextEnd, ReasoningEnd, RefusalEnd, ToolCallEnd)


class OpenBlocks:
    """Takes the events of one stream, in their order."""

    def __init__(self) -> None:
        self.finish_reason: FinishReason | None = None
        """Of the first choice, once it has ended."""
        self.usage: TokenCounts | None = None
        """As it was told last."""
        self._starts: dict[int, _Start] = {}
        self._arguments: dict[int, list[str]] = {}

    def note(self, event: Event) -> None:
        """Take the next event."""
        if isinstance(event, _STARTS):
            self._starts[event.block] = event
        elif isinstance(event, _ENDS):
            del self._starts[event.block]
            self._arguments.pop(event.block, None)
        elif isinstance(event, ToolCallDelta):
            self._arguments.setdefault(event.block, []).append(event.arguments)
        elif isinstance(event, ChoiceEnd) and event.choice == 0:
            self.finish_reason = event.finish_reason
        elif isinstance(event, Usage):
            self.usage = TokenCounts(*msgspec.structs.astuple(event))

    def ends(self) -> list[Event]:
        """Return the end of every open block, in the order in which they began.

        A tool call ends with the arguments that came, whole or not: none at all stay an empty
        text, which is not the `{}` of a whole call.
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
            return ToolCallEnd(start.block, "".join(arguments), start.choice)
