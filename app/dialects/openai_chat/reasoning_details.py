"""`reasoning_details`, in which OpenRouter and its clients say what proves reasoning."""

from typing import Any


def render_text_detail(text: str, *, signature: str | None, format: str | None) -> dict[str, Any]:
    """Return the detail for a text, and for its signature where it has one."""
    detail: dict[str, Any] = {"type": "reasoning.text", "text": text}
    if signature:
        detail["signature"] = signature
    if format:
        detail["format"] = format
    return detail


def render_encrypted_detail(data: str, *, format: str | None) -> dict[str, Any]:
    """Return the detail for reasoning that only its provider can read."""
    return {"type": "reasoning.encrypted", "data": data, **({"format": format} if format else {})}
