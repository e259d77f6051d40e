"""Reader of the content blocks of a Claude message, streamed or whole, for the event builder.

Each of the provider's blocks becomes one block: two texts in a row stay two. A signature and the
input of a provider's tool are emitted complete, at the end of their block.
What has no event, such as blocks and members of unknown types, becomes `ProviderData`.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ....events import Raw
from ...reading.answer_bounds import ENTRY
from ...reading.event_builder import EventBuilder
from ...reading.json_values import (
    clean,
    count,
    decode_or,
    leave_out,
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
_OF_STARTS: Final = {
    "text": ("text",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
}
"""The members of a block's start that have events, by its type; all of other types, by `raw`."""
_OF_DELTAS: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""The member that has events, by the type of a delta."""
_OF_EVENTS: Final = ("type", "index", "content_block", "delta")
_MAX_CHANGES: Final = 1000
"""Changes of the other members of deltas that are passed on."""
_PIECE: Final = 100
"""Characters of a provider tool's input in one delta for clients of this dialect."""
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
    passed: int = 0
    """The number of pieces that are passed on."""
    waiting: int = 0
    """The characters of the others."""
    signature: str = ""
    begun: bool = False
    """Whether a text or thinking has any text."""
    provider_block: int | None = None
    """The number of the block that only this dialect has."""
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
        self._members: dict[str, Any] = {}
        """The latest other members of deltas."""
        self._changes = 0

    def feed(self, content: object) -> None:
        """Handle the content of a complete message."""
        for index, block in enumerate(mappings(content)):
            self.start({"type": "content_block_start", "index": index, "content_block": block})
            self.stop(index)

    def start(self, event: dict[str, Any]) -> None:
        """Handle the start of a block, with its first content."""
        index, content = event.get("index"), mapping(event.get("content_block"))
        number = _number(index)
        known = self._open.get(number)
        if known is not None and known.start == content:
            return  # some proxies repeat the start
        self.stop(index)
        block = self._begin(string(content.get("type")), number, content)
        self._turn(number)
        self._pass_start(block, event)
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
                self._begin_provider_block(block)
            case kind if kind != "compaction":
                self._begin_provider_block(block)
                if block.provider_block is None and not kind.endswith(_USE):
                    self._leave(kind)

    def delta(self, event: dict[str, Any]) -> None:
        """Handle a delta of a block; a block without a start begins with it."""
        delta = mapping(event.get("delta"))
        number, kind = _number(event.get("index")), string(delta.get("type"))
        block = self._open.get(number)
        if block is None:
            block = self._begin("", number, {})
        self._turn(number)
        untranslated = block.provider_block is not None and block.kind not in _OF_STARTS
        if untranslated and not (kind == "input_json_delta" and block.kind.endswith(_USE)):
            self._pass_on(block.provider_block, event, delta)
            return
        match kind:
            case "text_delta":
                self._text(block, string(delta.get("text")))
            case "thinking_delta":
                self._think(block, string(delta.get("thinking")))
            case "signature_delta":
                self._sign(block, string(delta.get("signature")))
            case "citations_delta":
                self._cite(block, mapping(delta.get("citation")))
                return
            case "compaction_delta":
                self._reserve(block, size(delta))
                block.compaction |= {k: v for k, v in delta.items() if k != "type"}
                return
            case "input_json_delta":
                self._write(block, string(delta.get("partial_json")))
            case "":
                return
            case _:
                self._pass_delta(block, event, delta)
                return
        if len(delta) > 2 or len(event) > 3:
            self._pass_delta(block, event, delta)

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
            case "text" | "thinking" if not (block.begun or block.signature):
                self._begin_provider_block(block)
        self._take_signature(block)
        if block.provider_block is not None:
            self._builder.provider_data(
                NAME, {"type": "content_block_stop"}, block=block.provider_block
            )
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
            block.waiting += len(piece)
            if block.provider_block is not None and block.waiting >= _PIECE:
                self._pass_input(block)

    def _pass_start(self, block: _Block, event: dict[str, Any]) -> None:
        """Pass on the members of a start that have no event, before the block that they are of."""
        if not self._builder.keeps_provider_data:
            return
        translated = _OF_STARTS.get(block.kind)
        fields = {} if translated is None else leave_out(block.start, ("type", *translated))
        if fields.get("citations"):
            del fields["citations"]  # emitted as `Source`
        more = leave_out(event, _OF_EVENTS)
        if fields or more:
            start = {"type": "content_block_start", "content_block": {"type": block.kind} | fields}
            self._builder.provider_data(NAME, more | start)

    def _begin_provider_block(self, block: _Block) -> None:
        """Begin a block that has no events, for clients of this dialect."""
        if self._builder.keeps_provider_data and block.provider_block is None:
            block.provider_block = self._builder.provider_block(0)
            start = {"type": "content_block_start", "content_block": block.start}
            self._builder.provider_data(NAME, start, block=block.provider_block)

    def _pass_delta(self, block: _Block, event: dict[str, Any], delta: dict[str, Any]) -> None:
        """Pass on the members of a delta that have no event: beside a text, only as they change."""
        if not self._builder.keeps_provider_data:
            return
        member = _OF_DELTAS.get(string(delta.get("type")))
        fields, more = leave_out(delta, (member,)), leave_out(event, _OF_EVENTS)
        if member is not None:
            if len(fields) < 2 and not more:
                return
            if delta.get(member):
                members = more | fields
                if members == self._members or self._changes > _MAX_CHANGES:
                    return
                self._members = members
                self._changes += 1
                if self._changes > _MAX_CHANGES:
                    what = (
                        f"upstream {self._upstream!r} sent too many members beside texts: dropped"
                    )
                    self._builder.notice("block_dropped", what)
                    return
            fields[member] = ""
        if block.provider_block is None and not block.begun and block.kind in ("text", "thinking"):
            self._begin_provider_block(block)
        number = block.provider_block if block.call is None else block.call
        self._pass_on(self._builder.open_block(0) if number is None else number, event, fields)

    def _pass_on(self, number: int | None, event: dict[str, Any], delta: dict[str, Any]) -> None:
        if number is not None:
            fields = leave_out(event, _OF_EVENTS) | {"type": "content_block_delta", "delta": delta}
            self._builder.provider_data(NAME, fields, block=number)

    def _pass_input(self, block: _Block) -> None:
        """Pass on the latest pieces of a provider tool's input."""
        if block.provider_block is not None and block.waiting:
            delta = {
                "type": "input_json_delta",
                "partial_json": "".join(block.pieces[block.passed :]),
            }
            block.passed, block.waiting = len(block.pieces), 0
            self._pass_on(block.provider_block, {}, delta)

    def _turn(self, index: int) -> None:
        """Switch to a block: end the text of any other block."""
        if self._latest != index:
            self._builder.end_text(0)
            self._latest = index

    def _text(self, block: _Block, text: str) -> None:
        self._builder.text(0, text)
        if text:
            block.begun = True
            # A citation comes before the text that it supports [anthropic/web-search-citations].
            if block.citations:
                for citation in block.citations:
                    self._source(citation)
                block.citations = []

    def _think(self, block: _Block, text: str) -> None:
        self._builder.reasoning(0, text)
        block.begun = block.begun or bool(text)

    def _take_signature(self, block: _Block) -> None:
        """Emit the signature; it is all that omitted thinking has."""
        if block.begun:
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
        self._pass_input(block)
        text = "".join(block.pieces)
        value = decode_or(text, text) if text else mapping(block.start.get("input"))
        name = string(block.start.get("name")) or "tool"
        raw = _without(block.start, "input")
        number = self._builder.provider_tool(
            0, name, block=block.provider_block, input=value, raw=raw
        )
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
        number = self._builder.text_block(0)
        emitted = self._builder.source(
            0,
            url=url,
            document=document,
            title=title,
            cited_text=text_or_none(citation.get("cited_text")),
            block=number,
            raw=make_raw(NAME, citation),
        )
        if not emitted:
            self._pass_on(number, {}, {"type": "citations_delta", "citation": citation})


def _without(block: dict[str, Any], name: str) -> Raw:
    """Return the members of a block except the event's own."""
    return make_raw(NAME, {k: v for k, v in block.items() if k != name})


def _number(index: object) -> int:
    """Return the index of a block; -1 if it is invalid."""
    return index if type(index) is int else -1
