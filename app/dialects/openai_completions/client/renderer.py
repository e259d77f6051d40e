"""Renderer of Completions streams.

A stream that failed or was cancelled ends with an error object, without `[DONE]` and finish
reasons, on which clients act. `[DONE]` follows a complete stream only.
"""

from collections.abc import Iterable, Mapping

import msgspec

from ....events import Event, StreamEnd, TextDelta
from ...client_format import Frame
from ...openai_chat.client.renderer import render_end
from .choices import ChoiceBuilder

_encode = msgspec.json.Encoder().encode


class Renderer:
    """See `client_format.Renderer`."""

    def __init__(self, stream: str) -> None:
        self._builder = ChoiceBuilder(stream)

    def feed(self, event: Event) -> Iterable[Frame]:
        """Return the frames for the next event."""
        frames = [self._frame({"choices": [choice]}) for choice in self._builder.feed(event)]
        if isinstance(event, StreamEnd):
            frames += render_end(event, labels=self._builder.deltas.labels, frame=self._frame)
        return frames

    def pass_over(self, event: Event) -> int | None:
        """See `client_format.Renderer`; the format has no reasoning."""
        passed = self._builder.deltas.pass_over(event)
        return passed and int(isinstance(event, TextDelta) and event.text != "")

    def _frame(self, fields: Mapping[str, object]) -> Frame:
        return Frame(_encode(self._builder.render(**fields)))
