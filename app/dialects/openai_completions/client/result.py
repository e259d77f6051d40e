"""Renderer of complete Completions responses: the sum of the stream's chunks."""

from collections.abc import Iterable
from typing import Any

from ....events import Event, StreamEnd
from ...answering.stream_end import error_of_end
from ...openai_chat.client.deltas import render_usage
from .deltas import Delta, DeltaBuilder
from .renderer import OBJECT


def render_result(stream: str, events: Iterable[Event]) -> dict[str, Any]:
    """Return the response object; every choice has a finish reason.

    Raises:
        RelayError: the stream did not complete.
    """
    builder = DeltaBuilder(stream)
    choices: dict[int, list[Delta]] = {}
    usage = None
    for event in events:
        for delta in builder.feed(event):
            choices.setdefault(delta.choice, []).append(delta)
        if isinstance(event, StreamEnd):
            if (failed := error_of_end(event)) is not None:
                raise failed
            usage = render_usage(event)
    result = {
        "id": builder.id,
        "object": OBJECT,
        "created": builder.created,
        "model": builder.model,
        "choices": [_sum(index, deltas) for index, deltas in sorted(choices.items())],
    }
    return result if usage is None else {**result, "usage": usage}


def _sum(index: int, deltas: list[Delta]) -> dict[str, Any]:
    logprobs: dict[str, list[Any]] = {}
    for delta in deltas:
        for name, rows in (delta.logprobs or {}).items():
            logprobs.setdefault(name, []).extend(rows)
    return {
        "text": "".join([delta.text for delta in deltas]),
        "index": index,
        "logprobs": logprobs or None,
        "finish_reason": deltas[-1].finish_reason,
    }
