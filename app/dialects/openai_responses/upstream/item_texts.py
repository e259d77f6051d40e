"""Output items as far as they were told, and the wholes that come after their pieces.

A whole, which may be of a text or of an item, is the end of what was told if it begins with
it. To find that out costs in proportion to the whole, and not to all that was told.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...reading.json_values import mappings, string


@dataclass(slots=True)
class Text:
    """A text that comes in pieces, or in one, or both."""

    pieces: list[str] = field(default_factory=list)
    block: int | None = None
    disputed: bool = False
    """Whether a whole contradicted the deltas; then the deltas stand."""
    whole: str | None = None
    """What it says, where that came under other indexes."""

    @property
    def said(self) -> str:
        return "".join(self.pieces) if self.whole is None else self.whole


@dataclass(slots=True)
class Item:
    number: int
    """Of the item among all, in the order in which they began."""
    type: str
    call_id: str = ""
    name: str = ""
    phase: str = ""
    """What is to be told of a message before its text."""
    namespace: str = ""
    hosted: bool = False
    """Whether it is a tool that the provider runs itself."""
    done: bool = False
    matched: bool = False
    """Whether the list at the end of the response has it."""
    block: int | None = None
    texts: dict[str, dict[int, Text]] = field(default_factory=dict)
    """By kind and index."""
    loose: dict[str, dict[int, Text]] = field(default_factory=dict)
    """The texts of which pieces were told and no whole has come yet, by kind and index."""

    def said(self, kind: str) -> str:
        """Return what all texts of a kind say so far."""
        return "".join(piece for text in self.told(kind).values() for piece in text.pieces)

    def told(self, kind: str) -> dict[int, Text]:
        """Return the texts of a kind that have pieces, by index."""
        return {index: text for index, text in self.texts.get(kind, {}).items() if text.pieces}


def join(texts: Iterable[Text], whole: str) -> str | None:
    """Return the texts joined; None if they are too long to be a part of `whole`."""
    pieces: list[str] = []
    left = 4 * len(whole)  # a text has a character, and halves of characters count two
    for text in texts:
        left -= 1
        for piece in text.pieces:
            pieces.append(piece)
            left -= max(1, len(piece))
            if left < 0:
                return None
    return "".join(pieces)


def find_rest(told: str, whole: str) -> str | None:
    """Return the rest of a whole text after the part already emitted; None if they contradict."""
    if told == whole:
        return ""
    # By UTF-16 units: a delta may end in half a character.
    had, has = (t.encode("utf-16-le", "surrogatepass") for t in (told, whole))
    if not has.startswith(had):
        return None
    return has[len(had) :].decode("utf-16-le", "surrogatepass")


def read_part(part: dict[str, Any]) -> tuple[str, str]:
    """Return the kind of a whole part and what it says."""
    match part.get("type"):
        case "refusal":
            return "refusal", string(part.get("refusal"))
        case "output_text":
            return "text", string(part.get("text"))
        case _:  # parts of a summary among them, which some hosts give no type
            return "other", string(part.get("text"))


def read_texts(given: dict[str, Any]) -> dict[str, str]:
    """Return what a whole item says, by kind."""
    match given.get("type"):
        case "function_call" | "custom_tool_call":
            return {"call": string(given.get("arguments")) or string(given.get("input"))}
        case "message":
            parts = [read_part(part) for part in mappings(given.get("content"))]
            kinds = ("text", "refusal")
            return {kind: "".join(said for of, said in parts if of == kind) for kind in kinds}
        case "reasoning":
            names = {"reasoning": "content", "summary": "summary"}
            return {
                kind: "".join(string(part.get("text")) for part in mappings(given.get(name)))
                for kind, name in names.items()
            }
        case _:
            return {}


def is_end_of(item: Item, given: dict[str, Any], kind: str, whole: str) -> bool:
    """Return whether a whole item, with another index, completes an item that has begun."""
    if kind == "call":
        call_id = string(given.get("call_id"))
        if item.call_id and call_id:
            return item.call_id == call_id
        if item.name != string(given.get("name")):
            return False
    told = join(item.texts[kind].values(), whole)
    return bool(told) and find_rest(told or "", whole) is not None


class Left:
    """The items that the list at the end of a response did not name yet."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._left: dict[tuple[str, str | None], deque[Item]] = {}
        """In their order, by type and the id of their call, and by type alone."""
        for item in items:
            for key in ((item.type, item.call_id), (item.type, None)):
                self._left.setdefault(key, deque()).append(item)

    def take(self, kind: str, call_id: str) -> Item | None:
        """Take the item that the list names: a call by its id, else the next of its type."""
        keys = [(kind, call_id), (kind, "")] if call_id else [(kind, None)]
        found = [item for item in map(self._next, keys) if item is not None]
        item = min(found, key=lambda item: item.number, default=None)
        if item is not None:
            item.matched = True
        return item

    def _next(self, key: tuple[str, str | None]) -> Item | None:
        items = self._left.get(key, deque())
        while items and items[0].matched:
            items.popleft()
        return items[0] if items else None
