"""Parser of the Interactions API: server-sent events about the steps of an interaction.

An answer is complete with `interaction.completed`, which has its status and usage, and never
without it; the `[DONE]` after it is redundant. An `error` ends it. Unknown events are ignored.
Source: "Streaming interactions" of the Gemini API's documentation, schema of 2026-05-20.
"""

from typing import Any

from .....events import TokenCounts
from .....framing.sse import Message
from ....reading.answer_parser import AnswerParser
from ....reading.billing import parse_service_tier
from ....reading.json_values import count, decode_or, mapping, mappings, short, string
from ....reading.provider_errors import parse_finish_error
from ..parser import MODALITIES, add_tokens
from .steps import Steps

_NO_INDEX = -1


class Parser(AnswerParser):
    """See `AnswerParser`."""

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        super().__init__(upstream=upstream, choices=choices)
        self._steps = Steps(self._builder)

    def _message(self, message: Message) -> None:
        data = message.data.strip()
        if not data or data.startswith("[DONE]"):
            return
        event = decode_or(data, None)
        if isinstance(event, dict):
            self._event(event, string(event.get("event_type")) or message.event)
        elif message.event == "error":
            self._refuse(data)
        elif message.event == "message" or message.event.startswith(("interaction.", "step.")):
            self._garbage()

    def _tail(self, tail: Message) -> None:
        super()._tail(tail)
        self._refuse_body(decode_or(tail.data, None), "an interaction")

    def _event(self, event: dict[str, Any], kind: str) -> None:
        index = count(event.get("index"))
        index = _NO_INDEX if index is None else index
        match kind:
            case "step.delta":
                self._steps.delta(index, mapping(event.get("delta")))
                self._count_early(mapping(event.get("metadata")).get("total_usage"))
            case "step.start":
                self._steps.start(index, mapping(event.get("step")))
            case "step.stop":
                self._steps.stop(index)
                self._count_early(event.get("usage"))
            case "interaction.created":
                self._identify(mapping(event.get("interaction")))
                self._builder.choice(0)
            case "interaction.status_update":
                self._count_early(event.get("usage"))
            case "interaction.completed":
                self._end(mapping(event.get("interaction")))
            case "error":
                self._refuse(event)
            case "message" if event.get("error"):
                self._refuse(event)
            case "message" if event.get("object") == "interaction":
                self._fail("upstream_invalid_response", "answered with JSON instead of a stream")

    def _identify(self, interaction: dict[str, Any]) -> None:
        # An interaction that is not stored has the id "".
        self.upstream_id = self.upstream_id or short(interaction.get("id"))
        self.model = self.model or short(interaction.get("model"))

    def _count_early(self, usage: object) -> None:
        """Handle the usage so far."""
        if isinstance(usage, dict):
            self._builder.usage(parse_usage(usage))
            self.counted_early = True

    def _end(self, interaction: dict[str, Any]) -> None:
        self._identify(interaction)
        steps = self._steps
        if not steps.begun:  # some streams have all steps only here
            for index, step in enumerate(mappings(interaction.get("steps"))):
                steps.start(index, step)
                steps.stop(index)
        steps.finish()
        if isinstance(usage := interaction.get("usage"), dict):
            self._builder.usage(parse_usage(usage, interaction.get("service_tier")))
            self.counted_early = False
        status = string(interaction.get("status"))
        if status == "failed":
            if errors := mappings(interaction.get("errors")):
                self._refuse({"error": errors[0]})
            else:
                self.refused = True
                self._end_with(parse_finish_error(status, upstream=self._upstream))
        elif status == "cancelled":
            self._builder.finish(0, status, reason="cancelled")
            self._builder.end("cancelled")
        else:
            self._builder.finish(0, status or None)
            self._complete()


def parse_usage(usage: dict[str, Any], service_tier: object = None) -> TokenCounts:
    """Parse a `usage` object; tool results and thoughts are not in the input and output."""
    prompt, tools, generated, thoughts, total = (
        count(usage.get(f"total_{name}tokens"))
        for name in ("input_", "tool_use_", "output_", "thought_", "")
    )
    given, written = add_tokens(prompt, tools, generated, thoughts, total)
    return TokenCounts(
        input_tokens=given,
        output_tokens=written,
        total_tokens=total,
        cached_input_tokens=count(usage.get("total_cached_tokens")),
        reasoning_tokens=thoughts,
        audio_input_tokens=_audio(usage.get("input_tokens_by_modality")),
        audio_output_tokens=_audio(usage.get("output_tokens_by_modality")),
        service_tier=parse_service_tier(service_tier),
    )


def _audio(details: object) -> int | None:
    """Return the audio tokens of a prompt or an answer."""
    rows = mappings(details)[:MODALITIES]
    return sum(count(r.get("tokens")) or 0 for r in rows if r.get("modality") == "audio") or None
