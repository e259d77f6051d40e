"""Renderer of Responses streams; `sequence_number` counts from 0, one less than the frame's
number.

As at OpenAI, an answer that did not complete has the event `error` before its last one: the
official clients raise only for that, and frameworks would take the partial text for complete.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from ....events import ContentFilter, Event, StreamEnd, StreamStart, StreamTarget
from ...client_format import Frame
from .result import Response, close_items

_encode = msgspec.json.Encoder().encode


class Renderer:
    """See `client_format.Renderer`."""

    ends_once = False
    """Whether an answer that did not complete has one event at its end."""

    def __init__(self, stream: str) -> None:
        self._response = Response(stream)
        self._count = 0

    def feed(self, event: Event) -> Iterable[Frame]:
        """Yield the frames for the next event."""
        response = self._response
        match event:
            case StreamStart():
                response.feed(event)
                yield self._state("created")
                yield self._state(response.status)
            case StreamTarget():
                was = response.status
                response.feed(event)
                if was == "queued":
                    yield self._state("in_progress")
            case ContentFilter():
                response.feed(event)
            case StreamEnd():
                response.feed(event)
                for kind, fields in close_items(response):
                    yield self._frame(kind, fields)
                # The format has no event for a cancelled response.
                cancelled = response.status == "cancelled"
                last = "incomplete" if cancelled else response.status
                if (error := response.render_error_event()) is not None:
                    frame = self._frame("error", error)
                    if cancelled or not self.ends_once:
                        yield frame
                    if cancelled and self.ends_once:
                        return
                yield self._state(last, response.output.last_fields)
            case _:
                for kind, fields in response.output.feed(event):
                    yield self._frame(kind, fields)

    def pass_over(self, event: Event) -> int | None:
        """See `client_format.Renderer`."""
        if not self._response.output.pass_over(event):
            return None
        self._count += 1
        return 1

    def _state(self, name: str, more: dict[str, Any] | None = None) -> Frame:
        fields = {"response": self._response.render(), **(more or {})}
        return self._frame(f"response.{name}", fields)

    def _frame(self, kind: str, fields: dict[str, Any]) -> Frame:
        data = _encode({"type": kind, "sequence_number": self._count, **fields})
        self._count += 1
        return Frame(data, kind)


class MessageRenderer(Renderer):
    """The messages of a WebSocket: readers stop at the first end, and the next is of the next
    response. A cancelled one ends with `error`, since `response.incomplete` is a whole answer.
    """

    ends_once = True
