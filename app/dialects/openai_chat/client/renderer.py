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
from ..member_records import Members, fill_text, merge
from .deltas import SILENT, Delta, DeltaBuilder, render_usage

USAGE = "usage"
"""The label of a stream whose client requested a chunk with the token counts."""

_encode = msgspec.json.Encoder().encode

_FIELDS: Final = frozenset(("id", "object", "created", "model", "choices", "usage"))

_OF_HEAD: Final = frozenset((StreamStart, StreamTarget))
"""Events that change the first fields."""

_BEFORE_TEXT: Final = b'%b,"choices":[{"index":%d,"delta":{"content":'
_AFTER_TEXT: Final = b'},"logprobs":null,"finish_reason":null}]}'
"""The bytes around the text of a delta, as `_chunk` would encode them."""


class Renderer:
    """See `client_format.Renderer`."""

    def __init__(self, stream: str) -> None:
        self._deltas = DeltaBuilder(stream)
        self._head = b""
        """The encoded fields that all chunks start with; empty: to be encoded."""
        self._before: dict[int, bytes] = {}
        """The bytes before the text of a delta, by its choice."""
        self._repeated: Members = {}
        """The provider's own among them."""

    def feed(self, event: Event) -> Iterable[Frame]:
        """Return the frames for the next event."""
        builder = self._deltas
        # Nearly every event: takes a third of the time.
        if type(event) is TextDelta and builder.members.plain:
            text, choice = event.text, event.choice
            builder.choices[choice].length += len(text)
            before = self._before.get(choice)
            if before is None:
                head = self._head or self._begin()
                before = self._before[choice] = _BEFORE_TEXT % (head, choice)
            return (Frame(before + _encode(text) + _AFTER_TEXT),)
        if type(event) in SILENT:
            return ()
        frames = [self._chunk(delta) for delta in builder.feed(event)]
        repeated = builder.members.chunk.repeated
        if repeated is not self._repeated or type(event) in _OF_HEAD:
            self._repeated, self._head = repeated, b""
            self._before.clear()
        if type(event) is StreamEnd:
            if event.status == "completed" and (found := builder.moderation.render_lists()):
                frames.append(self._frame({"choices": [], "moderation": found}))
            usage = builder.members.usage
            frames += render_end(event, labels=builder.labels, frame=self._frame, usage=usage)
        return frames

    def pass_over(self, event: Event) -> int | None:
        """See `client_format.Renderer`."""
        return self._deltas.pass_over(event)

    def _begin(self) -> bytes:
        builder = self._deltas
        head = {
            "id": builder.id,
            "object": "chat.completion.chunk",
            "created": builder.created,
            "model": builder.model,
        }
        head |= {name: value for name, value in self._repeated.items() if name not in _FIELDS}
        self._head = _encode(head).removesuffix(b"}")
        return self._head

    def _chunk(self, delta: Delta) -> Frame:
        choice = {
            "index": delta.choice,
            "delta": delta.delta,
            "logprobs": delta.logprobs,
            "finish_reason": delta.finish_reason,
        }
        if delta.delta_members:
            choice["delta"] = merge(fill_text(delta.delta_members, delta.text), delta.delta)
        if delta.members:
            sent = {name: value for name, value in choice.items() if value is not None}
            choice |= merge(delta.members, sent)
        fields: dict[str, object] = {"choices": [choice]}
        if others := self._deltas.members.take_waiting():
            fields = {name: value for name, value in others.items() if name not in _FIELDS} | fields
        return self._frame(fields)

    def _frame(self, fields: Mapping[str, object]) -> Frame:
        return Frame(b"%b,%b" % (self._head or self._begin(), _encode(fields)[1:]))


def render_end(
    end: StreamEnd,
    *,
    labels: Mapping[str, str],
    frame: Callable[[Mapping[str, object]], Frame],
    usage: Members | None = None,
) -> Iterable[Frame]:
    """Yield the last frames: an error, or the requested token counts and `[DONE]`.

    `frame` builds a frame from the fields of a chunk; `usage` is the provider's own.
    """
    failed = error_of_end(end)
    if failed is not None:
        yield Frame(_encode({"error": error_object(failed.info())}))
        return
    if USAGE in labels and (counts := render_usage(end, usage)) is not None:
        yield frame({"choices": [], "usage": counts})
    yield Frame(b"[DONE]")
