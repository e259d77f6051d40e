"""Renderer of Completions streams.

A stream that failed or was cancelled ends with an error object, without `[DONE]` and finish
reasons, on which clients act. `[DONE]` follows a complete stream only.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from ....events import Event, StreamEnd
from ...client_format import Frame
from ...openai_chat.client.renderer import render_end
from .deltas import Delta, DeltaBuilder

OBJECT: Final = "text_completion"

_encode = msgspec.json.Encoder().encode


class Renderer:
    """See `client_format.Renderer`."""

    def __init__(self, stream: str) -> None:
        self._deltas = DeltaBuilder(stream)

    def feed(self, event: Event) -> Iterable[Frame]:
        """Return the frames for the next event."""
        frames = [self._chunk(delta) for delta in self._deltas.feed(event)]
        if isinstance(event, StreamEnd):
            frames += render_end(event, labels=self._deltas.labels, frame=self._frame)
        return frames

    def _chunk(self, delta: Delta) -> Frame:
        choice = {
            "text": delta.text,
            "index": delta.choice,
            "logprobs": delta.logprobs,
            "finish_reason": delta.finish_reason,
        }
        return self._frame(choices=[choice])

    def _frame(self, **fields: object) -> Frame:
        builder = self._deltas
        head = {"id": builder.id, "object": OBJECT, "created": builder.created}
        return Frame(_encode({**head, "model": builder.model, **fields}))
