"""Renderer of complete Completions responses: the sum of the stream's chunks."""

from collections.abc import Iterable
from typing import Any

from ....events import Event, StreamEnd
from ...answering.stream_end import error_of_end
from ...openai_chat.client.deltas import render_usage
from .choices import ChoiceBuilder


def render_result(stream: str, events: Iterable[Event]) -> dict[str, Any]:
    """Return the response object; every choice has a finish reason.

    Raises:
        RelayError: the stream did not complete.
    """
    builder = ChoiceBuilder(stream)
    pieces: dict[int, list[dict[str, Any]]] = {}
    usage = None
    for event in events:
        for choice in builder.feed(event):
            pieces.setdefault(choice["index"], []).append(choice)
        if isinstance(event, StreamEnd):
            if (failed := error_of_end(event)) is not None:
                raise failed
            usage = render_usage(event)
    choices = [_sum(found) for _, found in sorted(pieces.items())]
    return builder.render(choices=choices, **({} if usage is None else {"usage": usage}))


def _sum(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    logprobs: dict[str, list[Any]] = {}
    for piece in pieces:
        for name, rows in (piece["logprobs"] or {}).items():
            logprobs.setdefault(name, []).extend(rows)
    text = "".join([piece["text"] for piece in pieces])
    return {**pieces[-1], "text": text, "logprobs": logprobs or None}
