"""The events that an answer is expected to be, block by block."""

from typing import Any

from app.events import (
    ChoiceEnd,
    Event,
    ProviderTool,
    Raw,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    RefusalEnd,
    RefusalStart,
    StreamEnd,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)

Part = Event | list[Event]
"""One event, or those of a block."""


def flat(*parts: Part) -> list[Event]:
    return [event for part in parts for event in (part if isinstance(part, list) else [part])]


def text(*pieces: str | Event, block: int = 0, index: int = 0) -> list[Event]:
    """A text of a choice in pieces, with what is told of it in between."""
    inner = (TextDelta(block, p, index) if isinstance(p, str) else p for p in pieces)
    return [TextStart(block, index), *inner, TextEnd(block, index)]


def reasoning(*pieces: str | Event, block: int = 0, **signature: Any) -> list[Event]:
    inner = (ReasoningDelta(block, p) if isinstance(p, str) else p for p in pieces)
    return [ReasoningStart(block), *inner, ReasoningEnd(block, **signature)]


def refusal(*pieces: str | Event, block: int = 0) -> list[Event]:
    inner = (RefusalDelta(block, p) if isinstance(p, str) else p for p in pieces)
    return [RefusalStart(block), *inner, RefusalEnd(block)]


def call(
    name: str,
    *pieces: str | Event,
    block: int = 0,
    id: str | None = None,
    raw: Raw | None = None,
    incomplete: bool = False,
) -> list[Event]:
    """A call with its arguments in pieces; without an id of the provider's it gets one.

    An `incomplete` one was cut before its end.
    """
    inner = [ToolCallDelta(block, p) if isinstance(p, str) else p for p in pieces]
    arguments = "".join(p for p in pieces if isinstance(p, str))
    start = ToolCallStart(block, id or f"seseragi_{block}", name, raw=raw)
    arguments = arguments or ("" if incomplete else "{}")
    return [start, *inner, ToolCallEnd(block, arguments, incomplete=incomplete)]


def ran(block: int, name: str, **said: Any) -> list[Event]:
    """A tool that the provider ran: named at first, and then with what is said of it."""
    return [ProviderTool(block, name), ProviderTool(block, name, **said)]


def ended(
    *parts: Part, reason: Any = "stop", raw: str | None = "", more: Raw | None = None
) -> list[Event]:
    """The parts of an answer, and the end of it; `raw` is the reason itself unless given."""
    end = ChoiceEnd(reason, reason if raw == "" else raw, raw=more)
    return [*flat(*parts), end, StreamEnd("completed", reason)]
