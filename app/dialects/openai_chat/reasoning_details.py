"""`reasoning_details`: reasoning and its proofs, as OpenRouter and its clients have them."""

from typing import Any


def render_text_detail(text: str, *, signature: str | None, format: str | None) -> dict[str, Any]:
    """Return the detail for a text, and for its signature where it has one.

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
    """Return the detail for reasoning that only its provider can read."""
    return {"type": "reasoning.encrypted", "data": data, **({"format": format} if format else {})}
