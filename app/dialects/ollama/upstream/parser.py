"""Ollama's own API as an upstream speaks it: one JSON object a line.

Every line has the same form: a piece of the answer, and `done` on the last one. An answer is
complete with `done: true` and never without it; a line with an `error`, which may come at any
place, fails it. The answer of /api/generate, and one that does not stream, have the same
parts.
"""

from typing import Any, Final

from ....events import TokenCounts
from ....framing.sse import Message
from ...reading.answer_parser import AnswerParser
from ...reading.bounds import ENTRY
from ...reading.json_values import count, decode, mapping, mappings, short, string, text_or_none

NO_GENERATION: Final = ("load", "unload")
"""The reasons for an end that no prompt was answered with: the model was loaded, or let go."""

_IMAGES: Final = (
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
)
"""How the base64 text of an image begins. Ollama does not name the type."""


class Parser(AnswerParser):
    """See `AnswerParser`."""

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        super().__init__(upstream=upstream, choices=choices)
        self._ids: set[str] = set()

    def _message(self, message: Message) -> None:
        try:
            line = decode(message.data)
        except ValueError:
            line = None
        if isinstance(line, dict):
            self._line(line)
        else:
            self._garbage()

    def _line(self, line: dict[str, Any]) -> None:
        self.model = self.model or short(line.get("model"))
        if line.get("error") or self._is_foreign(line):
            self._refuse(line)
            return
        self._piece(line)
        if line.get("done") is True:
            self._done(line)

    def _is_foreign(self, line: dict[str, Any]) -> bool:
        """Return whether a line is a proxy's and not one of an answer."""
        if "done" in line or not self._builder.empty:
            return False
        return "detail" in line or isinstance(line.get("message"), str)

    def _piece(self, line: dict[str, Any]) -> None:
        """Take the piece of the answer: `message` of a chat, the line itself of a generation."""
        builder, message = self._builder, mapping(line.get("message"))
        part = message or line
        builder.reasoning(0, string(part.get("thinking")))
        builder.text(0, string(message.get("content")) or string(line.get("response")))
        if logprobs := line.get("logprobs"):
            builder.logprobs(0, mappings(logprobs))
        for call in mappings(message.get("tool_calls")):
            self._tool_call(call)
        images = message.get("images")
        for image in images if isinstance(images, list) else [line.get("image")]:
            self._image(text_or_none(image))

    def _tool_call(self, call: dict[str, Any]) -> None:
        """Take a tool call, which is whole; what an index means differs with the version."""
        function, name = mapping(call.get("function")), string(call.get("id"))
        again = name in self._ids  # then it would be taken for more of that call
        if not again:
            self._builder.hold(ENTRY + len(name))
            self._ids.add(name)
        block = self._builder.tool_call(
            0,
            index=None,
            id="" if again else name,
            name=string(function.get("name")),
            arguments=function.get("arguments"),
        )
        self._builder.end_tool_call(0, block)

    def _image(self, data: str | None) -> None:
        if data is None:
            return
        kinds = (kind for start, kind in _IMAGES if data.startswith(start))
        self._builder.end_text(0)
        self._builder.media(0, next(kinds, "image/*"), data=data)

    def _done(self, line: dict[str, Any]) -> None:
        reason = text_or_none(line.get("done_reason"))
        if reason in NO_GENERATION and self._builder.empty:
            self._fail("upstream_invalid_response", "loaded the model and generated nothing")
            return
        self._builder.usage(parse_usage(line))
        # Servers of 2024 and before name no reason.
        self._builder.finish(0, reason, reason=None if reason else "stop")
        self._complete()


def parse_usage(line: dict[str, Any]) -> TokenCounts:
    """Read the counts of the last line; a prompt that was cached has none."""
    prompt, generated = count(line.get("prompt_eval_count")), count(line.get("eval_count"))
    known = prompt is not None and generated is not None
    return TokenCounts(prompt, generated, (prompt or 0) + (generated or 0) if known else None)
