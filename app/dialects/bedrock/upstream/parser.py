"""Parser of Amazon Bedrock's ConverseStream.

An answer is complete at the end of input if `messageStop` arrived and no frame was truncated.
Later events, normally `metadata` with usage and trace, are parsed too, but a connection error
there is not a failure. An exception fails the answer at any point.
"""

from typing import Any

from ....events import TokenCounts
from ....framing.eventstream import TRUNCATED
from ....framing.sse import Message
from ...reading.answer_parser import AnswerParser
from ...reading.json_values import count, decode_or, mapping, mappings, short, string, text_or_none
from .content_blocks import Blocks
from .guardrail import parse_trace

CACHES = 16
"""The maximum number of parsed rows of a count: one per cache TTL."""

_KNOWN = frozenset(
    ("contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata")
)


class Parser(AnswerParser):
    """See `AnswerParser`."""

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        super().__init__(upstream=upstream, choices=choices)
        self._blocks = Blocks(self._builder)

    @property
    def finished(self) -> bool:
        """Whether `messageStop` arrived, and no tool call is truncated."""
        return self._builder.finished

    def _message(self, message: Message) -> None:
        kind, _, name = message.event.partition(":")
        if message.event == TRUNCATED:
            self._fail("upstream_truncated", "ended its answer inside a frame")
        elif message.event == "message":
            self._document(message.data)
        elif kind in ("exception", "error") or name.endswith("Exception"):
            self._exception(name, message.data)
        elif name in _KNOWN:
            event = decode_or(message.data, None)
            if isinstance(event, dict):
                self._event(name, event)
            else:
                self._garbage()

    def _tail(self, tail: Message) -> None:
        self._message(tail)

    def _event(self, name: str, event: dict[str, Any]) -> None:
        match name:
            case "contentBlockStart":
                self._blocks.start(event)
            case "contentBlockDelta":
                self._blocks.delta(event)
            case "contentBlockStop":
                self._blocks.stop()
            case "messageStop":
                self._blocks.stop()
                self._builder.finish(0, text_or_none(event.get("stopReason")))
            case _:
                self._metadata(event)

    def _metadata(self, event: dict[str, Any]) -> None:
        self._builder.usage(parse_usage(mapping(event.get("usage"))))
        trace = mapping(event.get("trace"))
        parse_trace(self._builder, mapping(trace.get("guardrail")))
        # An ARN, whose first part contains the account.
        invoked = text_or_none(mapping(trace.get("promptRouter")).get("invokedModelId")) or ""
        self.model = short(invoked.rpartition("/")[2]) or self.model

    def _exception(self, name: str, data: str) -> None:
        fields = mapping(decode_or(data, None))
        texts = (string(fields.get(key)) for key in ("message", "originalMessage", "Message"))
        text = next(filter(None, texts), "")
        self._refuse({"error": {"code": name, "message": text}})

    def _document(self, data: str) -> None:
        """Handle a JSON document instead of a stream: an error, or no answer at all."""
        document = decode_or(data, None)
        if document is None:
            return  # truncated
        document = mapping(document)
        kind = string(document.get("__type")) or string(
            mapping(document.get("Output")).get("__type")
        )
        if "error" in document:
            self._refuse(document)
        elif kind or not document.keys().isdisjoint(("message", "Message")):
            self._exception(kind.rpartition("#")[2], data)
        else:
            self._fail("upstream_invalid_response", "answered with JSON instead of a stream")


def parse_usage(usage: dict[str, Any]) -> TokenCounts:
    """Parse a `usage` object, whose input excludes cached tokens, unlike its total."""
    fresh = count(usage.get("inputTokens"))
    cached = count(usage.get("cacheReadInputTokens"))
    written = count(usage.get("cacheWriteInputTokens"))
    rows = mappings(usage.get("cacheDetails"))[:CACHES]
    one_hour = [count(row.get("inputTokens")) or 0 for row in rows if row.get("ttl") == "1h"]
    return TokenCounts(
        input_tokens=None if fresh is None else fresh + (cached or 0) + (written or 0),
        output_tokens=count(usage.get("outputTokens")),
        total_tokens=count(usage.get("totalTokens")),
        cached_input_tokens=cached,
        cache_write_tokens=written,
        cache_write_1h_tokens=sum(one_hour) or None,
    )
