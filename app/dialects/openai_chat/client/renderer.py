"""Renderer of Chat Completions streams.

The first chunk of a choice has the role. A stream that failed or was cancelled ends with an
error object, without `[DONE]` and finish reasons, on which clients act. `[DONE]` follows a
complete stream only.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from ....events import Event, StreamEnd, StreamStart, StreamTarget, TextDelta
from ...answering.openai_errors import error_object
from ...answering.stream_end import error_of_end
from ...client_format import Frame
from .deltas import Delta, DeltaBuilder, render_usage

USAGE = "usage"
"""The label of a stream whose client requested a chunk with the token counts."""

_encode = msgspec.json.Encoder().encode

_CONTENT: Final = (
    b',"choices":[{"index":%d,"delta":{"content":',
    b'},"logprobs":null,"finish_reason":null}]}',
)
"""The bytes around the text of a delta, as `_chunk` would encode them."""


class Renderer:
    """See `client_format.Renderer`."""

    def __init__(self, stream: str) -> None:
        self._deltas = DeltaBuilder(stream)
        self._head = b""
        """The encoded fields that all chunks start with."""

    def feed(self, event: Event) -> Iterable[Frame]:
        """Return the frames for the next event."""
        if type(event) is TextDelta:  # nearly every event: takes a third of the time
            self._deltas.add_text(event)
            before, after = _CONTENT
            text = _encode(event.text)
            return (Frame(b"%b%b%b%b" % (self._head, before % event.choice, text, after)),)
        deltas = self._deltas.feed(event)
        if isinstance(event, (StreamStart, StreamTarget)):
            self._head = self._begin()
        frames = [self._chunk(delta) for delta in deltas]
        if isinstance(event, StreamEnd):
            if event.status == "completed" and (found := self._deltas.moderation.render_lists()):
                frames.append(self._frame(choices=[], moderation=found))
            frames += render_end(event, labels=self._deltas.labels, frame=self._frame)
        return frames

    def _begin(self) -> bytes:
        builder = self._deltas
        head = {
            "id": builder.id,
            "object": "chat.completion.chunk",
            "created": builder.created,
            "model": builder.model,
        }
        return _encode(head).removesuffix(b"}")

    def _chunk(self, delta: Delta) -> Frame:
        choice = {
            "index": delta.choice,
            "delta": delta.delta,
            "logprobs": delta.logprobs,
            "finish_reason": delta.finish_reason,
        }
        return self._frame(choices=[choice])

    def _frame(self, **fields: object) -> Frame:
        return Frame(b"%b,%b" % (self._head, _encode(fields).removeprefix(b"{")))


def render_end(
    end: StreamEnd, *, labels: Mapping[str, str], frame: Callable[..., Frame]
) -> Iterable[Frame]:
    """Yield the last frames: an error, or the requested token counts and `[DONE]`.

    `frame` builds a frame from the fields of a chunk.
    """
    failed = error_of_end(end)
    if failed is not None:
        yield Frame(_encode({"error": error_object(failed.info())}))
        return
    if USAGE in labels and (usage := render_usage(end)) is not None:
        yield frame(choices=[], usage=usage)
    yield Frame(b"[DONE]")
