"""Texts that replace Anthropic's own blocks for other providers.

A text has the block's type and its own texts, shortened: search results are reduced to titles
and URLs, since Anthropic encrypts the rest.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

_TEXT_FIELDS: Final = (
    "title",
    "name",
    "tool_name",
    "url",
    "source",
    "file_id",
    "context",
    "text",
    "data",
    "stdout",
    "stderr",
    "error_code",
    "content",
)
"""The fields of blocks with readable text, in the order of the result."""

_MAX_TEXT: Final = 2_000
"""Characters of the text of one block."""


def render_text(kind: str, block: dict[str, Any]) -> str:
    """Return the text that replaces a block."""
    pieces: list[str] = []
    size = 0
    for piece in _list_texts(block):
        pieces.append(piece[:_MAX_TEXT])
        size += len(piece)
        if size > _MAX_TEXT:
            break
    if isinstance(block.get("input"), dict):
        pieces.append(msgspec.json.encode(block["input"]).decode())
    text = "\n".join(pieces)[:_MAX_TEXT]
    return f"[{kind[:60]}: {text}]" if text else f"[{kind[:60]}]"


def _list_texts(value: object) -> Iterator[str]:
    """List the texts of a block and of its inner blocks, without encoded data."""
    match value:
        case str() if value:
            yield value
        case list():
            for item in value:
                yield from _list_texts(item)
        case dict():
            for name in _TEXT_FIELDS:
                if name in value and not (name == "data" and value.get("type") == "base64"):
                    yield from _list_texts(value[name])
