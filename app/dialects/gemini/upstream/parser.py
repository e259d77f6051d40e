"""Parser of Gemini's `streamGenerateContent`, of the Gemini API and Vertex AI.

A stream of events has no end marker: it is complete at the end of input if every candidate
seen has a finish reason and nothing followed. An array also needs its closing bracket. A
blocked prompt is a failure, even after the answer has begun.
"""

from typing import Any

from ....events import TokenCounts
from ....framing.json_array import ELEMENT, END
from ....framing.sse import Message
from ...reading.answer_parser import AnswerParser
from ...reading.billing import parse_service_tier
from ...reading.json_values import count, decode_or, mapping, mappings, short, string
from .candidates import Candidates, parse_ratings

_KNOWN = ("candidates", "promptFeedback", "usageMetadata", "error")

MODALITIES = 16
"""The maximum number of parsed rows of a count; there are five modalities."""


class Parser(AnswerParser):
    """See `AnswerParser`."""

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        super().__init__(upstream=upstream, choices=choices)
        self._candidates = Candidates(self._builder)
        self._in_array = False
        self._torn = False
        """Whether the input ended within a chunk."""

    @property
    def finished(self) -> bool:
        """Whether every requested candidate is certainly finished, and no bracket is open."""
        builder, candidates = self._builder, self._candidates
        if self._in_array or candidates.early or candidates.running:
            return False
        return builder.finished and builder.seen >= self._choices

    def _is_whole(self) -> bool:
        # An empty stream is whole; `_complete` reports that it is empty.
        if not self._builder.seen:
            return not self._in_array
        return self._builder.finished and not self._in_array and not self._torn

    def _message(self, message: Message) -> None:
        self._in_array = message.event == ELEMENT
        data = message.data.strip()
        if message.event == END or not data or data == "[DONE]":
            return
        document = decode_or(data, None)
        if message.event == "error":
            self._refuse(data if document is None else document)
            return
        for chunk in document if isinstance(document, list) else (document,):
            if self._builder.ended:
                return
            if isinstance(chunk, dict):
                self._chunk(chunk)
            elif message.event in ("message", ELEMENT):
                self._garbage()

    def _tail(self, tail: Message) -> None:
        self._in_array = tail.event == ELEMENT
        if self._in_array:
            return
        super()._tail(tail)
        if not self._builder.ended:
            self._other(tail)

    def _other(self, tail: Message) -> None:
        """Handle other input: a partial chunk, or a gateway's {"detail": ...}, which fails."""
        document = decode_or(tail.data, None)
        if document is None:
            self._torn = tail.data.strip() not in ("", "[DONE]")
            return
        document = mapping(document)
        if self._builder.seen:
            return
        if document and document.keys().isdisjoint(_KNOWN):
            self._refuse(document)

    def _chunk(self, chunk: dict[str, Any]) -> None:
        self.model = self.model or short(chunk.get("modelVersion"))
        self.upstream_id = self.upstream_id or short(chunk.get("responseId"))
        self._candidates.feed(chunk.get("candidates"))
        if usage := mapping(chunk.get("usageMetadata")):
            self._builder.usage(parse_usage(usage))
        if chunk.get("error"):
            self._refuse(chunk)
        elif self._candidates.broken:
            message = "sent the arguments of a tool call in an unsupported order"
            self._fail("upstream_invalid_response", message)
        elif feedback := mapping(chunk.get("promptFeedback")):
            self._feedback(feedback)

    def _feedback(self, feedback: dict[str, Any]) -> None:
        """Handle the verdict on the prompt; if it blocks, there is no other answer."""
        verdict = parse_ratings(feedback.get("safetyRatings"))
        reason = string(feedback.get("blockReason"))
        if reason:
            verdict[reason] = {"filtered": True}
        self._builder.content_filter(0, "prompt", verdict)
        if reason and not self._builder.finished:
            self._builder.finish(0, reason, reason="content_filter")
            text = string(feedback.get("blockReasonMessage")) or reason
            self._refuse({"error": {"code": "content_filter", "message": text}})

    def _complete(self) -> None:
        raw, message = self._builder.finish_error, self._candidates.finish_message
        if raw and message:
            self._refuse({"error": {"code": raw, "message": message}})
        else:
            super()._complete()


def parse_usage(usage: dict[str, Any]) -> TokenCounts:
    """Parse `usageMetadata`."""
    prompt, tools, candidates, thoughts, total = (
        count(usage.get(key))
        for key in (
            "promptTokenCount",
            "toolUsePromptTokenCount",
            "candidatesTokenCount",
            "thoughtsTokenCount",
            "totalTokenCount",
        )
    )
    given, generated = add_tokens(prompt, tools, candidates, thoughts, total)
    return TokenCounts(
        input_tokens=given,
        output_tokens=generated,
        total_tokens=total,
        cached_input_tokens=count(usage.get("cachedContentTokenCount")),
        reasoning_tokens=thoughts,
        audio_input_tokens=_audio(usage.get("promptTokensDetails")),
        audio_output_tokens=_audio(usage.get("candidatesTokensDetails")),
        service_tier=parse_service_tier(usage.get("serviceTier")),
    )


def add_tokens(
    prompt: int | None,
    tools: int | None,
    candidates: int | None,
    thoughts: int | None,
    total: int | None,
) -> tuple[int | None, int | None]:
    """Return Google's counts as those of input and output.

    Tool results count as additional input, thoughts as additional output, unless the total shows
    that the prompt or the candidates include them.
    """
    both = (tools or 0) + (thoughts or 0)
    extra = both if total is None else total - (prompt or 0) - (candidates or 0)
    tools_inside = extra != both and extra in (0, thoughts)
    thoughts_inside = extra != both and extra in (0, tools)
    return (
        _sum(prompt, None if tools_inside else tools),
        _sum(candidates, None if thoughts_inside else thoughts),
    )


def _audio(details: object) -> int | None:
    """Return the audio tokens of a prompt or an answer."""
    rows = mappings(details)[:MODALITIES]
    return _sum(*(count(r.get("tokenCount")) for r in rows if r.get("modality") == "AUDIO")) or None


def _sum(*counts: int | None) -> int | None:
    known = [number for number in counts if number is not None]
    return sum(known) if known else None
