"""Parser of Cohere's /v2/chat: server-sent events with a type each.

An answer is complete with `message-end`, which also reports errors, and never without it; the
`[DONE]` after it is redundant. The plan before tool calls is reasoning. Citations count the
characters of a content block, so every content block becomes a text block.
"""

from typing import Any

from ....events import TokenCounts
from ....framing.sse import Message
from ...reading.answer_bounds import ENTRY
from ...reading.answer_parser import AnswerParser
from ...reading.finish_reasons import parse_finish
from ...reading.json_values import count, decode_or, mapping, mappings, short, string, text_or_none


class Parser(AnswerParser):
    """See `AnswerParser`."""

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        super().__init__(upstream=upstream, choices=choices)
        self._texts: dict[int | None, int | None] = {}
        """The text blocks, by index of the content."""
        self._calls: dict[int | None, int | None] = {}

    def _message(self, message: Message) -> None:
        data = message.data.strip()
        if not data or data.startswith("[DONE]"):
            return
        payload = decode_or(data, data)
        if message.event == "error":
            self._refuse(payload)
        elif isinstance(payload, dict):
            self._payload(payload, event=message.event)
        elif message.event == "message":
            self._garbage()

    def _payload(self, payload: dict[str, Any], *, event: str) -> None:
        builder, index = self._builder, count(payload.get("index"))
        delta = mapping(payload.get("delta"))
        message = mapping(delta.get("message"))
        match string(payload.get("type")) or event:
            case "message-start":
                self.upstream_id = self.upstream_id or short(payload.get("id"))
                builder.choice(0)
            case "content-start":
                builder.end_text(0)
                self._content(index, message.get("content"))
            case "content-delta":
                self._content(index, message.get("content"))
                self._logprobs(payload.get("logprobs"))
            case "content-end":
                builder.end_text(0)
            case "tool-plan-delta":
                builder.reasoning(0, string(message.get("tool_plan")))
            case "tool-call-start" | "tool-call-delta":
                self._tool_call(index, mapping(message.get("tool_calls")))
            case "tool-call-end":
                builder.end_tool_call(0, self._calls.get(index))
            case "citation-start":
                self._citation(mapping(message.get("citations")))
            case "message-end":
                self._end(delta)
            case "message":
                self._other(payload)

    def _content(self, index: int | None, content: Any) -> None:
        """Handle a piece of a content block: text or thinking."""
        piece = mapping(content)
        self._builder.reasoning(0, string(piece.get("thinking")))
        self._builder.text(0, string(piece.get("text")))
        block = self._builder.text_block(0)
        if block is not None and self._texts.get(index) != block:
            self._builder.reserve(ENTRY)
            self._texts[index] = block

    def _logprobs(self, item: Any) -> None:
        """Handle the log probabilities of a delta: its text, and one number per token."""
        if isinstance(item, dict):
            self._builder.logprobs(0, [item])

    def _tool_call(self, index: int | None, call: dict[str, Any]) -> None:
        function = mapping(call.get("function"))
        if index not in self._calls:
            self._builder.reserve(ENTRY)
        self._calls[index] = self._builder.tool_call(
            0,
            index=index,
            id=string(call.get("id")),
            name=string(function.get("name")),
            arguments=function.get("arguments"),
        )

    def _citation(self, citation: dict[str, Any]) -> None:
        """Handle the sources of a part of the answer. Those of thinking and plans have no
        position.
        """
        block: int | None = None
        span: tuple[int | None, int | None] = (None, None)
        if citation.get("type") in (None, "TEXT_CONTENT"):
            index = count(citation.get("content_index"))
            # Neither the first content nor a single text needs an index.
            only = next(iter(self._texts.values())) if len(self._texts) == 1 else None
            block = self._texts.get(0, only) if index is None else self._texts.get(index)
            if block is not None:
                span = count(citation.get("start")), count(citation.get("end"))
        for source in mappings(citation.get("sources")):
            data = mapping(source.get("document")) or mapping(source.get("tool_output"))
            self._builder.source(
                0,
                url=text_or_none(data.get("url")),
                document=text_or_none(source.get("id")) or text_or_none(data.get("id")),
                title=text_or_none(data.get("title")),
                span=span,
                block=block,
            )

    def _end(self, end: dict[str, Any]) -> None:
        """Handle the end: a finish reason and the usage, or an error."""
        self._builder.usage(parse_usage(mapping(end.get("usage"))))
        raw = string(end.get("finish_reason"))
        if end.get("error") or parse_finish(raw) == "error":
            # TIMEOUT and ERROR are also codes, if there is no `error_type`.
            error = {key: end.get(key) for key in ("error", "error_type")}
            self._refuse({**error, "code": raw})
            return
        self._builder.choice(0)
        if raw:
            self._builder.finish(0, raw)
        self._complete()

    def _other(self, body: dict[str, Any]) -> None:
        """Handle JSON that is not an event: an error, or an answer that is not a stream."""
        if isinstance(body.get("message"), dict):
            self._fail("upstream_invalid_response", "answered with JSON instead of a stream")
        elif not body.keys().isdisjoint(("message", "error", "detail")):
            self._refuse(body)


def parse_usage(usage: dict[str, Any]) -> TokenCounts:
    """Parse the used tokens, not the billed ones."""
    tokens = mapping(usage.get("tokens"))
    prompt, generated = count(tokens.get("input_tokens")), count(tokens.get("output_tokens"))
    known = prompt is not None and generated is not None
    return TokenCounts(
        input_tokens=prompt,
        output_tokens=generated,
        total_tokens=(prompt or 0) + (generated or 0) if known else None,
        cached_input_tokens=count(usage.get("cached_tokens")),
        reasoning_tokens=count(tokens.get("reasoning_tokens")),
    )
