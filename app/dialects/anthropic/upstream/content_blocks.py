"""Reader of the content blocks of a Claude message, streamed or whole, for the event builder.

Each of the provider's blocks becomes one block: two texts in a row stay two. A signature and the
input of a provider's tool are emitted complete, at the end of their block.
Parts of unexpected types and unknown fields are ignored.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ....events import Raw
from ...reading.bounds import ENTRY
from ...reading.event_builder import EventBuilder
from ...reading.json_values import (
    clean,
    count,
    decode_or,
    make_raw,
    mapping,
    mappings,
    short,
    size,
    string,
    text_or_none,
)
from ...reasoning_signatures import CLAUDE_COMPACTION, CLAUDE_REDACTED, CLAUDE_THINKING
from .. import NAME

_USE: Final = "_tool_use"
_RESULT: Final = "_tool_result"
"""Type suffixes of the blocks of provider-executed tools."""
_OF_CALLS: Final = ("type", "id", "name", "input")
_DIRECT: Final = {"caller": {"type": "direct"}}
"""The other members of an ordinary call, made by the model itself."""
_MAX_DROPPED: Final = 20
"""Types of dropped blocks that get a notice."""


@dataclass(slots=True)
class _Block:
    """An open block."""

    kind: str
    index: int
    start: dict[str, Any]
    call: int | None = None
    """The number of the tool call."""
    raw: Raw | None = None
    """The other members of a tool call's start."""
    written: bool = False
    """Whether a piece of its arguments has arrived."""
    pieces: list[str] = field(default_factory=list)
    """The pieces of a provider tool's input, as JSON text."""
    signature: str = ""
    thought: bool = False
    """Whether the thinking has text."""
    citations: list[dict[str, Any]] = field(default_factory=list)
    """Citations that arrived before their text."""
    compaction: dict[str, Any] = field(default_factory=dict)
    """The members that the deltas of a compaction add to its start."""
    buffered: int = 0
    """The approximate size in bytes."""


class Blocks:
    """Converts the content of one message; `upstream` is named in notices."""

    def __init__(self, builder: EventBuilder, *, upstream: str) -> None:
        self.model: str | None = None
        """The model that continued after a refusal of the requested one."""
        self._builder = builder
        self._upstream = upstream
        self._open: dict[int, _Block] = {}
        self._latest: int | None = None
        """The index of the block whose text may be open."""
        self._tools: dict[str, tuple[int, str]] = {}
        """The provider-executed tools: number of the block and name, by id."""
        self._dropped: set[str] = set()

    def feed(self, content: object) -> None:
        """Handle the content of a complete message."""
        for index, block in enumerate(mappings(content)):
            self.start(index, block)
            self.stop(index)

    def start(self, index: object, content: dict[str, Any]) -> None:
        """Handle the start of a block, with its first content."""
        number = _number(index)
        known = self._open.get(number)
        if known is not None and known.start == content:
            return  # a proxy repeats it
        self.stop(index)
        block = self._begin(string(content.get("type")), number, content)
        self._turn(number)
        match block.kind:
            case "text":
                self._text(block, string(content.get("text")))
                for citation in mappings(content.get("citations")):
                    self._cite(block, citation)
            case "thinking":
                self._think(block, string(content.get("thinking")))
                self._sign(block, string(content.get("signature")))
            case "redacted_thinking":
                self._builder.opaque(0, CLAUDE_REDACTED, string(content.get("data")))
            case "tool_use":
                more = {k: v for k, v in content.items() if k not in _OF_CALLS and v is not None}
                block.raw = make_raw(NAME, more) if more and more != _DIRECT else None
                self._call(block, None)
            case kind if kind.endswith(_RESULT):
                self._result(content, kind.removesuffix(_RESULT))
            case "fallback":
                self._fall_back(short(mapping(content.get("to")).get("model")))
            case kind if kind != "compaction" and not kind.endswith(_USE):
                self._leave(kind)

    def delta(self, index: object, delta: dict[str, Any]) -> None:
        """Handle a delta of a block; a block without a start begins with it."""
        number, kind = _number(index), string(delta.get("type"))
        block = self._open.get(number)
        if block is None:
            block = self._begin("", number, {})
        self._turn(number)
        match kind:
            case "text_delta":
                self._text(block, string(delta.get("text")))
            case "thinking_delta":
                self._think(block, string(delta.get("thinking")))
            case "signature_delta":
                self._sign(block, string(delta.get("signature")))
            case "citations_delta":
                self._cite(block, mapping(delta.get("citation")))
            case "compaction_delta":
                self._reserve(block, size(delta))
                block.compaction |= {k: v for k, v in delta.items() if k != "type"}
            case "input_json_delta":
                self._write(block, string(delta.get("partial_json")))

    def stop(self, index: object) -> None:
        """End a block, and emit its signature, citations, compaction or tool input."""
        block = self._open.pop(_number(index), None)
        if block is None:
            return
        self._turn(block.index)
        match block.kind:
            case "tool_use":
                if not block.written and (whole := mapping(block.start.get("input"))):
                    self._call(block, whole)
                self._builder.end_tool_call(0, block.call)
            case "compaction":
                whole = clean(block.start | block.compaction)
                self._builder.opaque(0, CLAUDE_COMPACTION, msgspec.json.encode(whole).decode())
            case kind if kind.endswith(_USE):
                self._use(block)
        self._take_signature(block)
        for citation in block.citations:
            self._source(citation)
        self._builder.end_text(0)
        self._builder.release(block.buffered)

    def close(self) -> None:
        """End every block: the message is complete."""
        for index in list(self._open):
            self.stop(index)

    def _begin(self, kind: str, number: int, content: dict[str, Any]) -> _Block:
        block = self._open[number] = _Block(kind, number, content)
        self._reserve(block, 3 * ENTRY + size(content))
        return block

    def _reserve(self, block: _Block, size: int) -> None:
        block.buffered += size
        self._builder.reserve(size)

    def _sign(self, block: _Block, signature: str) -> None:
        if signature:
            self._reserve(block, len(signature))
            block.signature = signature

    def _write(self, block: _Block, piece: str) -> None:
        """Handle a piece of an input."""
        if block.kind == "tool_use":
            block.written = block.written or bool(piece)
            self._call(block, piece)
        elif piece and block.kind.endswith(_USE):
            self._reserve(block, len(piece) + 64)
            block.pieces.append(piece)

    def _turn(self, index: int) -> None:
        """Switch to a block: end the text of any other block."""
        if self._latest != index:
            self._builder.end_text(0)
            self._latest = index

    def _text(self, block: _Block, text: str) -> None:
        self._builder.text(0, text)
        # A citation comes before the text that it supports [anthropic/web-search-citations].
        if text and block.citations:
            for citation in block.citations:
                self._source(citation)
            block.citations = []

    def _think(self, block: _Block, text: str) -> None:
        self._builder.reasoning(0, text)
        block.thought = block.thought or bool(text)

    def _take_signature(self, block: _Block) -> None:
        """Emit the signature; it is all that omitted thinking has."""
        if block.thought:
            self._builder.sign(0, "signature", block.signature, format=CLAUDE_THINKING)
        else:
            self._builder.opaque(0, CLAUDE_THINKING, block.signature)

    def _call(self, block: _Block, arguments: object) -> None:
        block.call = self._builder.tool_call(
            0,
            index=block.index,
            id=string(block.start.get("id")),
            name=string(block.start.get("name")),
            arguments=arguments,
            raw=block.raw,
        )

    def _use(self, block: _Block) -> None:
        """Emit a provider-executed tool, with its input."""
        text = "".join(block.pieces)
        value = decode_or(text, text) if text else mapping(block.start.get("input"))
        name = string(block.start.get("name")) or "tool"
        raw = _without(block.start, "input")
        number = self._builder.provider_tool(0, name, input=value, raw=raw)
        use_id = string(block.start.get("id"))
        self._builder.reserve(ENTRY + len(use_id) + len(name))
        self._tools[use_id] = (number, name)

    def _result(self, content: dict[str, Any], name: str) -> None:
        """Emit the result of a provider's tool, in the block of its input."""
        number, name = self._tools.get(string(content.get("tool_use_id")), (None, name))
        output = content.get("content")
        if content.get("is_error") is True:
            output = {"is_error": True, "content": output}
        raw = _without(content, "content")
        self._builder.provider_tool(0, name or "tool", block=number, output=output, raw=raw)

    def _fall_back(self, model: str | None) -> None:
        self.model = model or self.model
        what = f"upstream {self._upstream!r} continued with another model: {model or 'unknown'}"
        self._builder.notice("fallback", what)

    def _leave(self, kind: str) -> None:
        """Emit one notice for each type of block that is dropped."""
        kind = kind[:60]
        if kind not in self._dropped and len(self._dropped) < _MAX_DROPPED:
            self._dropped.add(kind)
            what = f"upstream {self._upstream!r} sent a block {kind!r}: dropped"
            self._builder.notice("block_dropped", what)

    def _cite(self, block: _Block, citation: dict[str, Any]) -> None:
        if self._builder.text_block(0) is None:
            self._reserve(block, size(citation))
            block.citations.append(citation)
        else:
            self._source(citation)

    def _source(self, citation: dict[str, Any]) -> None:
        """Emit a source; its positions are offsets in the source, not in the answer."""
        source = string(citation.get("source"))
        url = text_or_none(citation.get("url")) or (
            text_or_none(source) if "://" in source else None
        )
        title = text_or_none(citation.get("title"))
        document = None if url else text_or_none(source)
        if url is None and document is None:
            index = count(citation.get("document_index"))
            document = (
                text_or_none(citation.get("document_title"))
                or text_or_none(citation.get("file_id"))
                or (None if index is None else str(index))
            )
        self._builder.source(
            0,
            url=url,
            document=document,
            title=title,
            cited_text=text_or_none(citation.get("cited_text")),
            block=self._builder.text_block(0),
            raw=make_raw(NAME, citation),
        )


def _without(block: dict[str, Any], name: str) -> Raw:
    """Return the members of a block except the event's own."""
    return make_raw(NAME, {k: v for k, v in block.items() if k != name})


def _number(index: object) -> int:
    """Return the index of a block; -1 if it is invalid."""
    return index if type(index) is int else -1
