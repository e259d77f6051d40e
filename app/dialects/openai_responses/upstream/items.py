"""Tells the event builder the output items of a Responses stream.

An item is known by its `output_index`, a text in it by its own index besides: GitHub
Copilot gives an item another id with every event [openai-responses--id-rotation-copilot].

What was told cannot be taken back. So a whole text that comes after its deltas (`.done`,
the item, the response) adds what they lack; where it contradicts them a notice says so.

Hosts differ in how they count. vLLM counts on before it ends an item, so that its whole text
stands under the next index, and others count a part of each token. A whole text is told anew
only if it is not what pieces under other indexes have said already.
"""

from collections.abc import Callable
from itertools import product
from typing import Any, Final

import msgspec

from ...proof_formats import (
    OPENAI_COMPACTION,
    OPENAI_CUSTOM_CALL,
    OPENAI_ENCRYPTED,
    OPENAI_ITEM,
    OPENAI_NAMESPACE,
    OPENAI_PHASE,
    OPENAI_REASONING,
)
from ...reading.bounds import ENTRY
from ...reading.event_builder import EventBuilder
from ...reading.json_values import clean, count, mapping, mappings, string
from .item_texts import (
    Item,
    Left,
    Text,
    find_rest,
    is_end_of,
    join,
    read_part,
    read_texts,
)
from .provider_tools import (
    asks_caller,
    is_answer,
    is_provider_tool,
    key_of,
    name_tool,
    read_citation,
    read_image,
    read_values,
)

_CALLS: Final = ("function_call", "custom_tool_call")


class Items:
    """Takes the events of one stream that speak of items."""

    def __init__(self, builder: EventBuilder) -> None:
        self._builder = builder
        self._all: list[Item] = []
        self._at: dict[int, Item] = {}
        self._elsewhere: dict[int, Item] = {}
        """The items whose wholes came under an index that is not theirs, by that index."""
        self._asked: dict[str, str] = {}
        """The types of the items that ask the caller for more, by `key_of`."""
        self._latest = 0
        """The index of the item that was added last: some hosts give texts no index."""
        self._writing: Text | None = None
        """The text whose block is open, unless something else closed it."""
        self._latest_of_kind: dict[str, Item] = {}
        """The last item of which a piece was told, by the kind of its text."""
        self._writers: dict[str, Callable[[int, str], None]] = {
            "text": builder.text,
            "refusal": builder.refusal,
            "reasoning": builder.reasoning,
            "summary": builder.reasoning,
        }

    def add(self, event: dict[str, Any]) -> None:
        """Take `response.output_item.added`."""
        given = mapping(event.get("item"))
        item = self._find(event, given, new=True)
        self._latest = self._place(event)
        self._elsewhere.pop(self._latest, None)
        item.phase = item.phase or string(given.get("phase"))
        # Perplexity so announces a search of its own, which is another item when it is done.
        self._announce_call(item, given, begin=given.get("status") != "completed")

    def finish(self, event: dict[str, Any]) -> None:
        """Take `response.output_item.done`."""
        given = mapping(event.get("item"))
        place, kind = self._place(event), string(given.get("type"))
        found = (self._at.get(place), self._elsewhere.get(place))
        item = next((item for item in found if item is not None and item.type == kind), None)
        self._settle(self._find_ended(item, given) or self._find(event, given), given)

    def finish_all(self, output: object) -> None:
        """Take the `output` of a response that ended: what came before it is not repeated."""
        left = Left(self._all)
        for given in mappings(output):
            kind = string(given.get("type"))
            item = left.take(kind, string(given.get("call_id")))
            item = self._find_ended(item, given) or self._begin(kind)
            item.matched = True
            self._settle(item, given)

    @property
    def asked(self) -> list[str]:
        """What the caller is asked to do that is no tool call, by the types of the items."""
        return sorted({*self._asked.values()})

    def delta(self, event: dict[str, Any], kind: str) -> None:
        """Take a piece of a text."""
        item = self._typed(event, kind)
        piece = string(event.get("delta"))
        self._write(item, kind, _index(event, kind), piece)
        if piece and (logprobs := event.get("logprobs")):
            self._builder.logprobs(0, mappings(logprobs))

    def whole(self, event: dict[str, Any], kind: str) -> None:
        """Take a whole text, whose pieces may have come before."""
        whole = string(event.get("text")) or string(event.get("refusal"))
        item, index = self._owner(event, kind, whole), _index(event, kind)
        if kind == "reasoning" and self._text(item, kind, index).pieces:
            return  # it may be one of several parts, which the item has all of
        self._match(item, kind, index, whole, logprobs=event.get("logprobs"))

    def part(self, event: dict[str, Any]) -> None:
        """Take `response.content_part.done`."""
        part = mapping(event.get("part"))
        if part.get("type") in ("output_text", "refusal"):
            kind, whole = read_part(part)
            item, index = self._owner(event, kind, whole), _index(event, kind)
            self._match(item, kind, index, whole, logprobs=part.get("logprobs"))
            self._cite_all(item, index, part)

    def annotation(self, event: dict[str, Any]) -> None:
        """Take `response.output_text.annotation.added`."""
        text = self._text(self._typed(event, "text"), "text", _index(event, "text"))
        self._cite(text.block, mapping(event.get("annotation")))

    def arguments(self, event: dict[str, Any]) -> None:
        """Take a piece of a call's arguments."""
        self._write_arguments(self._typed(event, "call"), string(event.get("delta")))

    def all_arguments(self, event: dict[str, Any]) -> None:
        """Take a call's whole arguments."""
        whole = string(event.get("arguments")) or string(event.get("input"))
        self._match(self._owner(event, "call", whole), "call", 0, whole)

    def code(self, event: dict[str, Any]) -> None:
        """Take a piece of what the provider's own tool is given."""
        self._type(self._typed(event, "input"), string(event.get("delta")))

    def _place(self, event: dict[str, Any]) -> int:
        """Return the index of the item that an event speaks of."""
        index = count(event.get("output_index"))
        return self._latest if index is None else index

    def _find(self, event: dict[str, Any], given: dict[str, Any], *, new: bool = False) -> Item:
        """Return the item at an index; what has another type, or begins after an end, is new."""
        index = self._place(event)
        kind, item = string(given.get("type")), self._at.get(index)
        if item is None or item.type != kind or (new and item.done):
            item = self._at[index] = self._begin(kind)
        return item

    def _typed(self, event: dict[str, Any], kind: str) -> Item:
        """Return the item of an event about a text; a new one where none can have such a text."""
        index = self._place(event)
        item = self._at.get(index)
        if item is None or not _may_have(item, kind):
            item = self._at[index] = self._begin(_TYPES.get(kind, ""))
        return item

    def _owner(self, event: dict[str, Any], kind: str, whole: str) -> Item:
        """Return the item whose whole text an event has, by its index or by its deltas."""
        place = self._place(event)
        item, other = self._at.get(place), self._elsewhere.get(place)
        if not whole or (item is not None and _may_have(item, kind) and kind in item.loose):
            return self._typed(event, kind)
        if other is not None and kind in other.loose:
            return other
        other = self._latest_of_kind.get(kind)
        if other is not None and not other.done:
            told = join(other.loose[kind].values(), whole)
            if told and find_rest(told, whole) is not None:
                self._elsewhere[place] = other
                return other
        return self._typed(event, kind)

    def _find_ended(self, item: Item | None, given: dict[str, Any]) -> Item | None:
        """Return the item that a whole item completes: `item`, by its index, else another.

        One without any deltas may complete the latest item that has some.
        """
        if item is not None and (item.done or item.loose or item.block is not None):
            return item
        texts = read_texts(given)
        # What was thought may be told under one name and listed under the other.
        for kind, whole in product(texts, texts.values()):
            other = self._latest_of_kind.get(kind)
            if other is None or other.done or other.type != given.get("type"):
                continue
            if is_end_of(other, given, kind, whole):
                if item is not None:
                    item.done = item.matched = True
                return other
        return item

    def _begin(self, kind: str) -> Item:
        item = Item(len(self._all), kind)
        self._all.append(item)
        self._builder.hold(3 * ENTRY)
        return item

    def _text(self, item: Item, kind: str, index: int) -> Text:
        texts = item.texts.get(kind)
        if texts is None:
            texts = item.texts[kind] = {}
        text = texts.get(index)
        if text is None:
            self._builder.hold(2 * ENTRY)
            text = texts[index] = Text()
        return text

    def _type(self, item: Item, piece: str) -> None:
        """Keep a piece of the input of a provider's tool, which is emitted whole."""
        if piece:
            self._builder.hold(len(piece) + 64)
            self._text(item, "input", 0).pieces.append(piece)

    def _announce_call(self, item: Item, given: dict[str, Any], *, begin: bool = True) -> None:
        """Emit the start of a tool call of the provider's or (with `begin`) of the caller's."""
        if not item.name:
            item.name, item.call_id = string(given.get("name")), string(given.get("call_id"))
            item.namespace = string(given.get("namespace"))
            self._builder.hold(len(item.name) + len(item.call_id) + len(item.namespace))
        if is_provider_tool(given) and not item.done:
            item.hosted = True
        if item.hosted and item.block is None:
            item.block = self._builder.provider_tool(0, name_tool(given))
        elif begin and item.type in _CALLS and not item.hosted and item.block is None:
            self._write_arguments(item, "")

    def _settle(self, item: Item, given: dict[str, Any]) -> None:
        """Take a whole item, once."""
        if item.done:
            return
        self._announce_call(item, given)
        if item.hosted:
            self._hosted(item, given)
        elif item.type in _CALLS:
            self._compare(item, "call", 0, read_texts(given)["call"])
            self._builder.end_tool_call(0, item.block)
        elif item.type == "message":
            self._message(item, given)
        elif item.type == "reasoning":
            self._reasoning(item, given)
        elif item.type == "compaction":
            self._builder.opaque(0, OPENAI_COMPACTION, string(given.get("encrypted_content")))
        item.done = True

    def _message(self, item: Item, given: dict[str, Any]) -> None:
        if not (item.told("text") or item.told("refusal")):
            item.phase = item.phase or string(given.get("phase"))
        parts = list(enumerate(mappings(given.get("content"))))
        for kind in ("text", "refusal"):
            self._match_all(item, kind, {i: p for i, p in parts if read_part(p)[0] == kind})
        for index, part in parts:
            self._cite_all(item, index, part)
        self._close(item)

    def _reasoning(self, item: Item, given: dict[str, Any]) -> None:
        content = [string(part.get("text")) for part in mappings(given.get("content"))]
        summary = mappings(given.get("summary"))
        summed = "".join(string(part.get("text")) for part in summary)
        # Some hosts send the same under one name and list it under the other.
        if "".join(content) != item.said("summary"):
            self._compare(item, "reasoning", 0, "".join(content))
        if summed != item.said("reasoning"):
            self._match_all(item, "summary", dict(enumerate(summary)))
        # That of `output_item.added` is not whole [openai-responses/reasoning-summary-tool].
        encrypted = string(given.get("encrypted_content"))
        if self._is_writing(item):
            self._builder.sign(0, "encrypted", encrypted, format=OPENAI_ENCRYPTED)
        else:
            self._builder.opaque(0, OPENAI_REASONING, encrypted)
        self._close(item)

    def _hosted(self, item: Item, given: dict[str, Any]) -> None:
        """Emit the input and the output of the provider's own tool."""
        typed = "".join(self._text(item, "input", 0).pieces)
        if values := read_values(given, typed=typed):
            self._builder.provider_tool(0, name_tool(given), block=item.block, **values)
        key = key_of(given)
        if asks_caller(given):
            data = msgspec.json.encode(clean(given)).decode()
            self._builder.opaque(0, OPENAI_ITEM, data, block=item.block)
            self._builder.hold(ENTRY + len(key))
            self._asked[key] = item.type
        elif is_answer(given):
            self._asked.pop(key, None)
        if image := read_image(given):
            self._builder.end_text(0)
            self._builder.media(0, image[0], data=image[1])

    def _write_arguments(self, item: Item, piece: str) -> None:
        """Write a piece of a call's arguments, or begin the call."""
        if item.hosted:
            self._type(item, piece)
            return
        free = item.type == "custom_tool_call"
        if free and piece and item.block is None:
            self._write_arguments(item, "")  # what it is stands before what it is given
        text = self._text(item, "call", 0)
        text.pieces.append(piece)
        begun = item.block is not None
        if not begun:
            item.loose["call"] = {0: text}
            self._latest_of_kind["call"] = item
        item.block = self._builder.tool_call(
            0,
            index=item.number,
            id="" if begun else item.call_id,
            name="" if begun else item.name,
            arguments=piece,
            free=free,
        )
        if free and not begun and item.block is not None:
            self._builder.opaque(0, OPENAI_CUSTOM_CALL, item.call_id or "1", block=item.block)
        if item.namespace and not begun and item.block is not None:
            self._builder.opaque(0, OPENAI_NAMESPACE, item.namespace, block=item.block)

    def _write(self, item: Item, kind: str, index: int, piece: str) -> None:
        if kind == "call":
            self._write_arguments(item, piece)
            return
        if not piece:
            return
        text = self._text(item, kind, index)
        if text is not self._writing:
            self._builder.end_text(0)
            if item.phase and item.type == "message":
                # After the text it would be a part of its own to clients of other dialects.
                self._builder.opaque(0, OPENAI_PHASE, item.phase)
                item.phase = ""
            self._writing = text
            self._latest_of_kind[kind] = item
            item.loose.setdefault(kind, {})[index] = text
        text.pieces.append(piece)
        self._writers[kind](0, piece)
        if text.block is None:
            text.block = self._builder.text_block(0)

    def _match(
        self, item: Item, kind: str, index: int, whole: str, *, logprobs: object = None
    ) -> None:
        """Add what a whole text has beyond its pieces, which may stand under other indexes."""
        text, loose = item.texts.get(kind, {}).get(index), item.loose.get(kind, {})
        if whole and loose and (len(loose) > 1 or text is None or not text.pieces):
            told = join(loose.values(), whole)
            rest = None if told is None else find_rest(told, whole)
            if rest is not None:
                self._write(item, kind, next(reversed(loose)), rest)
                loose.clear()
                self._text(item, kind, index).whole = whole
                return
        self._compare(item, kind, index, whole, logprobs=logprobs)
        loose.pop(index, None)

    def _match_all(self, item: Item, kind: str, parts: dict[int, dict[str, Any]]) -> None:
        """Add what all whole parts of a kind have beyond the pieces of an item."""
        wholes = {index: read_part(part)[1] for index, part in parts.items()}
        told = item.told(kind)
        strange = not told.keys() <= wholes.keys()
        if strange or any(
            not text.disputed and find_rest(text.said, wholes[index]) is None
            for index, text in told.items()
        ):
            rest = find_rest(item.said(kind), "".join(wholes.values()))
            if rest is not None:
                self._write(item, kind, next(reversed(told)), rest)
                return
            if strange:
                if wholes and not any(text.disputed for text in told.values()):
                    self._dispute(kind)
                return
        for index, whole in wholes.items():
            self._compare(item, kind, index, whole, logprobs=parts[index].get("logprobs"))

    def _compare(
        self, item: Item, kind: str, index: int, whole: str, *, logprobs: object = None
    ) -> None:
        """Add what a whole text has beyond its deltas."""
        if not whole or item.hosted:
            return
        text = self._text(item, kind, index)
        if text.disputed:
            return
        rest = find_rest(text.said, whole)
        if rest is None:
            text.disputed = True
            self._dispute(kind)
        elif rest:
            new = not text.pieces
            self._write(item, kind, index, rest)
            if new:
                self._builder.logprobs(0, mappings(logprobs))

    def _dispute(self, kind: str) -> None:
        what = "tool call" if kind == "call" else kind
        told = f"the whole {what} differs from the pieces that the upstream sent of it"
        self._builder.notice("upstream_contradiction", told)

    def _cite_all(self, item: Item, index: int, part: dict[str, Any]) -> None:
        """Take the annotations of a whole part."""
        annotations = mappings(part.get("annotations"))
        if not annotations or part.get("type") != "output_text":
            return
        text = self._text(item, "text", index)
        block = text.block
        if block is None:  # its pieces have another index
            blocks = (text.block for text in item.texts["text"].values())
            block = next((block for block in blocks if block is not None), None)
        for annotation in annotations:
            self._cite(block, annotation)

    def _cite(self, block: int | None, annotation: dict[str, Any]) -> None:
        self._builder.source(0, **read_citation(annotation), block=block)

    def _is_writing(self, item: Item) -> bool:
        """Whether the block of one of the item's texts is open."""
        texts = item.texts.values()
        return any(text is self._writing for of in texts for text in of.values())

    def _close(self, item: Item) -> None:
        if self._is_writing(item):
            self._builder.end_text(0)
            self._writing = None


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
    """Return the index of a text in its item.

    All `reasoning_text` is one: vLLM counts its parts by token.
    """
    if kind == "reasoning":
        return 0
    return count(event.get("summary_index" if kind == "summary" else "content_index")) or 0
