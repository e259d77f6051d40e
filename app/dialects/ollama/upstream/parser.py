"""Parser of Ollama's native API: one JSON object per line.

Every line has the same form: a piece of the answer, and `done` on the last one. An answer is
complete with `done: true` and never without it; a line with an `error`, at any point, fails
it. Answers of /api/generate and answers that do not stream have the same fields.
"""

from typing import Any, Final

from ....events import TokenCounts
from ....framing.sse import Message
from ...reading.answer_bounds import ENTRY
from ...reading.answer_parser import AnswerParser
from ...reading.json_values import count, decode_or, mapping, mappings, short, string, text_or_none

NO_GENERATION: Final = ("load", "unload")
"""The `done_reason`s without an answer: the model was loaded or unloaded."""

_IMAGES: Final = (
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
)
"""The start of an image's base64 text. Ollama does not send the type."""


class Parser(AnswerParser):
    """See `AnswerParser`."""

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        super().__init__(upstream=upstream, choices=choices)
        self._ids: set[str] = set()

    def _message(self, message: Message) -> None:
        line = decode_or(message.data, None)
        if isinstance(line, dict):
            self._line(line)
        else:
            self._garbage()

    def _line(self, line: dict[str, Any]) -> None:
        self.model = self.model or short(line.get("model"))
        if line.get("error") or self._is_proxy_error(line):
            self._refuse(line)
            return
        self._piece(line)
        if line.get("done") is True:
            self._done(line)

    def _is_proxy_error(self, line: dict[str, Any]) -> bool:
        """Return whether a line is from a proxy and not part of an answer."""
        if "done" in line or not self._builder.empty:
            return False
        return "detail" in line or isinstance(line.get("message"), str)

    def _piece(self, line: dict[str, Any]) -> None:
        """Handle a piece of the answer: `message` of a chat, or the line itself of a generation."""
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
        """Handle a tool call, which is complete; the meaning of an index differs between
        versions.
        """
        function, name = mapping(call.get("function")), string(call.get("id"))
        repeated = name in self._ids  # the builder would continue the call of that id
        if not repeated:
            self._builder.reserve(ENTRY + len(name))
            self._ids.add(name)
        block = self._builder.tool_call(
            0,
            index=None,
            id="" if repeated else name,
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
        # Servers of 2024 and before send no reason.
        self._builder.finish(0, reason, reason=None if reason else "stop")
        self._complete()


def parse_usage(line: dict[str, Any]) -> TokenCounts:
    """Parse the token counts of the last line; absent for a cached prompt."""
    prompt, generated = count(line.get("prompt_eval_count")), count(line.get("eval_count"))
    known = prompt is not None and generated is not None
    return TokenCounts(prompt, generated, (prompt or 0) + (generated or 0) if known else None)
