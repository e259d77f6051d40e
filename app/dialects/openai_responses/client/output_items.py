"""Conversion of events to output items, and to the stream events about them.

A content part is done when the next one begins, since citations may follow it. A call is done
when something else follows it: the end of a truncated stream ends its calls too, and clients
execute a call that is done.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, assert_never

import msgspec

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
from ...answering.pieces import Pieces
from ...answering.token_logprobs import render_logprobs
from ...reading.json_values import mapping, mappings, read_raw, string
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
from ..compaction_summary import pack_summary
from ..item_ids import make_id, make_prefix, tag_of
from .open_item import OpenItem, OutputEvent, copy_item
from .provider_data import ADDED, DONE, PART, RESPONSE, read_record
from .tool_mapping import (
    ITEMS,
    ClientTool,
    begin_call,
)

_CALL_FORMATS = (OPENAI_CUSTOM_CALL, OPENAI_NAMESPACE)
"""The opaque formats that describe a call."""

_POSITIONS: Final = frozenset(("index", "start_index", "end_index"))
"""The position fields of an annotation."""

_COMPACTION: Final = "compaction"
_IMAGE: Final = "image_generation_call"
_RELAYS: Final = frozenset(("id", "type", "status", "role", "content", "summary", "phase"))
"""The members of an item that the relay sets."""


_encode: Final = msgspec.json.Encoder().encode

ItemStatus = Literal["completed", "incomplete"]


class Output:
    """Converts the events of choice 0 of one stream; `items` is the output so far."""

    def __init__(self, stream: str) -> None:
        self.items: list[Any] = []
        self.tools: Mapping[str, ClientTool] = {}
        """The client's tools other than plain functions, by provider name."""
        self.compacts = False
        """Whether the output is a single compaction item, from the provider or the text."""
        self.upstream = ""
        """The upstream that answers."""
        self.provider_fields: dict[str, Any] = {}
        """The fields of the ended response that a Responses provider sent."""
        self.last_fields: dict[str, Any] = {}
        """Those of its event, beside the response."""
        self._recorded: dict[int, OpenItem] = {}
        """The items that such a provider sent, by its number."""
        self._hosted: dict[int, OpenItem] = {}
        """Those of tools that it executes, and unknown ones, that are not done."""
        self._hosted_at: dict[int, int] = {}
        """Their numbers by block."""
        self._images: set[int] = set()
        """The numbers of images among them."""
        self._image_data: str | None = None
        """The result of the image that is done next."""
        self._compaction: OpenItem | None = None
        self._stream = stream
        self._token = item_token(stream)
        self._message: OpenItem | None = None
        self._phase = ""
        """The phase of the next message."""
        self._reasoning: OpenItem | None = None
        self._calls: dict[int, OpenItem] = {}
        """Unfinished calls by block."""
        self._ended: list[int] = []
        """The blocks of calls that ended and are not done."""
        self._call_ids: dict[int, str] = {}
        self._done_at: list[int] = []
        """The positions of items that are done and not encoded."""

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
                return self._reasoning.think(event.text)
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
                pass  # their item is closed
            case TextEnd() | RefusalEnd() | ChoiceEnd() | Usage() | ProviderTool() | Notice():
                pass
            case ProviderData():
                return self._take_record(event)
            case Source() | LogProbs() | Media():
                pass  # no item represents them
            case StreamStart() | StreamTarget() | ContentFilter() | StreamEnd():
                pass  # part of the response, not of an item
            case _:
                assert_never(event)
        return ()

    def pass_over(self, event: Event) -> bool:
        """Take a delta of an open item that is one stream event; return False for others."""
        item = None
        if getattr(event, "choice", 0) == 0 and not (self._ended or self.compacts):
            match event:
                case TextDelta() | RefusalDelta():
                    item, piece = self._message, event.text
                case ReasoningDelta() if self._reasoning and self._reasoning.writing:
                    item, piece = self._reasoning, event.text
                case ToolCallDelta():
                    call, piece = self._calls[event.block], event.arguments
                    item = None if call.tool or call.wrapped else call
        if item is None:
            return False
        item.pieces.append(piece)
        return True

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with the items that are done encoded, so that later ones share them."""
        for index in self._done_at:
            self.items[index] = msgspec.Raw(_encode(self.items[index]))
        self._done_at.clear()
        return self.__dict__

    @property
    def lacks_compaction(self) -> bool:
        """Whether a compaction was requested and there is none."""
        return self.compacts and not self.items

    def finish(self, status: ItemStatus) -> Iterator[OutputEvent]:
        """Finish the open items of an ended answer."""
        yield from self._close_text(status)
        yield from self._close_calls(status, all=True)
        yield from map(self._done, self._hosted.values())
        if self._compaction is not None:
            item = self._compaction.item
            item["encrypted_content"] = item["encrypted_content"] or pack_summary(
                self._compaction.pieces.text()
            )
            yield self._done(self._compaction)

    def abandon(self) -> None:
        """Mark the open items of a truncated answer as incomplete."""
        self.write_down()
        if self.compacts:
            self.items.clear()
        for item in self._open():
            item.item["status"] = "incomplete"

    def write_down(self) -> None:
        """Update `items` in an unfinished answer."""
        for item in self._open():
            item.write_down()

    def _open(self) -> list[OpenItem]:
        found = (self._message, self._reasoning, *self._calls.values())
        return [item for item in found if item is not None]

    def _begin(self, kind: str, letters: str, /, **fields: Any) -> tuple[OpenItem, OutputEvent]:
        fixed = {"id": make_id(letters, self._token, len(self.items)), "type": kind}
        return self._add({**fixed, **fields})

    def _add(self, item: dict[str, Any]) -> tuple[OpenItem, OutputEvent]:
        index = len(self.items)
        self.items.append(item)
        begun = OpenItem({"item_id": string(item.get("id")), "output_index": index}, item)
        return begun, (
            "response.output_item.added",
            {"output_index": index, "item": copy_item(item)},
        )

    def _done(self, at: OpenItem, status: ItemStatus | None = None) -> OutputEvent:
        if status is not None:
            at.item["status"] = status
        index = at.position["output_index"]
        self._done_at.append(index)
        item, at.item, at.pieces = copy_item(at.item), {}, Pieces()
        return "response.output_item.done", {"output_index": index, "item": item}

    def _piece(self, at: OpenItem, kind: str, text: str) -> OutputEvent:
        at.pieces.append(text)
        fields = {**at.part_position, "delta": text}
        if kind == "output_text":
            fields["logprobs"] = []
        return f"response.{kind}.delta", fields

    def _start_part(self, event: TextStart | RefusalStart) -> Iterator[OutputEvent]:
        yield from self._close_calls("completed")
        yield from self._close_reasoning("completed")
        if self._message is None:
            self._message, added = self._begin_message({})
            yield added
        else:
            yield from self._close_part(self._message)
        message = self._message
        part: dict[str, Any] = {"type": "refusal", "refusal": ""}
        if isinstance(event, TextStart):
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        message.item["content"].append(part)
        message.block, message.pieces = event.block, Pieces()
        yield "response.content_part.added", {**message.part_position, "part": copy_item(part)}

    def _begin_message(self, members: dict[str, Any]) -> tuple[OpenItem, OutputEvent]:
        fields: dict[str, Any] = {"status": "in_progress", "role": "assistant", "content": []}
        if self._phase:
            fields["phase"], self._phase = self._phase, ""
        return self._begin("message", "msg", **fields, **members)

    def _close_part(self, message: OpenItem) -> Iterator[OutputEvent]:
        if not message.item["content"]:
            return
        message.write_down()
        part = message.item["content"][-1]
        position = message.part_position
        if part["type"] == "output_text":
            fields = {"text": part["text"], "logprobs": part["logprobs"]}
            yield "response.output_text.done", {**position, **fields}
        else:
            yield "response.refusal.done", {**position, "refusal": part["refusal"]}
        yield "response.content_part.done", {**position, "part": copy_item(part)}

    def _cite(self, message: OpenItem, source: Source) -> Iterable[OutputEvent]:
        part = message.item["content"][-1]
        if part["type"] != "output_text":
            return
        here = source.block == message.block and source.start is not None
        start, end = (source.start or 0, source.end or 0) if here else (0, 0)
        if (annotation := read_raw(source.raw, NAME)) is not None:
            if source.start is not None and not here:
                annotation |= dict.fromkeys(_POSITIONS & annotation.keys(), 0)
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
            self._reasoning, added = self._begin_reasoning({})
            yield added

    def _begin_reasoning(self, members: dict[str, Any]) -> tuple[OpenItem, OutputEvent]:
        return self._begin("reasoning", "rs", status="in_progress", summary=[], **members)

    def _end_reasoning(self, reasoning: OpenItem, event: ReasoningEnd) -> Iterator[OutputEvent]:
        """End a block; a signature also ends its item."""
        yield from reasoning.end_thought()
        if not (event.signature or event.encrypted):
            return
        encrypted = event.encrypted
        if event.signature or event.format != OPENAI_ENCRYPTED or encrypted is None:
            encrypted = pack(PackedSignature(event.format, event.signature, event.encrypted))
        reasoning.item["encrypted_content"] = encrypted
        if not reasoning.recorded:
            yield from self._close_reasoning("completed")

    def _start_call(self, event: ToolCallStart) -> Iterator[OutputEvent]:
        yield from self._close_calls("completed")
        yield from self._close_text("completed")
        call_id = self._call_ids[event.block] = show_call(self._stream, event.id)
        members = _members(read_raw(event.raw, NAME) or {})
        tool = self._find_tool(event.name, members.get("namespace"))
        fields = {**members, **begin_call(tool or ClientTool(), id=call_id, name=event.name)}
        call, added = self._begin(*ITEMS[tool.form if tool else "function"], **fields)
        call.tool = tool
        call.wrapped = tool is not None and tool.form == "custom"
        self._calls[event.block] = call
        yield added

    def _find_tool(self, name: str, namespace: object) -> ClientTool | None:
        """Return a called tool, by the provider's name for it, or by its own in a namespace."""
        if namespace is None:
            return self.tools.get(name)
        named = (t for t in self.tools.values() if (t.name, t.namespace) == (name, namespace))
        return next(named, None)

    def _write_arguments(self, event: ToolCallDelta) -> Iterator[OutputEvent]:
        yield from self._close_calls("completed")
        call = self._calls[event.block]
        if not call.wrapped:
            yield from self._write_call(call, event.arguments)

    def _write_call(self, call: OpenItem, piece: str) -> Iterator[OutputEvent]:
        if call.tool is None or call.tool.form == "function":
            call.pieces.append(piece)
            yield "response.function_call_arguments.delta", {**call.position, "delta": piece}
        elif call.tool.form == "custom" and piece:
            call.pieces.append(piece)
            yield "response.custom_tool_call_input.delta", {**call.position, "delta": piece}
        else:
            call.pieces.append(piece)  # its format has no deltas

    def _end_call(self, event: ToolCallEnd) -> Iterator[OutputEvent]:
        call = self._calls[event.block]
        if call.wrapped:
            yield from self._write_call(call, decode_input(event.arguments))
        elif not call.pieces and event.arguments:
            free = call.tool is not None and call.tool.form == "custom"
            if not (free and event.arguments == "{}"):  # "{}": no arguments
                yield from self._write_call(call, event.arguments)
        self._ended.append(event.block)

    def _compact(self, event: Event) -> Iterator[OutputEvent]:
        """Handle the provider's compaction, or a piece of the summary that replaces it."""
        match event:
            case TextDelta(text=text):
                data = ""
            case Opaque(format=name, data=data) if name == OPENAI_COMPACTION:
                if self._complete_compaction(data):
                    return
                text = ""
            case ProviderData() if (record := read_record(event)) is not None:
                begins = not self.items and mapping(record.fields.get("item"))
                if record.number in self._recorded or (
                    begins and begins.get("type") == _COMPACTION
                ):
                    yield from self._take_record(event)
                return
            case _:
                return
        if self._compaction is None:
            if self.items or not (data or text.strip()):
                return
            self._compaction, added = self._begin(_COMPACTION, "cmp", encrypted_content="")
            yield added
        item = self._compaction.item
        item["encrypted_content"] = item["encrypted_content"] or data
        if text:
            self._compaction.pieces.append(text)
            yield "response.compaction.compacting", self._compaction.position

    def _complete_compaction(self, data: str) -> bool:
        """Set the content of the provider's own item; return False if none is open."""
        for known in self._hosted.values():
            if known.item.get("type") == _COMPACTION:
                known.item["encrypted_content"] = data
                return True
        return False

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
                number = -1 if event.block is None else self._hosted_at.get(event.block, -1)
                if number in self._hosted:
                    yield self._end_hosted(number, data)
                    return
                yield from self._close_calls("completed")
                yield from self._close_text("completed")
                item, added = self._add(data)
            case name if name == OPENAI_COMPACTION:
                if self._complete_compaction(event.data):
                    return
                item, added = self._begin(_COMPACTION, "cmp", encrypted_content=event.data)
            case name if name in (OPENAI_REASONING, OPENAI_ENCRYPTED):
                if self._reasoning is not None and self._reasoning.recorded:
                    self._reasoning.item["encrypted_content"] = event.data
                    return
                item, added = self._begin(
                    "reasoning", "rs", summary=[], encrypted_content=event.data
                )
            case _:
                item, added = self._begin_signature(event)
        yield added
        yield self._done(item)

    def _begin_signature(self, event: Opaque) -> tuple[OpenItem, OutputEvent]:
        call = None if event.block is None else self._call_ids.get(event.block)
        data = pack(PackedSignature(event.format, data=event.data, call=call))
        return self._begin("reasoning", "rs", summary=[], encrypted_content=data)

    def _describe_call(self, call: OpenItem, event: Opaque) -> bool:
        """Apply a detail of a call from a Responses provider; return whether it fits."""
        if event.format == OPENAI_NAMESPACE:
            call.item["namespace"] = event.data
        elif call.tool is None or call.tool.form != "custom":
            return False
        else:
            call.wrapped = False
        return True

    def _take_record(self, event: ProviderData) -> Iterator[OutputEvent]:
        """Handle an event of a Responses provider."""
        record = read_record(event)
        if record is None:
            return
        kind, number, fields = record
        if kind == RESPONSE:
            self.provider_fields = fields.pop(RESPONSE)
            self.last_fields = fields
        elif number is None:
            yield kind, fields
        elif kind in (ADDED, DONE) and (item := mapping(fields.get("item"))):
            if number not in self._recorded:
                yield from self._begin_recorded(number, item, block=event.block)
            if kind == DONE:
                yield from self._end_recorded(number, item)
        elif (known := self._recorded.get(number)) is not None:
            if kind == PART and not known.writing:
                known.thought = "content"
            elif kind != PART:
                yield kind, {**fields, **known.position}

    def _begin_recorded(
        self, number: int, item: dict[str, Any], *, block: int | None
    ) -> Iterator[OutputEvent]:
        yield from self._close_calls("completed")
        yield from self._close_text("completed")
        match item.get("type"):
            case "message":
                begun, added = self._begin_message(_members(item))
                self._message = begun
            case "reasoning":
                begun, added = self._begin_reasoning(_members(item))
                self._reasoning = begun
            case _:
                own = item.get("type") == _COMPACTION  # goes to any upstream
                prefix = "cmp" if own else make_prefix(item.get("id"), tag=tag_of(self.upstream))
                shown = {"id": make_id(prefix, self._token, len(self.items))}
                begun, added = self._add({**item, **shown})
                self._hosted[number] = begun
                if block is not None:
                    self._hosted_at[block] = number
                if item.get("type") == _IMAGE:
                    self._images.add(number)
        begun.recorded, begun.block = True, block
        self._recorded[number] = begun
        yield added

    def _end_recorded(self, number: int, item: dict[str, Any]) -> Iterator[OutputEvent]:
        known = self._recorded[number]
        if number in self._hosted:
            yield self._end_hosted(number, item)
        elif known is self._message or known is self._reasoning:
            known.item |= _members(item)
            parts = known.item.get("content", [])
            for part, more in zip(parts, mappings(item.get("content")), strict=False):
                part |= {k: v for k, v in more.items() if k not in part}
            if known is self._reasoning:
                yield from self._close_reasoning("completed")

    def _end_hosted(self, number: int, item: dict[str, Any]) -> OutputEvent:
        known = self._hosted.pop(number)
        self._images.discard(number)
        names = ("id", "encrypted_content") if item.get("type") == _COMPACTION else ("id",)
        shown = {name: value for name, value in known.item.items() if name in names}
        known.item.clear()
        known.item |= {**item, **shown}
        if item.get("type") == _IMAGE and self._image_data is not None:
            known.item["result"], self._image_data = self._image_data, None
        return self._done(known)

    def _image(self, event: Media) -> Iterator[OutputEvent]:
        if self._images:
            self._image_data = event.data
            return
        yield from self._close_calls("completed")
        yield from self._close_text("completed")
        kind = event.media_type.removeprefix("image/").removesuffix("+xml")
        item, added = self._begin(_IMAGE, "ig", status="in_progress", result=None)
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
            yield from reasoning.end_thought()
            if status == "completed" and not reasoning.recorded:
                reasoning.item.setdefault("encrypted_content", pack(UNSIGNED))
            yield self._done(reasoning, status)

    def _close_calls(self, status: ItemStatus, *, all: bool = False) -> Iterator[OutputEvent]:
        """Yield the done events of ended calls, or of all."""
        blocks = sorted(self._calls if all else self._ended)
        self._ended = []
        for block in blocks:
            call = self._calls.pop(block)
            call.write_down()
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


def _members(item: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a provider's item that the relay does not set."""
    return {name: value for name, value in item.items() if name not in _RELAYS}
