"""Conversion of a Responses stream's output items to events.

Items are identified by `output_index`, their texts by an index of their own: GitHub Copilot
changes the id of an item in every event [openai-responses--id-rotation-copilot].

Emitted events cannot be revised. So a complete text that follows its deltas (`.done`, the
item, the response) only adds the missing rest; a contradiction yields a notice.

Hosts count differently. vLLM increments the index before it ends an item, so that the
complete text has the next index; others count a part per token. A complete text is only
emitted if it does not match deltas under other indexes.
"""

from collections.abc import Callable
from itertools import product
from typing import Any, Final

from ...reading.answer_bounds import ENTRY
from ...reading.event_builder import EventBuilder
from ...reading.json_values import count, encode, make_raw, mapping, mappings, string
from ...reasoning_signatures import (
    OPENAI_COMPACTION,
    OPENAI_CUSTOM_CALL,
    OPENAI_ENCRYPTED,
    OPENAI_ITEM,
    OPENAI_NAMESPACE,
    OPENAI_PHASE,
    OPENAI_REASONING,
)
from .. import NAME
from .item_texts import (
    ItemText,
    OutputItem,
    UnmatchedItems,
    find_remainder,
    is_end_of,
    join,
    read_part,
    read_texts,
)
from .provider_data import CALLS, ProviderDataRecorder
from .provider_tools import (
    is_answer,
    is_provider_tool,
    key_of,
    name_tool,
    needs_client,
    read_citation,
    read_image,
    read_values,
)


class Items:
    """Handles the events of one stream that concern items."""

    def __init__(self, builder: EventBuilder) -> None:
        self._builder = builder
        self._recorder = ProviderDataRecorder(builder)
        self._all: list[OutputItem] = []
        self._at: dict[int, OutputItem] = {}
        self._elsewhere: dict[int, OutputItem] = {}
        """The items whose complete texts had a wrong index, by that index."""
        self._client_requests: dict[str, str] = {}
        """The types of items that request something from the client, by `key_of`."""
        self._latest = 0
        """The index of the last added item: some hosts send texts without an index."""
        self._writing: ItemText | None = None
        """The text whose block was opened last; the builder may have closed it since."""
        self._latest_of_kind: dict[str, OutputItem] = {}
        """The last item with a delta, by kind of text."""
        self._writers: dict[str, Callable[[int, str], None]] = {
            "text": builder.text,
            "refusal": builder.refusal,
            "reasoning": builder.reasoning,
            "summary": builder.reasoning,
        }

    def add(self, event: dict[str, Any]) -> None:
        """Handle `response.output_item.added`."""
        raw = mapping(event.get("item"))
        item = self._find(event, raw, new=True)
        self._latest = self._index_of(event)
        self._elsewhere.pop(self._latest, None)
        item.phase = item.phase or string(raw.get("phase"))
        item.members = item.members or self._recorder.list_members(raw)
        # Perplexity announces its own searches this way; the finished search is another
        # item.
        self._announce_call(item, raw, begin=raw.get("status") != "completed")
        self._recorder.add(item, raw)

    def finish(self, event: dict[str, Any]) -> None:
        """Handle `response.output_item.done`."""
        raw = mapping(event.get("item"))
        index, kind = self._index_of(event), string(raw.get("type"))
        found = (self._at.get(index), self._elsewhere.get(index))
        item = next((item for item in found if item is not None and item.type == kind), None)
        self._settle(self._find_ended(item, raw) or self._find(event, raw), raw)

    def finish_all(self, output: object) -> None:
        """Handle the `output` of an ended response, without repeating earlier items."""
        unmatched = UnmatchedItems(self._all)
        for raw in mappings(output):
            kind = string(raw.get("type"))
            item = unmatched.take(kind, string(raw.get("call_id")))
            item = self._find_ended(item, raw) or self._begin(kind)
            item.matched = True
            self._settle(item, raw)

    @property
    def client_requests(self) -> list[str]:
        """Return the types of open requests to the client other than tool calls."""
        return sorted({*self._client_requests.values()})

    def delta(self, event: dict[str, Any], kind: str) -> None:
        """Handle a delta of a text."""
        item = self._typed(event, kind)
        piece = string(event.get("delta"))
        self._write(item, kind, _index(event, kind), piece)
        if piece and (logprobs := event.get("logprobs")):
            self._builder.logprobs(0, mappings(logprobs))

    def whole(self, event: dict[str, Any], kind: str) -> None:
        """Handle a complete text, which may follow its deltas."""
        whole = string(event.get("text")) or string(event.get("refusal"))
        item, index = self._owner(event, kind, whole), _index(event, kind)
        if kind == "reasoning" and self._text(item, kind, index).pieces:
            return  # maybe one of several; the item repeats all of them
        self._match(item, kind, index, whole, logprobs=event.get("logprobs"))

    def part(self, event: dict[str, Any]) -> None:
        """Handle `response.content_part.done`."""
        part = mapping(event.get("part"))
        if part.get("type") in ("output_text", "refusal"):
            kind, whole = read_part(part)
            item, index = self._owner(event, kind, whole), _index(event, kind)
            self._match(item, kind, index, whole, logprobs=part.get("logprobs"))
            self._cite_all(item, index, part)

    def annotation(self, event: dict[str, Any]) -> None:
        """Handle `response.output_text.annotation.added`."""
        text = self._text(self._typed(event, "text"), "text", _index(event, "text"))
        self._cite(text.block, mapping(event.get("annotation")))

    def arguments(self, event: dict[str, Any]) -> None:
        """Handle a delta of a call's arguments."""
        item = self._typed(event, "call")
        self._write_arguments(item, string(event.get("delta")))
        if item.hosted:
            self._recorder.note(event, item)

    def all_arguments(self, event: dict[str, Any]) -> None:
        """Handle a call's complete arguments."""
        whole = string(event.get("arguments")) or string(event.get("input"))
        item = self._owner(event, "call", whole)
        self._match(item, "call", 0, whole)
        if item.hosted:
            self._recorder.note(event, item)

    def code(self, event: dict[str, Any]) -> None:
        """Handle a delta of the input of a provider's tool."""
        item = self._typed(event, "input")
        self._type(item, string(event.get("delta")))
        self._recorder.note(event, item)

    def other(self, event: dict[str, Any], *, name: str) -> None:
        """Handle an event about an item, or about the answer, without a counterpart."""
        if event.keys().isdisjoint(("output_index", "item_id")):
            self._recorder.note(event, name=name)
        elif (item := self._at.get(self._index_of(event))) is not None:
            self._recorder.note(event, item, name=name)

    def end_response(self, response: dict[str, Any], *, beside: dict[str, Any]) -> None:
        """Handle an ended response: its output, then its other members, and those beside it."""
        self.finish_all(response.get("output"))
        self._recorder.end_response(response, beside=beside)

    def _index_of(self, event: dict[str, Any]) -> int:
        """Return the index of the item of an event."""
        index = count(event.get("output_index"))
        return self._latest if index is None else index

    def _find(self, event: dict[str, Any], raw: dict[str, Any], *, new: bool = False) -> OutputItem:
        """Return the item at an index; create one if the type differs, or for a start after an
        end.
        """
        index = self._index_of(event)
        kind, item = string(raw.get("type")), self._at.get(index)
        if item is None or item.type != kind or (new and item.done):
            item = self._at[index] = self._begin(kind)
        return item

    def _typed(self, event: dict[str, Any], kind: str) -> OutputItem:
        """Return the item of a text event; create one if the item cannot have such a text."""
        index = self._index_of(event)
        item = self._at.get(index)
        if item is None or not _may_have(item, kind):
            item = self._at[index] = self._begin(_TYPES.get(kind, ""))
        return item

    def _owner(self, event: dict[str, Any], kind: str, whole: str) -> OutputItem:
        """Return the item of a complete text, by its index or by its deltas."""
        index = self._index_of(event)
        item, other = self._at.get(index), self._elsewhere.get(index)
        if not whole or (item is not None and _may_have(item, kind) and kind in item.unmatched):
            return self._typed(event, kind)
        if other is not None and kind in other.unmatched:
            return other
        other = self._latest_of_kind.get(kind)
        if other is not None and not other.done:
            written = join(other.unmatched[kind].values(), whole)
            if written and find_remainder(written, whole) is not None:
                self._elsewhere[index] = other
                return other
        return self._typed(event, kind)

    def _find_ended(self, item: OutputItem | None, raw: dict[str, Any]) -> OutputItem | None:
        """Return the item that a complete item finishes: `item`, by its index, else another.

        An item without deltas may finish the latest item that has some.
        """
        if item is not None and (item.done or item.unmatched or item.block is not None):
            return item
        texts = read_texts(raw)
        # The deltas may be `reasoning` and the list `summary`, or vice versa.
        for kind, whole in product(texts, texts.values()):
            other = self._latest_of_kind.get(kind)
            if other is None or other.done or other.type != raw.get("type"):
                continue
            if is_end_of(other, raw, kind, whole):
                if item is not None:
                    item.done = item.matched = True
                return other
        return item

    def _begin(self, kind: str) -> OutputItem:
        item = OutputItem(len(self._all), kind)
        self._all.append(item)
        self._builder.reserve(3 * ENTRY)
        return item

    def _text(self, item: OutputItem, kind: str, index: int) -> ItemText:
        texts = item.texts.get(kind)
        if texts is None:
            texts = item.texts[kind] = {}
        text = texts.get(index)
        if text is None:
            self._builder.reserve(2 * ENTRY)
            text = texts[index] = ItemText()
        return text

    def _type(self, item: OutputItem, piece: str) -> None:
        """Buffer input of a provider's tool, which is emitted complete."""
        if piece:
            self._builder.reserve(len(piece) + 64)
            self._text(item, "input", 0).pieces.append(piece)

    def _announce_call(self, item: OutputItem, raw: dict[str, Any], *, begin: bool = True) -> None:
        """Emit the start of a provider's tool call or (with `begin`) of a client's."""
        if not item.name:
            item.name, item.call_id = string(raw.get("name")), string(raw.get("call_id"))
            item.namespace = string(raw.get("namespace"))
            self._builder.reserve(len(item.name) + len(item.call_id) + len(item.namespace))
        if is_provider_tool(raw) and not item.done:
            item.hosted = True
        if item.hosted and item.block is None:
            item.block = self._builder.provider_tool(0, name_tool(raw))
        elif begin and item.type in CALLS and not item.hosted and item.block is None:
            self._write_arguments(item, "")

    def _settle(self, item: OutputItem, raw: dict[str, Any]) -> None:
        """Handle a complete item, once."""
        if item.done:
            return
        if item.type in CALLS and item.block is None:
            item.members = self._recorder.list_members(raw)
        self._announce_call(item, raw)
        if item.hosted:
            self._hosted(item, raw)
        elif item.type in CALLS:
            self._compare(item, "call", 0, read_texts(raw)["call"])
            self._builder.end_tool_call(0, item.block)
        elif item.type == "message":
            self._message(item, raw)
        elif item.type == "reasoning":
            self._reasoning(item, raw)
        elif item.type == "compaction":
            self._recorder.add(item, raw)
            self._builder.opaque(0, OPENAI_COMPACTION, string(raw.get("encrypted_content")))
        self._recorder.end(item, raw)
        item.done = True

    def _message(self, item: OutputItem, raw: dict[str, Any]) -> None:
        if not (item.written("text") or item.written("refusal")):
            item.phase = item.phase or string(raw.get("phase"))
        parts = list(enumerate(mappings(raw.get("content"))))
        for kind in ("text", "refusal"):
            self._match_all(item, kind, {i: p for i, p in parts if read_part(p)[0] == kind})
        for index, part in parts:
            self._cite_all(item, index, part)
        self._recorder.begin(item)
        self._close(item)

    def _reasoning(self, item: OutputItem, raw: dict[str, Any]) -> None:
        content = [string(part.get("text")) for part in mappings(raw.get("content"))]
        summary = mappings(raw.get("summary"))
        summed = "".join(string(part.get("text")) for part in summary)
        # Some hosts send the same text as `reasoning` and list it as `summary`, or vice
        # versa.
        self._recorder.begin(item)
        if "".join(content) != item.joined("summary"):
            self._compare(item, "reasoning", 0, "".join(content))
        if summed != item.joined("reasoning"):
            self._match_all(item, "summary", dict(enumerate(summary)))
        # In `output_item.added` it is incomplete [openai-responses/reasoning-summary-tool].
        encrypted = string(raw.get("encrypted_content"))
        if self._is_writing(item):
            self._builder.sign(0, "encrypted", encrypted, format=OPENAI_ENCRYPTED)
        else:
            self._builder.opaque(0, OPENAI_REASONING, encrypted)
        self._close(item)

    def _hosted(self, item: OutputItem, raw: dict[str, Any]) -> None:
        """Emit the input and the output of a provider's tool."""
        typed = "".join(self._text(item, "input", 0).pieces)
        if values := read_values(raw, typed=typed):
            self._builder.provider_tool(0, name_tool(raw), block=item.block, **values)
        key = key_of(raw)
        if needs_client(raw):
            data = encode(raw).decode()
            self._builder.opaque(0, OPENAI_ITEM, data, block=item.block)
            self._builder.reserve(ENTRY + len(key))
            self._client_requests[key] = item.type
        elif is_answer(raw):
            self._client_requests.pop(key, None)
        if image := read_image(raw):
            self._recorder.add(item, {**raw, "result": None})
            self._builder.end_text(0)
            self._builder.media(0, image[0], data=image[1])

    def _write_arguments(self, item: OutputItem, piece: str) -> None:
        """Emit a delta of a call's arguments, or start the call."""
        if item.hosted:
            self._type(item, piece)
            return
        free = item.type == "custom_tool_call"
        if free and piece and item.block is None:
            self._write_arguments(item, "")  # the format marker precedes the input
        text = self._text(item, "call", 0)
        text.pieces.append(piece)
        begun = item.block is not None
        if not begun:
            item.unmatched["call"] = {0: text}
            self._latest_of_kind["call"] = item
        item.block = self._builder.tool_call(
            0,
            index=item.number,
            id="" if begun else item.call_id,
            name="" if begun else item.name,
            arguments=piece,
            free=free,
            raw=None if begun or not item.members else make_raw(NAME, item.members),
        )
        if free and not begun and item.block is not None:
            self._builder.opaque(0, OPENAI_CUSTOM_CALL, item.call_id or "1", block=item.block)
        if item.namespace and not begun and item.block is not None:
            self._builder.opaque(0, OPENAI_NAMESPACE, item.namespace, block=item.block)

    def _write(self, item: OutputItem, kind: str, index: int, piece: str) -> None:
        if kind == "call":
            self._write_arguments(item, piece)
            return
        if not piece:
            return
        text = self._text(item, kind, index)
        if text is not self._writing:
            self._builder.end_text(0)
            if item.phase and item.type == "message":
                # After the text it would become a separate part in other dialects.
                self._builder.opaque(0, OPENAI_PHASE, item.phase)
                item.phase = ""
            self._recorder.begin(item)
            if kind == "reasoning":
                self._recorder.mark_text(item)
            self._writing = text
            self._latest_of_kind[kind] = item
            item.unmatched.setdefault(kind, {})[index] = text
        text.pieces.append(piece)
        self._writers[kind](0, piece)
        if text.block is None:
            text.block = self._builder.text_block(0)

    def _match(
        self, item: OutputItem, kind: str, index: int, whole: str, *, logprobs: object = None
    ) -> None:
        """Emit the rest of a complete text after its deltas, which may have other indexes."""
        text, unmatched = item.texts.get(kind, {}).get(index), item.unmatched.get(kind, {})
        if whole and unmatched and (len(unmatched) > 1 or text is None or not text.pieces):
            written = join(unmatched.values(), whole)
            rest = None if written is None else find_remainder(written, whole)
            if rest is not None:
                self._write(item, kind, next(reversed(unmatched)), rest)
                unmatched.clear()
                self._text(item, kind, index).whole = whole
                return
        self._compare(item, kind, index, whole, logprobs=logprobs)
        unmatched.pop(index, None)

    def _match_all(self, item: OutputItem, kind: str, parts: dict[int, dict[str, Any]]) -> None:
        """Emit the rest of all complete parts of a kind after the deltas of an item."""
        wholes = {index: read_part(part)[1] for index, part in parts.items()}
        written = item.written(kind)
        unlisted = not written.keys() <= wholes.keys()
        if unlisted or any(
            not text.disputed and find_remainder(text.joined, wholes[index]) is None
            for index, text in written.items()
        ):
            rest = find_remainder(item.joined(kind), "".join(wholes.values()))
            if rest is not None:
                self._write(item, kind, next(reversed(written)), rest)
                return
            if unlisted:
                if wholes and not any(text.disputed for text in written.values()):
                    self._dispute(kind)
                return
        for index, whole in wholes.items():
            self._compare(item, kind, index, whole, logprobs=parts[index].get("logprobs"))

    def _compare(
        self, item: OutputItem, kind: str, index: int, whole: str, *, logprobs: object = None
    ) -> None:
        """Emit the rest of a complete text after its deltas."""
        if not whole or item.hosted:
            return
        text = self._text(item, kind, index)
        if text.disputed:
            return
        rest = find_remainder(text.joined, whole)
        if rest is None:
            text.disputed = True
            self._dispute(kind)
        elif rest:
            new = not text.pieces
            self._write(item, kind, index, rest)
            if new:
                self._builder.logprobs(0, mappings(logprobs))

    def _dispute(self, kind: str) -> None:
        subject = "tool call" if kind == "call" else kind
        message = f"the complete {subject} differs from the deltas that the upstream sent"
        self._builder.notice("upstream_contradiction", message)

    def _cite_all(self, item: OutputItem, index: int, part: dict[str, Any]) -> None:
        """Handle the annotations of a complete part."""
        annotations = mappings(part.get("annotations"))
        if not annotations or part.get("type") != "output_text":
            return
        text = self._text(item, "text", index)
        block = text.block
        if block is None:  # its deltas have another index
            blocks = (text.block for text in item.texts["text"].values())
            block = next((block for block in blocks if block is not None), None)
        for annotation in annotations:
            self._cite(block, annotation)

    def _cite(self, block: int | None, annotation: dict[str, Any]) -> None:
        keeps = self._builder.keeps_provider_data
        self._builder.source(0, **read_citation(annotation, whole=keeps), block=block)

    def _is_writing(self, item: OutputItem) -> bool:
        """Return whether the block of one of the item's texts is open."""
        texts = item.texts.values()
        return any(text is self._writing for of in texts for text in of.values())

    def _close(self, item: OutputItem) -> None:
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
"""The type of an item that is only known by its texts."""


def _may_have(item: OutputItem, kind: str) -> bool:
    """Return whether an item can have a text of a kind."""
    if kind == "call":
        return item.type in CALLS or item.hosted
    return kind == "input" or item.type == _TYPES[kind]


def _index(event: dict[str, Any], kind: str) -> int:
    """Return the index of a text in its item.

    All `reasoning_text` has index 0: vLLM counts a part per token.
    """
    if kind == "reasoning":
        return 0
    return count(event.get("summary_index" if kind == "summary" else "content_index")) or 0
