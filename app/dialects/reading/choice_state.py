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
from .tool_calls import ChoiceCalls


class Kind(NamedTuple):
    """The events of one text-like kind of block."""

    start: Callable[[int, int], Event]
    delta: Callable[[int, str, int], Event]
    end: Callable[..., Event]


_TEARING = ("length", "content_filter", "error")
"""The finish reasons that may leave a tool call incomplete."""

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

    def reason(self, *, completed: bool) -> FinishReason | None:
        """Return the finish reason of `choice.end`, None if the choice did not finish."""
        calls = self.calls
        called = calls is not None and bool(calls.by_block)
        if self.finish is None:
            if not completed:
                return None
            return "tool_calls" if calls and called and not calls.torn else "unknown"
        return "tool_calls" if self.finish == "stop" and called else self.finish
