"""Events of whole blocks, for answers to render."""

from typing import Any

from app import events as e


def text(block: int, *pieces: str, choice: int = 0) -> list[e.Event]:
    deltas = [e.TextDelta(block, piece, choice) for piece in pieces]
    return [e.TextStart(block, choice), *deltas, e.TextEnd(block, choice)]


def thought(block: int, *pieces: str, **end: Any) -> list[e.Event]:
    """Return reasoning; `end` has what proves it."""
    deltas = [e.ReasoningDelta(block, piece) for piece in pieces]
    return [e.ReasoningStart(block), *deltas, e.ReasoningEnd(block, **end)]


def refusal(block: int, *pieces: str) -> list[e.Event]:
    deltas = [e.RefusalDelta(block, piece) for piece in pieces]
    return [e.RefusalStart(block), *deltas, e.RefusalEnd(block)]


def call(block: int, id: str, name: str, *pieces: str) -> list[e.Event]:
    """Return a call of a tool, whose arguments come in pieces."""
    deltas = [e.ToolCallDelta(block, piece) for piece in pieces]
    end = e.ToolCallEnd(block, "".join(pieces) or "{}")
    return [e.ToolCallStart(block, id, name), *deltas, end]
