"""Conversion of events to output items, and to the stream events about them.

A content part is done when the next one begins, since citations may follow it. A call is done
when something else follows it: the end of a truncated stream ends its calls too, and clients
execute a call that is done.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, assert_never

from ....events import (
    ChoiceEnd,
    ContentFilter,
    Event,
    LogProbs,
    Media,
    Notice,
    Opaque,
    ProviderData,
    ProviderTool,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    RefusalEnd,
    RefusalStart,
    Source,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from ...answering.custom_tools import decode_input
from ...answering.ids import public_token, show_call
from ...answering.token_logprobs import render_logprobs
from ...reading.json_values import read_raw, string
from ...reasoning_signatures import (
    OPENAI_COMPACTION,
    OPENAI_CUSTOM_CALL,
    OPENAI_ENCRYPTED,
    OPENAI_ITEM,
    OPENAI_NAMESPACE,
    OPENAI_PHASE,
    OPENAI_REASONING,
    UNSIGNED,
    PackedSignature,
    pack,
)
from ...writing.conversation import parse_object
from .. import NAME
from ..summary import pack_summary
from .tool_calls import (
    ITEMS,
    ClientTool,
    begin_call,
    read_arguments,
)

_CALL_FORMATS = (OPENAI_CUSTOM_CALL, OPENAI_NAMESPACE)
"""The opaque formats that describe a call."""

_PLACES: Final = frozenset(("index", "start_index", "end_index"))
"""The position fields of an annotation."""

ItemStatus = Literal["completed", "incomplete"]
OutputEvent = tuple[str, dict[str, Any]]
"""The type of an event, and its fields."""


@dataclass(slots=True)
class _Item:
    """An unfinished item, and its position."""

    position: dict[str, Any]
    item: dict[str, Any]
    pieces: list[str] = field(default_factory=list)
    """Pieces of the current text, refusal, summary or arguments."""
    block: int | None = None
    writing: bool = False
    """Whether a summary is open."""
    tool: ClientTool | None = None
    """The client's tool, unless it is a plain function."""
    wrapped: bool = False
    """Whether the arguments contain the input of a custom tool."""

    @property
    def part_position(self) -> dict[str, Any]:
        """The position of the last part of a message."""
        return {**self.position, "content_index": len(self.item["content"]) - 1}


class Output:
    """Converts the events of choice 0 of one stream; `items` is the output so far."""

    def __init__(self, stream: str) -> None:
        self.items: list[dict[str, Any]] = []
        self.tools: Mapping[str, ClientTool] = {}
        """The client's tools other than plain functions, by provider name."""
        self.compacts = False
        """Whether the output is a single compaction item, from the provider or the text."""
        self._compaction: _Item | None = None
        self._stream = stream
        self._token = item_token(stream)
        self._message: _Item | None = None
        self._phase = ""
        """The phase of the next message."""
        self._reasoning: _Item | None = None
        self._calls: dict[int, _Item] = {}
        """Unfinished calls by block."""
        self._ended: list[int] = []
        """The blocks of calls that ended and are not done."""
        self._call_ids: dict[int, str] = {}

    def feed(self, event: Event) -> Iterable[OutputEvent]:
        """Return the stream events for an event."""
        if getattr(event, "choice", 0) != 0:
            return ()
        match event:
            case TextDelta() | RefusalDelta() if self._message is not None:
                kind = "output_text" if isinstance(event, TextDelta) else "refusal"
                return (self._piece(self._message, kind, event.text),)
            case _ if self.compacts:
                return self._compact(event)
            case ToolCallDelta():
                return self._write_arguments(event)
            case ReasoningDelta() if self._reasoning is not None:
                return self._think(self._reasoning, event.text)
            case TextStart() | RefusalStart():
                return self._start_part(event)
            case ReasoningStart():
                return self._start_reasoning()
            case ReasoningEnd() if self._reasoning is not None:
                return self._end_reasoning(self._reasoning, event)
            case ToolCallStart():
                return self._start_call(event)
            case ToolCallEnd():
                return self._end_call(event)
            case Source() if self._message is not None:
                return self._cite(self._message, event)
            case LogProbs() if self._message is not None:
                part = self._message.item["content"][-1]
                if part["type"] == "output_text":
                    part["logprobs"] += render_logprobs(event.content, bytes_always=True)
            case Opaque():
                return self._opaque(event)
            case Media(data=str()) if event.media_type.startswith("image/"):
                return self._image(event)
            case TextDelta() | RefusalDelta() | ReasoningDelta() | ReasoningEnd():
                pass  # of an item that is closed
            case TextEnd() | RefusalEnd() | ChoiceEnd() | Usage() | ProviderTool() | Notice():
                pass
            case Source() | LogProbs() | Media() | ProviderData():
                pass  # there is no item for them
            case StreamStart() | StreamTarget() | ContentFilter() | StreamEnd():
                pass  # of the response, not of its output
            case _:
                assert_never(event)
        return ()

    @property
    def lacks_compaction(self) -> bool:
        """Whether a compaction was requested and there is none."""
        return self.compacts and self._compaction is None

    def finish(self, status: ItemStatus) -> Iterator[OutputEvent]:
        """Finish the open items of an ended answer."""
        yield from self._close_text(status)
        yield from self._close_calls(status, all=True)
        if self._compaction is not None:
            item = self._compaction.item
            item["encrypted_content"] = item["encrypted_content"] or pack_summary(
                "".join(self._compaction.pieces)
            )
            yield self._done(self._compaction)

    def abandon(self) -> None:
        """Mark the open items of a truncated answer as incomplete."""
        self.write_down()
        if self._compaction is not None:
            self.items.clear()
        for item in self._open():
            item.item["status"] = "incomplete"

    def write_down(self) -> None:
        """Update `items` in an unfinished answer."""
        for item in self._open():
            self._write_down(item)

    def _open(self) -> list[_Item]:
        found = (self._message, self._reasoning, *self._calls.values())
        return [item for item in found if item is not None]

    def _begin(self, kind: str, letters: str, **fields: Any) -> tuple[_Item, OutputEvent]:
        item_id = f"{letters}_{self._token}_{len(self.items)}"
        return self._add({"id": item_id, "type": kind, **fields})

    def _add(self, item: dict[str, Any]) -> tuple[_Item, OutputEvent]:
        index = len(self.items)
        self.items.append(item)
        begun = _Item({"item_id": string(item.get("id")), "output_index": index}, item)
        return begun, ("response.output_item.added", {"output_index": index, "item": _copy(item)})

    def _done(self, at: _Item, status: ItemStatus | None = None) -> OutputEvent:
        if status is not None:
            at.item["status"] = status
        index = at.position["output_index"]
        return "response.output_item.done", {"output_index": index, "item": _copy(at.item)}

    def _write_down(self, at: _Item) -> None:
        """Write the pieces so far into the item."""
        text = "".join(at.pieces)
        match at.item:
            case {"call_id": _}:
                at.item |= read_arguments(at.tool.form if at.tool else "function", text)
            case {"type": "message", "content": [*_, part]}:
                part["text" if part["type"] == "output_text" else "refusal"] = text
            case {"type": "reasoning", "summary": [*_, part]} if at.writing:
                part["text"] = text

    def _piece(self, at: _Item, kind: str, text: str) -> OutputEvent:
        at.pieces.append(text)
        fields = {**at.part_position, "delta": text}
        if kind == "output_text":
            fields["logprobs"] = []
        return f"response.{kind}.delta", fields

    def _start_part(self, event: TextStart | RefusalStart) -> Iterator[OutputEvent]:
        yield from self._close_calls("completed")
        yield from self._close_reasoning("completed")
        if self._message is None:
            fields: dict[str, Any] = {"status": "in_progress", "role": "assistant", "content": []}
            if self._phase:
                fields["phase"], self._phase = self._phase, ""
            self._message, added = self._begin("message", "msg", **fields)
            yield added
        else:
            yield from self._close_part(self._message)
        message = self._message
        part: dict[str, Any] = {"type": "refusal", "refusal": ""}
        if isinstance(event, TextStart):
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        message.item["content"].append(part)
        message.block, message.pieces = event.block, []
        yield "response.content_part.added", {**message.part_position, "part": _copy(part)}

    def _close_part(self, message: _Item) -> Iterator[OutputEvent]:
        self._write_down(message)
        part = message.item["content"][-1]
        position = message.part_position
        if part["type"] == "output_text":
            fields = {"text": part["text"], "logprobs": part["logprobs"]}
            yield "response.output_text.done", {**position, **fields}
        else:
            yield "response.refusal.done", {**position, "refusal": part["refusal"]}
        yield "response.content_part.done", {**position, "part": _copy(part)}

    def _cite(self, message: _Item, source: Source) -> Iterable[OutputEvent]:
        part = message.item["content"][-1]
        if part["type"] != "output_text":
            return
        here = source.block == message.block and source.start is not None
        start, end = (source.start or 0, source.end or 0) if here else (0, 0)
        if (annotation := read_raw(source.raw, NAME)) is not None:
            if source.start is not None and not here:
                annotation |= dict.fromkeys(_PLACES & annotation.keys(), 0)
        elif source.url is not None:
            annotation = {
                "type": "url_citation",
                "url": source.url,
                "title": source.title or "",
                "start_index": start,
                "end_index": end,
            }
        else:
            # Only Responses providers send file ids.
            annotation = {"type": "file_citation", "file_id": "", "index": end}
            annotation["filename"] = source.title or source.document or ""
        part["annotations"].append(annotation)
        yield (
            "response.output_text.annotation.added",
            {
                **message.part_position,
                "annotation_index": len(part["annotations"]) - 1,
                "annotation": annotation,
            },
        )

    def _start_reasoning(self) -> Iterator[OutputEvent]:
        yield from self._close_calls("completed")
        yield from self._close_message("completed")
        if self._reasoning is None:
            fields: dict[str, Any] = {"status": "in_progress", "summary": []}
            self._reasoning, added = self._begin("reasoning", "rs", **fields)
            yield added

    def _think(self, reasoning: _Item, text: str) -> Iterator[OutputEvent]:
        summary = reasoning.item["summary"]
        if not reasoning.writing:
            summary.append({"type": "summary_text", "text": ""})
            reasoning.writing, reasoning.pieces = True, []
            part = {"summary_index": len(summary) - 1, "part": _copy(summary[-1])}
            yield "response.reasoning_summary_part.added", {**reasoning.position, **part}
        reasoning.pieces.append(text)
        piece = {"summary_index": len(summary) - 1, "delta": text}
        yield "response.reasoning_summary_text.delta", {**reasoning.position, **piece}

    def _end_summary(self, reasoning: _Item) -> Iterator[OutputEvent]:
        if not reasoning.writing:
            return
        self._write_down(reasoning)
        reasoning.writing = False
        part = reasoning.item["summary"][-1]
        position = {**reasoning.position, "summary_index": len(reasoning.item["summary"]) - 1}
        yield "response.reasoning_summary_text.done", {**position, "text": part["text"]}
        yield "response.reasoning_summary_part.done", {**position, "part": _copy(part)}

    def _end_reasoning(self, reasoning: _Item, event: ReasoningEnd) -> Iterator[OutputEvent]:
        """End a block; a signature also ends its item."""
        yield from self._end_summary(reasoning)
        if not (event.signature or event.encrypted):
            return
        encrypted = event.encrypted
        if event.signature or event.format != OPENAI_ENCRYPTED or encrypted is None:
            encrypted = pack(PackedSignature(event.format, event.signature, event.encrypted))
        reasoning.item["encrypted_content"] = encrypted
        yield from self._close_reasoning("completed")

    def _start_call(self, event: ToolCallStart) -> Iterator[OutputEvent]:
        yield from self._close_calls("completed")
        yield from self._close_text("completed")
        call_id = self._call_ids[event.block] = show_call(self._stream, event.id)
        tool = self.tools.get(event.name)
        fields = begin_call(tool or ClientTool(), id=call_id, name=event.name)
        call, added = self._begin(*ITEMS[tool.form if tool else "function"], **fields)
        call.tool = tool
        call.wrapped = tool is not None and tool.form == "custom"
        self._calls[event.block] = call
        yield added

    def _write_arguments(self, event: ToolCallDelta) -> Iterator[OutputEvent]:
        yield from self._close_calls("completed")
        call = self._calls[event.block]
        if not call.wrapped:
            yield from self._write_call(call, event.arguments)

    def _write_call(self, call: _Item, piece: str) -> Iterator[OutputEvent]:
        if call.tool is None or call.tool.form == "function":
            call.pieces.append(piece)
            yield "response.function_call_arguments.delta", {**call.position, "delta": piece}
        elif call.tool.form == "custom" and piece:
            call.pieces.append(piece)
            yield "response.custom_tool_call_input.delta", {**call.position, "delta": piece}
        else:
            call.pieces.append(piece)  # the format has no deltas for it

    def _end_call(self, event: ToolCallEnd) -> Iterator[OutputEvent]:
        call = self._calls[event.block]
        if call.wrapped:
            yield from self._write_call(call, decode_input(event.arguments))
        elif not call.pieces and event.arguments:
            free = call.tool is not None and call.tool.form == "custom"
            if not (free and event.arguments == "{}"):  # stands for no arguments
                yield from self._write_call(call, event.arguments)
        self._ended.append(event.block)

    def _compact(self, event: Event) -> Iterator[OutputEvent]:
        """Handle the provider's compaction, or a piece of the summary that replaces it."""
        match event:
            case TextDelta(text=text):
                data = ""
            case Opaque(format=name, data=data) if name == OPENAI_COMPACTION:
                text = ""
            case _:
                return
        if self._compaction is None:
            if not (data or text.strip()):
                return
            self._compaction, added = self._begin("compaction", "cmp", encrypted_content="")
            yield added
        item = self._compaction.item
        item["encrypted_content"] = item["encrypted_content"] or data
        if text:
            self._compaction.pieces.append(text)
            yield "response.compaction.compacting", self._compaction.position

    def _opaque(self, event: Opaque) -> Iterable[OutputEvent]:
        match event.format:
            case name if name == OPENAI_PHASE:
                yield from self._close_text("completed")
                self._phase = event.data
                return
            case name if name in _CALL_FORMATS and event.block in self._calls:
                if self._describe_call(self._calls[event.block], event):
                    return
                item, added = self._begin_signature(event)
            case name if name == OPENAI_ITEM and (data := parse_object(event.data)) is not None:
                # A request of the provider to the client, in the same format.
                yield from self._close_calls("completed")
                yield from self._close_text("completed")
                item, added = self._add(data)
            case name if name == OPENAI_COMPACTION:
                item, added = self._begin("compaction", "cmp", encrypted_content=event.data)
            case name if name in (OPENAI_REASONING, OPENAI_ENCRYPTED):
                item, added = self._begin(
                    "reasoning", "rs", summary=[], encrypted_content=event.data
                )
            case _:
                item, added = self._begin_signature(event)
        yield added
        yield self._done(item)

    def _begin_signature(self, event: Opaque) -> tuple[_Item, OutputEvent]:
        call = None if event.block is None else self._call_ids.get(event.block)
        data = pack(PackedSignature(event.format, data=event.data, call=call))
        return self._begin("reasoning", "rs", summary=[], encrypted_content=data)

    def _describe_call(self, call: _Item, event: Opaque) -> bool:
        """Apply a detail of a call from a Responses provider; return whether it fits."""
        if event.format == OPENAI_NAMESPACE:
            call.item["namespace"] = event.data
        elif call.tool is None or call.tool.form != "custom":
            return False
        else:
            call.wrapped = False
        return True

    def _image(self, event: Media) -> Iterator[OutputEvent]:
        yield from self._close_calls("completed")
        yield from self._close_text("completed")
        kind = event.media_type.removeprefix("image/").removesuffix("+xml")
        item, added = self._begin("image_generation_call", "ig", status="in_progress", result=None)
        yield added
        item.item |= {"result": event.data, "output_format": kind}
        yield self._done(item, "completed")

    def _close_text(self, status: ItemStatus) -> Iterator[OutputEvent]:
        yield from self._close_message(status)
        yield from self._close_reasoning(status)

    def _close_message(self, status: ItemStatus) -> Iterator[OutputEvent]:
        message, self._message = self._message, None
        if message is not None:
            yield from self._close_part(message)
            yield self._done(message, status)

    def _close_reasoning(self, status: ItemStatus) -> Iterator[OutputEvent]:
        reasoning, self._reasoning = self._reasoning, None
        if reasoning is not None:
            yield from self._end_summary(reasoning)
            if status == "completed":
                reasoning.item.setdefault("encrypted_content", pack(UNSIGNED))
            yield self._done(reasoning, status)

    def _close_calls(self, status: ItemStatus, *, all: bool = False) -> Iterator[OutputEvent]:
        """Yield the done events of ended calls, or of all."""
        blocks = sorted(self._calls if all else self._ended)
        self._ended = []
        for block in blocks:
            call = self._calls.pop(block)
            self._write_down(call)
            if status == "completed" and call.item["type"] == "function_call":
                arguments = {"name": call.item["name"], "arguments": call.item["arguments"]}
                yield "response.function_call_arguments.done", {**call.position, **arguments}
            elif status == "completed" and call.item["type"] == "custom_tool_call":
                data = {"input": call.item["input"]}
                yield "response.custom_tool_call_input.done", {**call.position, **data}
            yield self._done(call, status)


def item_token(stream: str) -> str:
    """Return the token that the ids of all items of a stream contain."""
    return public_token(stream, "openai_responses.items")


def _copy(item: dict[str, Any]) -> dict[str, Any]:
    """Copy an item to the depth at which it can change."""
    return {
        key: [_copy(one) if isinstance(one, dict) else one for one in value]
        if isinstance(value, list)
        else value
        for key, value in item.items()
    }
