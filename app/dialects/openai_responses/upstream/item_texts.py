"""State of output items, and comparison of complete texts with their deltas.

A complete text or item matches the deltas if it begins with them. The comparison costs time
in proportion to the complete text, not to all deltas.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...reading.json_values import mappings, string


@dataclass(slots=True)
class ItemText:
    """A text that arrives as deltas, complete, or both."""

    pieces: list[str] = field(default_factory=list)
    block: int | None = None
    disputed: bool = False
    """Whether a complete text contradicted the deltas, which then remain."""
    whole: str | None = None
    """The complete text, if its deltas had other indexes."""

    @property
    def joined(self) -> str:
        return "".join(self.pieces) if self.whole is None else self.whole


@dataclass(slots=True)
class OutputItem:
    number: int
    """The position among all items, by start."""
    type: str
    call_id: str = ""
    name: str = ""
    phase: str = ""
    """The phase of a message, emitted before its text."""
    namespace: str = ""
    hosted: bool = False
    """Whether the provider executes the tool."""
    done: bool = False
    matched: bool = False
    """Whether the response's final list contains it."""
    block: int | None = None
    members: dict[str, Any] = field(default_factory=dict)
    """The members that no other event has, for clients of the same dialect."""
    recorded: bool = False
    """Whether its start is recorded for them."""
    texts: dict[str, dict[int, ItemText]] = field(default_factory=dict)
    """By kind and index."""
    unmatched: dict[str, dict[int, ItemText]] = field(default_factory=dict)
    """Texts with deltas whose complete text has not arrived, by kind and index."""

    def joined(self, kind: str) -> str:
        """Return the deltas so far of all texts of a kind, joined."""
        return "".join(piece for text in self.written(kind).values() for piece in text.pieces)

    def written(self, kind: str) -> dict[int, ItemText]:
        """Return the texts of a kind that have deltas, by index."""
        return {index: text for index, text in self.texts.get(kind, {}).items() if text.pieces}


def join(texts: Iterable[ItemText], whole: str) -> str | None:
    """Return the texts joined; None if they are too long to be a part of `whole`."""
    pieces: list[str] = []
    remaining = 4 * len(whole)  # at least one character per text; surrogate halves count twice
    for text in texts:
        remaining -= 1
        for piece in text.pieces:
            pieces.append(piece)
            remaining -= max(1, len(piece))
            if remaining < 0:
                return None
    return "".join(pieces)


def find_remainder(written: str, whole: str) -> str | None:
    """Return the rest of a complete text after the emitted part; None if they contradict."""
    if written == whole:
        return ""
    # By UTF-16 units, since a delta may end within a surrogate pair.
    had, has = (t.encode("utf-16-le", "surrogatepass") for t in (written, whole))
    if not has.startswith(had):
        return None
    return has[len(had) :].decode("utf-16-le", "surrogatepass")


def read_part(part: dict[str, Any]) -> tuple[str, str]:
    """Return the kind and the text of a complete part."""
    match part.get("type"):
        case "refusal":
            return "refusal", string(part.get("refusal"))
        case "output_text":
            return "text", string(part.get("text"))
        case _:  # including summary parts, which some hosts send without a type
            return "other", string(part.get("text"))


def read_texts(raw: dict[str, Any]) -> dict[str, str]:
    """Return the texts of a complete item, by kind."""
    match raw.get("type"):
        case "function_call" | "custom_tool_call":
            return {"call": string(raw.get("arguments")) or string(raw.get("input"))}
        case "message":
            parts = [read_part(part) for part in mappings(raw.get("content"))]
            kinds = ("text", "refusal")
            return {kind: "".join(text for of, text in parts if of == kind) for kind in kinds}
        case "reasoning":
            names = {"reasoning": "content", "summary": "summary"}
            return {
                kind: "".join(string(part.get("text")) for part in mappings(raw.get(name)))
                for kind, name in names.items()
            }
        case _:
            return {}


def is_end_of(item: OutputItem, raw: dict[str, Any], kind: str, whole: str) -> bool:
    """Return whether a complete item with another index completes a started item."""
    if kind == "call":
        call_id = string(raw.get("call_id"))
        if item.call_id and call_id:
            return item.call_id == call_id
        if item.name != string(raw.get("name")):
            return False
    written = join(item.texts[kind].values(), whole)
    return bool(written) and find_remainder(written or "", whole) is not None


class UnmatchedItems:
    """The items that the response's final list has not matched yet."""

    def __init__(self, items: Iterable[OutputItem]) -> None:
        self._unmatched: dict[tuple[str, str | None], deque[OutputItem]] = {}
        """In order, by type and call id, and by type alone."""
        for item in items:
            for key in ((item.type, item.call_id), (item.type, None)):
                self._unmatched.setdefault(key, deque()).append(item)

    def take(self, kind: str, call_id: str) -> OutputItem | None:
        """Return the item for a list entry: a call by its id, otherwise the next of its type."""
        keys = [(kind, call_id), (kind, "")] if call_id else [(kind, None)]
        found = [item for item in map(self._next, keys) if item is not None]
        item = min(found, key=lambda item: item.number, default=None)
        if item is not None:
            item.matched = True
        return item

    def _next(self, key: tuple[str, str | None]) -> OutputItem | None:
        items = self._unmatched.get(key, deque())
        while items and items[0].matched:
            items.popleft()
        return items[0] if items else None
