"""The output items of a Responses stream, from their events to the shape.

An item is known by its `output_index`, a text in it by its own index besides: GitHub
Copilot gives an item another id with every event [openai-responses--id-rotation-copilot].

What was told cannot be taken back. So a whole text that comes after its deltas (`.done`,
the item, the response) adds what they lack; where it contradicts them a notice says so.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from app.dialects.bounds import ENTRY
from app.dialects.openai_responses.tools import (
    is_provider_tool,
    name_tool,
    read_citation,
    read_image,
    read_values,
)
from app.dialects.shape import Shape
from app.dialects.untyped import count, mapping, mappings, string

ENCRYPTED: Final = "openai"
"""The format of encrypted reasoning at the end of its block."""
REASONING: Final = "openai.reasoning"
"""The format of the `opaque` that a reasoning item without any text is."""
COMPACTION: Final = "openai.compaction"
"""The format of the `opaque` that stands for the conversation before it."""
PHASE: Final = "openai.phase"
"""The format of the `opaque` that says whether what stands before it was commentary."""
CUSTOM: Final = "openai.custom_tool_call"
"""The format of the `opaque` of a call whose arguments are any text."""

_CALLS: Final = ("function_call", "custom_tool_call")


@dataclass(slots=True)
class Text:
    """A text that comes in pieces, or in one, or both."""

    pieces: list[str] = field(default_factory=list)
    block: int | None = None
    disputed: bool = False
    """Whether a whole contradicted the deltas; then the deltas stand."""


@dataclass(slots=True)
class Item:
    number: int
    """Of the item among all, in the order in which they began."""
    type: str
    call_id: str = ""
    name: str = ""
    hosted: bool = False
    """Whether it is a tool that the provider runs itself."""
    done: bool = False
    matched: bool = False
    """Whether the list at the end of the response has it."""
    block: int | None = None
    texts: dict[tuple[str, int], Text] = field(default_factory=dict)

    def said(self, kind: str) -> str:
        """Give what all texts of a kind say so far."""
        texts = (text for (of, _), text in self.texts.items() if of == kind)
        return "".join(piece for text in texts for piece in text.pieces)


class Items:
    """Takes the events of one stream that speak of items."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._all: list[Item] = []
        self._at: dict[int, Item] = {}
        self._latest = 0
        """The index of the item that was added last: some hosts give texts no index."""
        self._writing: Text | None = None
        """The text whose block is open, unless something else closed it."""
        self._writers: dict[str, Callable[[int, str], None]] = {
            "text": shape.text,
            "refusal": shape.refusal,
            "reasoning": shape.reasoning,
            "summary": shape.reasoning,
        }

    def add(self, event: dict[str, Any]) -> None:
        """Take `response.output_item.added`."""
        given = mapping(event.get("item"))
        item = self._find(event, given, new=True)
        self._latest = self._place(event)
        # Perplexity so announces a search of its own, which is another item when it is done.
        self._tell(item, given, begin=given.get("status") != "completed")

    def finish(self, event: dict[str, Any]) -> None:
        """Take `response.output_item.done`."""
        given = mapping(event.get("item"))
        self._settle(self._find(event, given), given)

    def finish_all(self, output: object) -> None:
        """Take the `output` of a response that ended: what came before it is not repeated."""
        left = _Left(self._all)
        for given in mappings(output):
            kind = string(given.get("type"))
            item = left.take(kind, string(given.get("call_id"))) or self._begin(kind)
            self._settle(item, given)

    def delta(self, event: dict[str, Any], kind: str) -> None:
        """Take a piece of a text."""
        item = self._typed(event, kind)
        piece = string(event.get("delta"))
        self._write(item, kind, _index(event, kind), piece)
        if piece and (logprobs := event.get("logprobs")):
            self._shape.logprobs(0, mappings(logprobs))

    def whole(self, event: dict[str, Any], kind: str) -> None:
        """Take a whole text, whose pieces may have come before."""
        item, index = self._typed(event, kind), _index(event, kind)
        whole = string(event.get("text")) or string(event.get("refusal"))
        if kind == "reasoning" and self._text(item, kind, index).pieces:
            return  # it may be one of several parts, which the item has all of
        self._compare(item, kind, index, whole, logprobs=event.get("logprobs"))

    def part(self, event: dict[str, Any]) -> None:
        """Take `response.content_part.done`."""
        part = mapping(event.get("part"))
        if part.get("type") in ("output_text", "refusal"):
            kind = "text" if part["type"] == "output_text" else "refusal"
            self._content(self._typed(event, kind), _index(event, kind), part)

    def annotation(self, event: dict[str, Any]) -> None:
        """Take `response.output_text.annotation.added`."""
        text = self._text(self._typed(event, "text"), "text", _index(event, "text"))
        self._cite(text, mapping(event.get("annotation")))

    def arguments(self, event: dict[str, Any]) -> None:
        """Take a piece of a call's arguments."""
        self._argue(self._typed(event, "call"), string(event.get("delta")))

    def all_arguments(self, event: dict[str, Any]) -> None:
        """Take a call's whole arguments."""
        whole = string(event.get("arguments")) or string(event.get("input"))
        self._compare(self._typed(event, "call"), "call", 0, whole)

    def code(self, event: dict[str, Any]) -> None:
        """Take a piece of what the provider's own tool is given."""
        self._type(self._typed(event, "input"), string(event.get("delta")))

    def _place(self, event: dict[str, Any]) -> int:
        """Give the index of the item that an event speaks of."""
        index = count(event.get("output_index"))
        return self._latest if index is None else index

    def _find(self, event: dict[str, Any], given: dict[str, Any], *, new: bool = False) -> Item:
        """Give the item at an index; what has another type, or begins after an end, is new."""
        index = self._place(event)
        kind, item = string(given.get("type")), self._at.get(index)
        if item is None or item.type != kind or (new and item.done):
            item = self._at[index] = self._begin(kind)
        return item

    def _typed(self, event: dict[str, Any], kind: str) -> Item:
        """Give the item that an event speaks of without showing it."""
        index = self._place(event)
        item = self._at.get(index)
        if item is None or not _may_have(item, kind):
            item = self._at[index] = self._begin(_TYPES.get(kind, ""))
        return item

    def _begin(self, kind: str) -> Item:
        item = Item(len(self._all), kind)
        self._all.append(item)
        self._shape.hold(3 * ENTRY)
        return item

    def _text(self, item: Item, kind: str, index: int) -> Text:
        text = item.texts.get((kind, index))
        if text is None:
            self._shape.hold(2 * ENTRY)
            text = item.texts[kind, index] = Text()
        return text

    def _type(self, item: Item, piece: str) -> None:
        """Keep a piece of what a tool of the provider's is given: it is told whole."""
        if piece:
            self._shape.hold(len(piece) + 64)
            self._text(item, "input", 0).pieces.append(piece)

    def _tell(self, item: Item, given: dict[str, Any], *, begin: bool = True) -> None:
        """Tell that a tool is called by the provider, or (with `begin`) for the caller."""
        if not item.name:
            item.name, item.call_id = string(given.get("name")), string(given.get("call_id"))
            self._shape.hold(len(item.name) + len(item.call_id))
        if is_provider_tool(given) and not item.done:
            item.hosted = True
        if item.hosted and item.block is None:
            item.block = self._shape.provider_tool(0, name_tool(given))
        elif begin and item.type in _CALLS and not item.hosted and item.block is None:
            self._argue(item, "")

    def _settle(self, item: Item, given: dict[str, Any]) -> None:
        """Take a whole item, once."""
        if item.done:
            return
        self._tell(item, given)
        if item.hosted:
            self._hosted(item, given)
        elif item.type in _CALLS:
            whole = string(given.get("arguments")) or string(given.get("input"))
            self._compare(item, "call", 0, whole)
            self._shape.end_tool_call(0, item.block)
        elif item.type == "message":
            self._message(item, given)
        elif item.type == "reasoning":
            self._reasoning(item, given)
        elif item.type == "compaction":
            self._shape.opaque(0, COMPACTION, string(given.get("encrypted_content")))
        item.done = True

    def _message(self, item: Item, given: dict[str, Any]) -> None:
        for index, part in enumerate(mappings(given.get("content"))):
            self._content(item, index, part)
        self._close(item)
        if any(text.pieces for text in item.texts.values()):
            self._shape.opaque(0, PHASE, string(given.get("phase")))

    def _content(self, item: Item, index: int, part: dict[str, Any]) -> None:
        """Take a whole part of a message."""
        if part.get("type") == "refusal":
            self._compare(item, "refusal", index, string(part.get("refusal")))
        elif part.get("type") == "output_text":
            logprobs = part.get("logprobs")
            self._compare(item, "text", index, string(part.get("text")), logprobs=logprobs)
            for annotation in mappings(part.get("annotations")):
                self._cite(self._text(item, "text", index), annotation)

    def _reasoning(self, item: Item, given: dict[str, Any]) -> None:
        content = [string(part.get("text")) for part in mappings(given.get("content"))]
        summary = [string(part.get("text")) for part in mappings(given.get("summary"))]
        # Some hosts send the same under one name and list it under the other.
        if "".join(content) != item.said("summary"):
            self._compare(item, "reasoning", 0, "".join(content))
        if "".join(summary) != item.said("reasoning"):
            for index, text in enumerate(summary):
                self._compare(item, "summary", index, text)
        # That of `output_item.added` is not whole [openai-responses/reasoning-summary-tool].
        encrypted = string(given.get("encrypted_content"))
        if self._is_writing(item):
            self._shape.sign(0, "encrypted", encrypted, format=ENCRYPTED)
        else:
            self._shape.opaque(0, REASONING, encrypted)
        self._close(item)

    def _hosted(self, item: Item, given: dict[str, Any]) -> None:
        """Tell what the provider's own tool was given, and what it gave."""
        typed = "".join(self._text(item, "input", 0).pieces)
        if values := read_values(given, typed=typed):
            self._shape.provider_tool(0, name_tool(given), block=item.block, **values)
        if image := read_image(given):
            self._shape.end_text(0)
            self._shape.media(0, image[0], data=image[1])

    def _argue(self, item: Item, piece: str) -> None:
        """Write a piece of a call's arguments, or begin the call."""
        if item.hosted:
            self._type(item, piece)
            return
        self._text(item, "call", 0).pieces.append(piece)
        free = item.type == "custom_tool_call"
        begun = item.block is not None
        item.block = self._shape.tool_call(
            0,
            index=item.number,
            id="" if begun else item.call_id,
            name="" if begun else item.name,
            arguments=piece,
            free=free,
        )
        if free and not begun and item.block is not None:
            self._shape.opaque(0, CUSTOM, item.call_id or "1", block=item.block)

    def _write(self, item: Item, kind: str, index: int, piece: str) -> None:
        if kind == "call":
            self._argue(item, piece)
            return
        if not piece:
            return
        text = self._text(item, kind, index)
        if text is not self._writing:
            self._shape.end_text(0)
            self._writing = text
        text.pieces.append(piece)
        self._writers[kind](0, piece)
        if text.block is None:
            text.block = self._shape.text_block(0)

    def _compare(
        self, item: Item, kind: str, index: int, whole: str, *, logprobs: object = None
    ) -> None:
        """Add what a whole text has beyond its deltas."""
        if not whole or item.hosted:
            return
        text = self._text(item, kind, index)
        if text.disputed:
            return
        sent = "".join(text.pieces)
        if sent == whole:
            return
        # By UTF-16 units: a delta may end in half a character.
        had, has = (t.encode("utf-16-le", "surrogatepass") for t in (sent, whole))
        if has.startswith(had):
            self._write(item, kind, index, has[len(had) :].decode("utf-16-le", "surrogatepass"))
            if not sent:
                self._shape.logprobs(0, mappings(logprobs))
        else:
            text.disputed = True
            what = "tool call" if kind == "call" else kind
            told = f"the whole {what} differs from the pieces that the upstream sent of it"
            self._shape.notice("upstream_contradiction", told)

    def _cite(self, text: Text, annotation: dict[str, Any]) -> None:
        self._shape.source(0, **read_citation(annotation), block=text.block)

    def _is_writing(self, item: Item) -> bool:
        """Whether the block of one of the item's texts is open."""
        return any(text is self._writing for text in item.texts.values())

    def _close(self, item: Item) -> None:
        if self._is_writing(item):
            self._shape.end_text(0)
            self._writing = None


class _Left:
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


_TYPES: Final = {
    "text": "message",
    "refusal": "message",
    "reasoning": "reasoning",
    "summary": "reasoning",
    "call": "function_call",
}
"""The type of an item that nothing but its texts is known of."""


def _may_have(item: Item, kind: str) -> bool:
    """Whether an item can have a text of a kind."""
    if kind == "call":
        return item.type in _CALLS or item.hosted
    return kind == "input" or item.type == _TYPES[kind]


def _index(event: dict[str, Any], kind: str) -> int:
    """Give the index of a text in its item.

    All `reasoning_text` is one: vLLM counts its parts by token.
    """
    if kind == "reasoning":
        return 0
    return count(event.get("summary_index" if kind == "summary" else "content_index")) or 0
