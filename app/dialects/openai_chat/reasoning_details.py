"""`reasoning_details`: OpenRouter's format for reasoning and its signatures."""

from collections.abc import Iterable
from typing import Any, Final

_TEXTS: Final = ("text", "summary", "data", "signature")


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


def join_details(details: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the pieces of details: those in a row with one `index` and one type."""
    joined: list[dict[str, Any]] = []
    pieces: list[dict[str, list[str]]] = []
    for detail in details:
        key = (detail.get("index"), detail.get("type"))
        last = joined[-1] if joined else {}
        if key[0] is None or key != (last.get("index"), last.get("type")):
            joined.append({})
            pieces.append({})
        for name, value in detail.items():
            if name in _TEXTS and isinstance(value, str):
                pieces[-1].setdefault(name, []).append(value)
            elif value is not None:
                joined[-1][name] = value
    return [
        {**detail, **{name: "".join(texts) for name, texts in found.items()}}
        for detail, found in zip(joined, pieces, strict=True)
    ]
