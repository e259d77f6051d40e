"""The chunks of a Completions stream.

A stream that did not complete ends with an error object and has no finish reasons: a client
may act on one. `[DONE]` says that all is there.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from ....events import Event, StreamEnd
from ...client_format import Frame
from ...openai_chat.client.renderer import render_end
from .deltas import Piece, Pieces

OBJECT: Final = "text_completion"

_encode = msgspec.json.Encoder().encode


class Renderer:
    """See `client_format.Renderer`."""

    def __init__(self, stream: str) -> None:
        self._pieces = Pieces(stream)

    def feed(self, event: Event) -> Iterable[Frame]:
        """Return the frames that the next event makes."""
        frames = [self._chunk(piece) for piece in self._pieces.feed(event)]
        if isinstance(event, StreamEnd):
            frames += render_end(event, labels=self._pieces.labels, frame=self._frame)
        return frames

    def _chunk(self, piece: Piece) -> Frame:
        choice = {
            "text": piece.text,
            "index": piece.choice,
            "logprobs": piece.logprobs,
            "finish_reason": piece.finish_reason,
        }
        return self._frame(choices=[choice])

    def _frame(self, **fields: object) -> Frame:
        pieces = self._pieces
        head = {"id": pieces.id, "object": OBJECT, "created": pieces.created}
        return Frame(_encode({**head, "model": pieces.model, **fields}))
