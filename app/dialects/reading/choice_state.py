"""The state of one choice while its answer arrives, for the event builder."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ...events import (
    Event,
    FinishReason,
    Raw,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    RefusalEnd,
    RefusalStart,
    TextDelta,
    TextEnd,
    TextStart,
)
from .split_text import Halves
from .tool_calls import CallState, ChoiceCalls


class Kind(NamedTuple):
    """The events of one text-like kind of block."""

    start: Callable[[int, int], Event]
    delta: Callable[[int, str, int], Event]
    end: Callable[..., Event]


_TEARING = ("length", "content_filter", "error")
"""The finish reasons that may leave a tool call incomplete."""
CUTTING = _TEARING[:2]
"""Those among them that replace an earlier `stop`."""
_CALLING = ("tool_calls", "tool_call", "tool_use", "function_call")
"""The finish reasons that announce calls, other than those of items for the client alone."""

TEXT = Kind(TextStart, TextDelta, TextEnd)
REASONING = Kind(ReasoningStart, ReasoningDelta, ReasoningEnd)
REFUSAL = Kind(RefusalStart, RefusalDelta, RefusalEnd)


class Block(msgspec.Struct):
    number: int
    kind: Kind
    halves: Halves = msgspec.field(default_factory=Halves)
    opaque: dict[str, str] = {}
    """`signature`, `encrypted` and `format` for the end of a reasoning block."""


class ChoiceState(msgspec.Struct):
    open: Block | None = None
    texts: int = 0
    """The number of text blocks so far."""
    last_reasoning: int | None = None
    calls: ChoiceCalls | None = None
    """None without tool calls: an empty one takes 1 KiB."""
    logprobs: list[Any] = []
    """The log probabilities of tokens whose block has not begun."""
    buffered: int = 0
    """Their size in bytes."""
    finish: FinishReason | None = None
    raw: str | None = None
    stop_sequence: str | None = None
    more: Raw | None = None
    """The other members of the provider's end of message."""

    @property
    def torn(self) -> bool:
        """Whether a tool call is truncated, and no finish reason explains it."""
        return self.calls is not None and self.finish not in _TEARING and self.calls.torn

    def cuts(self, call: CallState) -> bool:
        """Whether the choice ended in the call, whose text does not tell: none, or free text."""
        last = self.calls is not None and self.calls.all[-1] is call
        return last and self.finish in _TEARING and (call.free or not call.pieces)

    def find_broken_call(self) -> str | None:
        """Return why the tool calls of an ended choice must not be run; None if they may."""
        calls = self.calls
        if self.torn:
            return "ended its answer within the arguments of a tool call, or they are not JSON"
        if calls is not None and any(c.surplus and not c.repeated for c in calls.all):
            return "sent more than one JSON value as the arguments of a tool call"
        if (self.raw or "").lower() in _CALLING and not (calls and calls.by_block):
            return "stopped for tool calls, and sent none"
        return None

    def reason(self, *, completed: bool) -> FinishReason | None:
        """Return the finish reason of `choice.end`, None if the choice did not finish."""
        calls = self.calls
        called = calls is not None and bool(calls.by_block)
        if not completed and self.torn:
            return None
        if self.finish is None:
            if not completed:
                return None
            return "tool_calls" if calls and called and not calls.torn else "unknown"
        return "tool_calls" if self.finish == "stop" and called else self.finish
