"""Parser of OpenAI Responses streams: typed events about output items.

An answer is complete only with `response.completed`, `.incomplete`, `.failed` or `.cancelled`,
or an `error`; hosts that send `[DONE]` send it after one of them. Unknown events such as
keepalives are ignored, as is input after the end.
"""

from collections.abc import Callable
from typing import Any, Final

from ....events import TokenCounts
from ....framing.sse import Message
from ...reading.answer_parser import AnswerParser
from ...reading.billing import parse_cost, parse_service_tier
from ...reading.finish_reasons import parse_finish
from ...reading.json_values import count, decode_or, mapping, mappings, short, string, text_or_none
from ...reading.provider_errors import parse_finish_error
from .items import Items

_CONSTANTS: Final = ("service_tier", "system_fingerprint", "provider")
"""The members of a response that some hosts send in one event alone."""
_ENDS: Final = ("completed", "incomplete", "failed", "cancelled")


class Parser(AnswerParser):
    """See `AnswerParser`."""

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        super().__init__(upstream=upstream, choices=choices)
        items = self._items = Items(self._builder)
        self._audio_block: int | None = None
        self._constants: dict[str, str] = {}
        self._handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "response.output_text.delta": lambda e: items.delta(e, "text"),
            "response.output_text.done": lambda e: items.whole(e, "text"),
            "response.refusal.delta": lambda e: items.delta(e, "refusal"),
            "response.refusal.done": lambda e: items.whole(e, "refusal"),
            "response.reasoning_text.delta": lambda e: items.delta(e, "reasoning"),
            "response.reasoning_text.done": lambda e: items.whole(e, "reasoning"),
            "response.reasoning_summary_text.delta": lambda e: items.delta(e, "summary"),
            "response.reasoning_summary_text.done": lambda e: items.whole(e, "summary"),
            "response.output_text.annotation.added": items.annotation,
            "response.content_part.done": items.part,
            "response.function_call_arguments.delta": items.arguments,
            "response.function_call_arguments.done": items.all_arguments,
            "response.custom_tool_call_input.delta": items.arguments,
            "response.custom_tool_call_input.done": items.all_arguments,
            "response.code_interpreter_call_code.delta": items.code,
            "response.mcp_call_arguments.delta": items.code,
            "response.output_item.added": items.add,
            "response.output_item.done": items.finish,
            "response.audio.delta": self._audio,
            "response.audio.transcript.delta": lambda e: items.delta(e, "text"),
            "error": self._refuse,
        }

    def _message(self, message: Message) -> None:
        data = message.data.strip()
        if not data or data.startswith("[DONE]"):
            return
        event = decode_or(data, None)
        if isinstance(event, dict):
            self._event(event, name=message.event)
        elif message.event == "error":
            self._refuse(data)
        elif message.event == "message" or message.event.startswith("response."):
            self._garbage()

    def _tail(self, tail: Message) -> None:
        super()._tail(tail)
        self._refuse_body(decode_or(tail.data, None), "a response")

    def _event(self, event: dict[str, Any], *, name: str) -> None:
        kind = string(event.get("type")) or name
        if handler := self._handlers.get(kind):
            handler(event)
            return
        whole = event.get("object") == "response"
        response = event if whole else mapping(event.get("response"))
        end = kind.removeprefix("response.")
        if end == "message" and not whole:
            end = ""  # an event without a type ends nothing
        if response or (end in _ENDS and end != kind):
            beside = {} if whole else {k: v for k, v in event.items() if k != "response"}
            self._response(response, end=end, beside=beside)
        elif event.get("error") and kind == "message":
            self._refuse(event)
        elif kind != "message":
            self._items.other(event, name=kind)

    def _response(self, response: dict[str, Any], *, end: str, beside: dict[str, Any]) -> None:
        """Handle a response object; it ends the stream if the event or its status does.

        `beside` has the other members of the event.
        """
        if self.model is None or self.upstream_id is None:
            self.model = self.model or short(response.get("model"))
            self.upstream_id = self.upstream_id or short(response.get("id"))
        self._constants |= {n: v for n in _CONSTANTS if (v := short(response.get(n)))}
        if usage := mapping(response.get("usage")):
            self._builder.usage(parse_usage(usage, response.get("service_tier")))
        for verdict in mappings(response.get("content_filters")):
            prompt = verdict.get("source_type") == "prompt"
            categories = mapping(verdict.get("content_filter_results"))
            self._builder.content_filter(0, "prompt" if prompt else "completion", categories)
        moderation = mapping(response.get("moderation"))
        self._builder.content_filter(0, "prompt", mapping(moderation.get("input")))
        self._builder.content_filter(0, "completion", mapping(moderation.get("output")))
        # "message" is the event of a JSON document; OpenRouter and LM Studio end with
        # "done".
        status = string(response.get("status"))
        if end in ("message", "done") or (end == "completed" and status in _ENDS):
            end = status
        details = mapping(response.get("incomplete_details"))
        if end == "completed" and details.get("reason"):
            end = "incomplete"
        if end in _ENDS:
            self._items.end_response(response | self._constants, beside=beside)
            self._end(response, end)

    def _end(self, response: dict[str, Any], end: str) -> None:
        if end == "failed":
            if error := response.get("error"):
                self._refuse({"error": error})
            else:
                self.refused = True
                self._end_with(parse_finish_error("failed", upstream=self._upstream))
        elif end == "cancelled":
            self._builder.finish(0, end, reason="cancelled")
            self._builder.end("cancelled")
        else:
            details = mapping(response.get("incomplete_details"))
            reason = string(details.get("reason")) if end == "incomplete" else end
            requests = self._items.client_requests
            if requests:
                message = (
                    f"the model requests {', '.join(requests)}, which only the client can answer"
                )
                self._builder.notice("client_item", message)
            waits = requests and end == "completed"
            self._builder.finish(0, end, reason="tool_calls" if waits else parse_finish(reason))
            self._complete()

    def _audio(self, event: dict[str, Any]) -> None:
        """Handle audio, which is 16-bit PCM."""
        if data := text_or_none(event.get("delta")):
            self._audio_block = self._builder.media(
                0, "audio/pcm", data=data, block=self._audio_block
            )


def parse_usage(usage: dict[str, Any], service_tier: object = None) -> TokenCounts:
    """Parse a `usage` object; the details are parts of the totals."""
    input_details = mapping(usage.get("input_tokens_details"))
    output_details = mapping(usage.get("output_tokens_details"))
    cost = parse_cost(usage)
    return TokenCounts(
        input_tokens=count(usage.get("input_tokens")),
        output_tokens=count(usage.get("output_tokens")),
        total_tokens=count(usage.get("total_tokens")),
        cached_input_tokens=count(input_details.get("cached_tokens")),
        cache_write_tokens=count(input_details.get("cache_write_tokens")),
        reasoning_tokens=count(output_details.get("reasoning_tokens")),
        service_tier=parse_service_tier(service_tier),
        cost=cost,
        cost_from=None if cost is None else "provider",
    )
