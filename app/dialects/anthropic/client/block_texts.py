"""Texts that replace Anthropic's own blocks for other providers.

It is the block's kind and whatever text it has, shortened: the results of a search are
their titles and URLs, since Anthropic encrypts the rest.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

_TELLING: Final = (
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
"""The members of blocks that say something, in the order in which they are told."""

_MAX_GIST: Final = 2_000
"""Characters of the text of one block."""


def render_gist(kind: str, block: dict[str, Any]) -> str:
    """Return the text that stands for a block."""
    pieces: list[str] = []
    size = 0
    for piece in _list_texts(block):
        pieces.append(piece[:_MAX_GIST])
        size += len(piece)
        if size > _MAX_GIST:
            break
    if isinstance(block.get("input"), dict):
        pieces.append(msgspec.json.encode(block["input"]).decode())
    said = "\n".join(pieces)[:_MAX_GIST]
    return f"[{kind[:60]}: {said}]" if said else f"[{kind[:60]}]"


def _list_texts(value: object) -> Iterator[str]:
    """List the texts of a block, and of the blocks in it, without those of encoded data."""
    match value:
        case str() if value:
            yield value
        case list():
            for item in value:
                yield from _list_texts(item)
        case dict():
            for name in _TELLING:
                if name in value and not (name == "data" and value.get("type") == "base64"):
                    yield from _list_texts(value[name])
