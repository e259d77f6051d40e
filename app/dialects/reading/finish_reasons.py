"""Finish reasons: the values of all providers, mapped to the relay's own."""

from typing import Final

from ...events import FinishReason

_RAW: Final[dict[FinishReason, tuple[str, ...]]] = {
    "stop": (
        "stop",
        "end_turn",
        "stop_sequence",
        "COMPLETE",
        "completed",
        "eos",
        "eos_token",
    ),
    "length": (
        "length",
        "max_tokens",
        "max_output_tokens",
        "model_length",
        "model_context_window_exceeded",
        "incomplete",
        "budget_exceeded",
    ),
    "tool_calls": ("tool_calls", "function_call", "tool_use", "TOOL_CALL", "requires_action"),
    "content_filter": (
        "content_filter",
        "content_filtered",
        "guardrail_intervened",
        "sensitive",
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_OTHER",
        "IMAGE_RECITATION",
        "NO_IMAGE",
        "MODEL_ARMOR",
        "ESCALATION",
        "ERROR_TOXIC",
    ),
    "refusal": ("refusal",),
    "pause": ("pause_turn", "compaction", "CONTINUATION", "requires_continuation"),
    "error": (
        "error",
        "TIMEOUT",
        "failed",
        "insufficient_system_resource",
        "network_error",
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "malformed_model_output",
        "malformed_tool_use",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
        "ERROR_LIMIT",
    ),
}
_REASONS: Final = {raw.lower(): reason for reason, raws in _RAW.items() for raw in raws}


def parse_finish(raw: str) -> FinishReason:
    """Map a provider's finish reason in any case; an unlisted one is "unknown", never "stop".

    Gemini's Chat Completions route sends "content_filter: PROHIBITED_CONTENT".
    """
    general, _, special = raw.lower().partition(": ")
    return _REASONS.get(special) or _REASONS.get(general, "unknown")
