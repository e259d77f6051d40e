"""Parser of Anthropic's stream events, from its own API and from Vertex AI.

An answer is complete only with `message_stop`. Later input is ignored.
A complete message, one JSON document instead of a stream, is an answer too.
"""

from typing import Any, Final

from ....events import TokenCounts
from ....framing.sse import Message
from ...reading.answer_parser import AnswerParser
from ...reading.billing import parse_service_tier
from ...reading.json_values import (
    count,
    decode_or,
    make_raw,
    mapping,
    short,
    size,
    string,
    text_or_none,
)
from .. import NAME
from .content_blocks import Blocks

_EVENTS: Final = frozenset(
    (
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "message",
        "error",
        "ping",
    )
)
_BILLED: Final = ("cache_creation", "service_tier", "speed")
_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "output_tokens_details",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
_OUTPUT: Final = ("output_tokens", "output_tokens_details")
_AT_END: Final = ("container", "stop_details")
"""Members of the message's end."""
_MAX_TEXT: Final = 500


class Parser(AnswerParser):
    """See `AnswerParser`."""

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        super().__init__(upstream=upstream, choices=choices)
        self._blocks = Blocks(self._builder, upstream=upstream)
        self._usage: dict[str, Any] = {}
        self._started = False
        self._at_end: dict[str, Any] = {}

    def _message(self, message: Message) -> None:
        data = message.data.strip()
        # Some proxies end every stream with "[DONE]"; it does not make this one complete.
        if data.startswith("[DONE]") or (not data and message.event != "error"):
            return
        document = decode_or(data, data)
        if message.event == "error":
            self._refuse(document)
        elif isinstance(document, dict):
            self._event(document, name=message.event)
        elif message.event == "message" or (message.event in _EVENTS and message.event != "ping"):
            self._garbage()

    def _event(self, event: dict[str, Any], *, name: str) -> None:
        match string(event.get("type")) or ("error" if event.get("error") else name):
            case "content_block_delta":
                self._blocks.delta(event.get("index"), mapping(event.get("delta")))
            case "content_block_start":
                self._blocks.start(event.get("index"), mapping(event.get("content_block")))
                self.model = self._blocks.model or self.model
            case "content_block_stop":
                self._blocks.stop(event.get("index"))
            case "message_start":
                self._start(mapping(event.get("message")))
            case "message_delta":
                self._count(event.get("usage"))
                self._finish(mapping(event.get("delta")))
            case "message_stop":
                self._blocks.close()
                self._complete()
            case "message" if not self._started and "content" in event:
                self._start(event)
                self._complete()
            case "error":
                self._refuse(event)

    def _start(self, message: dict[str, Any]) -> None:
        """Handle the head of the message, which proxies repeat and splice into another answer."""
        name = short(message.get("id"))
        if self._started:
            if name != self.upstream_id:
                self._fail("upstream_invalid_response", "began another answer within this one")
            return
        self._started = True
        self.upstream_id, self.model = name, short(message.get("model"))
        usage = mapping(message.get("usage"))
        if not string(message.get("stop_reason")):
            # The output count is a placeholder here: 1 to 8 tokens.
            usage = {name: value for name, value in usage.items() if name not in _OUTPUT}
        self._count(usage)
        # After results of tools that code called, the complete content is here.
        self._blocks.feed(message.get("content"))
        self._finish(message)

    def _finish(self, message: dict[str, Any]) -> None:
        details = mapping(message.get("stop_details"))
        texts = [string(details.get(key)) for key in ("category", "explanation")]
        if any(texts):
            what = ": ".join(filter(None, texts))[:_MAX_TEXT]
            self._builder.notice("refusal", f"upstream {self._upstream!r} refused: {what}")
        if more := {k: message[k] for k in _AT_END if message.get(k) is not None}:
            self._builder.reserve(size(more))
            self._at_end |= more
        if reason := string(message.get("stop_reason")):
            self._builder.finish(
                0,
                reason,
                stop_sequence=text_or_none(message.get("stop_sequence")),
                more=make_raw(NAME, self._at_end) if self._at_end else None,
            )

    def _count(self, usage: object) -> None:
        """Handle a `usage`: counts of the whole message so far; absent ones do not change."""
        given = mapping(usage)
        self._usage |= {k: given[k] for k in (*_COUNTS, *_BILLED) if given.get(k) is not None}
        self._builder.usage(parse_usage(self._usage))

    def _tail(self, tail: Message) -> None:
        super()._tail(tail)
        document = decode_or(tail.data, None)
        if string(mapping(document).get("type")) not in _EVENTS:
            self._refuse_body(document, "a message")


def parse_usage(usage: dict[str, Any]) -> TokenCounts:
    """Parse a `usage` object, whose input excludes cache reads and writes."""
    fresh, output_tokens = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    cached = count(usage.get("cache_read_input_tokens"))
    written = count(usage.get("cache_creation_input_tokens"))
    creation = mapping(usage.get("cache_creation"))
    input_tokens = None if fresh is None else fresh + (cached or 0) + (written or 0)
    known = input_tokens is not None and output_tokens is not None
    return TokenCounts(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=(input_tokens or 0) + (output_tokens or 0) if known else None,
        cached_input_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=count(mapping(usage.get("output_tokens_details")).get("thinking_tokens")),
        cache_write_1h_tokens=count(creation.get("ephemeral_1h_input_tokens")) or None,
        service_tier=parse_service_tier(usage.get("speed"))
        or parse_service_tier(usage.get("service_tier")),
    )
