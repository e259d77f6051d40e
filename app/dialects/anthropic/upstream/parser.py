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
    leave_out,
    make_raw,
    mapping,
    short,
    size,
    string,
    text_or_none,
)
from .. import ERRORS, EVENTS, NAME
from .content_blocks import Blocks

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
_OF_STARTS: Final = frozenset(
    ("id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "stop_details")
)
_OF_STOPS: Final = frozenset(("stop_reason", "stop_sequence"))
"""The members of a message and of its end that have events, or a place in every answer."""
_MAX_TEXT: Final = 500


class Parser(AnswerParser):
    """See `AnswerParser`."""

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        super().__init__(upstream=upstream, choices=choices)
        self._blocks = Blocks(self._builder, upstream=upstream)
        self._usage: dict[str, Any] = {}
        self._started = False
        self._at_end: dict[str, Any] = {}
        self._last: dict[str, dict[str, Any]] = {"": {}, "delta": {}, "usage": {}}
        """The members of all `message_delta` events so far, of their `delta` and `usage`."""

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
        elif message.event == "message" or (message.event in EVENTS and message.event != "ping"):
            self._garbage()

    def _event(self, event: dict[str, Any], *, name: str) -> None:
        match string(event.get("type")) or ("error" if event.get("error") else name):
            case "content_block_delta":
                self._blocks.delta(event)
            case "content_block_start":
                self._blocks.start(event)
                self.model = self._blocks.model or self.model
            case "content_block_stop":
                self._blocks.stop(event.get("index"))
            case "message_start":
                self._start(mapping(event.get("message")), event)
            case "message_delta":
                self._count(event.get("usage"))
                self._keep_last(event)
                self._finish(mapping(event.get("delta")))
            case "message_stop":
                self._blocks.close()
                self._pass_last(event)
                self._complete()
            case "message" if not self._started and "content" in event:
                self._start(event, {})
                self._complete()
            case "error":
                self._refuse(event)
            case kind if kind and self._started and kind not in EVENTS:
                self._builder.provider_data(NAME, {**event, "type": kind})

    def _start(self, message: dict[str, Any], event: dict[str, Any]) -> None:
        """Handle the head of the message, which proxies repeat and splice into another answer."""
        name = short(message.get("id"))
        if self._started:
            if name != self.upstream_id:
                self._fail("upstream_invalid_response", "began another answer within this one")
            return
        self._started = True
        self.upstream_id, self.model = name, short(message.get("model"))
        head = {"type": "message_start", "message": leave_out(message, _OF_STARTS)}
        self._builder.provider_data(NAME, leave_out(event, ("type", "message")) | head)
        usage = mapping(message.get("usage"))
        if not string(message.get("stop_reason")):
            # The output count is a placeholder here: 1 to 8 tokens.
            usage = {name: value for name, value in usage.items() if name not in _OUTPUT}
        self._count(usage)
        # After results of programmatic tool calls, `message_start` has the complete content.
        self._blocks.feed(message.get("content"))
        self._finish(message)

    def _keep_last(self, event: dict[str, Any]) -> None:
        """Keep the members of a `message_delta`, of which there may be several."""
        if not self._builder.keeps_provider_data:
            return
        delta, usage = mapping(event.get("delta")), mapping(event.get("usage"))
        for name, fields in (
            ("", leave_out(event, ("type", "delta", "usage"))),
            ("delta", leave_out(delta, _OF_STOPS)),
            ("usage", leave_out(usage, ())),
        ):
            recorded = self._last[name]
            for key, value in fields.items():
                self._builder.reserve(size({key: value}))
                if key in recorded:
                    self._builder.release(size({key: recorded[key]}))
                recorded[key] = value

    def _pass_last(self, stop: dict[str, Any]) -> None:
        """Pass on the members of the message's end."""
        if any(self._last.values()):
            fields = {"delta": self._last["delta"], "usage": self._last["usage"]}
            self._builder.provider_data(NAME, self._last[""] | {"type": "message_delta"} | fields)
        if more := leave_out(stop, ("type",)):
            self._builder.provider_data(NAME, {**more, "type": "message_stop"})

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
        """Handle a `usage`: counts of the whole message so far; absent ones do not change.

        Compatible hosts send 0 instead.
        """
        given = {k: v for k, v in mapping(usage).items() if v is not None}
        known = [k for k in (*_COUNTS, *_BILLED) if k in given]
        self._usage |= {k: given[k] for k in known if given[k] != 0 or k not in self._usage}
        self._builder.usage(parse_usage(self._usage))

    def _refuse(self, document: Any) -> None:
        kind = string(mapping(mapping(document).get("error")).get("type"))
        if kind in ERRORS:
            self._builder.provider_data(NAME, {"type": "error", "error": {"type": kind}})
        super()._refuse(document)

    def _tail(self, tail: Message) -> None:
        super()._tail(tail)
        document = decode_or(tail.data, None)
        if string(mapping(document).get("type")) not in EVENTS:
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
