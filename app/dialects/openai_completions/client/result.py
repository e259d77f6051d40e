"""A whole answer as one Completions object: the sum of its stream's chunks."""

from collections.abc import Iterable
from typing import Any

from ....events import Event, StreamEnd
from ...answering.end_errors import error_of_end
from ...openai_chat.client.deltas import render_usage
from .deltas import Piece, Pieces
from .renderer import OBJECT


def render_result(stream: str, events: Iterable[Event]) -> dict[str, Any]:
    """Return the answer; every choice has a finish reason.

    Raises:
        RelayError: it did not complete.
    """
    pieces = Pieces(stream)
    choices: dict[int, list[Piece]] = {}
    usage = None
    for event in events:
        for piece in pieces.feed(event):
            choices.setdefault(piece.choice, []).append(piece)
        if isinstance(event, StreamEnd):
            if (failed := error_of_end(event)) is not None:
                raise failed
            usage = event.usage
    result = {
        "id": pieces.id,
        "object": OBJECT,
        "created": pieces.created,
        "model": pieces.model,
        "choices": [_sum(index, said) for index, said in sorted(choices.items())],
    }
    return result if usage is None else {**result, "usage": render_usage(usage)}


def _sum(index: int, pieces: list[Piece]) -> dict[str, Any]:
    logprobs: dict[str, list[Any]] = {}
    for piece in pieces:
        for name, rows in (piece.logprobs or {}).items():
            logprobs.setdefault(name, []).extend(rows)
    return {
        "text": "".join([piece.text for piece in pieces]),
        "index": index,
        "logprobs": logprobs or None,
        "finish_reason": pieces[-1].finish_reason,
    }
