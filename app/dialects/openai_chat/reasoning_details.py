"""`reasoning_details`: OpenRouter's format for reasoning and its signatures."""

from typing import Any


def render_text_detail(text: str, *, signature: str | None, format: str | None) -> dict[str, Any]:
    """Return the detail for a reasoning text and its signature, if any.

    The formats of Responses APIs (`openai-responses-v1`, `xai-responses-v1`) have summaries.
    """
    if format and format.endswith("-responses-v1") and not signature:
        return {"type": "reasoning.summary", "summary": text, "format": format}
    detail: dict[str, Any] = {"type": "reasoning.text", "text": text}
    if signature:
        detail["signature"] = signature
    if format:
        detail["format"] = format
    return detail


def render_encrypted_detail(data: str, *, format: str | None) -> dict[str, Any]:
    """Return the detail for reasoning that is encrypted for its provider."""
    return {"type": "reasoning.encrypted", "data": data, **({"format": format} if format else {})}
