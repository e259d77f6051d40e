"""Conversion of an interaction's steps to events.

A step is a thought, output of the model, a function call, or the call or result of a tool that
Google runs. `step.start` has its type, and sometimes its first content; its deltas add to it, each
with a type of its own; `step.stop` ends it. Steps have an index, since they may interleave.
Unknown steps and deltas are ignored.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from ....reading.answer_bounds import ENTRY
from ....reading.event_builder import EventBuilder
from ....reading.json_values import count, encode, mapping, mappings, size, string, text_or_none
from ....reading.provider_errors import MAX_TEXT
from ....reading.utf8_text import Utf8Text
from .request import STEP, THOUGHT

_MEDIA: Final = ("image", "audio", "video", "document")
_MODEL_STEPS: Final = ("", "model_output", "thought", "function_call")
"""The types of steps that are no tool's; "" without a `step.start`."""
_TOOLS: Final = ("_call", "_result")
"""The ends of the types of a tool's steps."""


@dataclass(slots=True, eq=False)
class _Step:
    index: int
    type: str
    block: int | None = None
    """The latest block of its text, call or tool."""
    whole: bool = True
    """Whether its text is one block, whose bytes citations count."""
    initial: dict[str, Any] = field(default_factory=dict)
    """The arguments at the start of a call, which count unless deltas follow."""
    written: bool = False
    """Whether a call has arguments."""
    fields: dict[str, Any] = field(default_factory=dict)
    """The members of a tool's step so far."""
    size: int = ENTRY
    """Approximate bytes of the step."""
    sound: int | None = None
    """The block of its audio, which arrives in pieces."""
    media_type: str | None = None


class Steps:
    """Converts the steps of one stream."""

    def __init__(self, builder: EventBuilder) -> None:
        self.begun = False
        """Whether any step has begun."""
        self._builder = builder
        self._open: dict[int, _Step] = {}
        self._tools: dict[str, int] = {}
        """The blocks of tools, by the ids of their calls."""
        self._cited: _Step | None = None
        """The step of `_text`."""
        self._text = Utf8Text()
        self._signature = ""
        """The last signature of a thought without text: it belongs to a call that follows."""

    def start(self, index: int, step: dict[str, Any]) -> None:
        self.begun = True
        self.stop(index)
        found = self._add(index, string(step.get("type")))
        if found.type == "function_call":
            self._call(found, step)
            return
        self._flush()
        if _is_tool(found.type):
            self._tool(found, step)
        for item in mappings(step.get("summary")):
            self._summary(found, item)
        for item in mappings(step.get("content")):
            self.delta(index, item)
        if found.type == "thought":
            self._sign(found, string(step.get("signature")))
        if message := string(mapping(step.get("error")).get("message")):
            self._builder.notice("finish_message", message[:MAX_TEXT])

    def delta(self, index: int, delta: dict[str, Any]) -> None:
        step = self._open.get(index) or self._add(index, "")
        kind = string(delta.get("type")) or "text"  # agents omit the type
        if _is_tool(kind) or _is_tool(step.type):
            self._tool(step, delta)
        elif step.type not in _MODEL_STEPS:
            return
        elif kind == "text":
            self._write(step, string(delta.get("text")))
            self._cite(step, delta.get("annotations"))
        elif kind == "arguments_delta":
            self._arguments(step, delta.get("arguments"))
        elif kind == "thought_summary":
            self._summary(step, mapping(delta.get("content")))
        elif kind == "thought_signature":
            self._sign(step, string(delta.get("signature")))
        elif kind == "text_annotation_delta":
            self._cite(step, delta.get("annotations"))
        elif kind in _MEDIA:
            self._media(step, kind, delta)

    def stop(self, index: int) -> None:
        step = self._open.pop(index, None)
        if step is None:
            return
        builder = self._builder
        if step.type == "function_call":
            if step.initial and not step.written:
                self._arguments(step, step.initial)
            builder.end_tool_call(0, step.block)
        elif _is_tool(step.type):
            self._end_tool(step)
        elif step.block is not None and builder.open_block(0) == step.block:
            builder.end_text(0)
        builder.release(step.size)

    def finish(self) -> None:
        """End all steps, as the interaction ends."""
        for index in list(self._open):
            self.stop(index)
        self._flush()

    def _add(self, index: int, kind: str) -> _Step:
        self._builder.reserve(ENTRY)
        step = self._open[index] = _Step(index, kind)
        return step

    def _flush(self, *, block: int | None = None) -> None:
        """Emit the signature of a thought, in the `block` of the call that follows if any."""
        signature, self._signature = self._signature, ""
        self._builder.opaque(0, THOUGHT, signature, block=block)

    def _sign(self, step: _Step, signature: str) -> None:
        """Handle the signature of a thought: of its text, or if it has none of what follows."""
        builder, block = self._builder, step.block
        if not signature:
            return
        if step.type == "function_call":
            builder.opaque(0, THOUGHT, signature, block=block)
        elif block is not None and builder.open_block(0) == block:
            builder.sign(0, "signature", signature, format=THOUGHT)
        else:
            self._flush()
            self._signature = signature

    def _write(self, step: _Step, text: str) -> None:
        if not text:
            return
        builder = self._builder
        if builder.open_block(0) != step.block:
            builder.end_text(0)  # another step's; if it continues, in a new block
        if step.type == "thought":
            builder.reasoning(0, text)
            step.block = builder.open_block(0)
            return
        builder.text(0, text)
        block = builder.text_block(0)
        if step.block is None:
            self._cited, self._text = step, Utf8Text()
        elif block != step.block:
            step.whole = False
        step.block = block
        if self._cited is step:
            self._text.add(text)

    def _summary(self, step: _Step, item: dict[str, Any]) -> None:
        if item.get("type") == "image":
            self._builder.notice("thought_media", "the draft of an image was dropped")
        elif step.type in ("", "thought"):
            step.type = "thought"
            self._write(step, string(item.get("text")))

    def _cite(self, step: _Step, annotations: object) -> None:
        known = step.whole and self._cited is step
        for annotation in mappings(annotations):
            end, span = count(annotation.get("end_index")), None
            if known and end is not None:
                span = self._text.characters(count(annotation.get("start_index")) or 0, end)
            self._source(annotation, span=span, block=step.block)

    def _source(
        self,
        source: dict[str, Any],
        *,
        span: tuple[int, int] | None = None,
        block: int | None = None,
    ) -> None:
        """Emit a citation's page, place or document, or a tool's result with the same fields."""
        url, name = text_or_none(source.get("url")), text_or_none(source.get("file_name"))
        uri = text_or_none(source.get("document_uri"))
        if url is None and uri is not None and uri.startswith(("https:", "http:")):
            url, uri = uri, None
        titles = (source.get(key) for key in ("title", "name", "file_name"))
        self._builder.source(
            0,
            url=url,
            document=name or uri or (None if url else text_or_none(source.get("source"))),
            title=next(filter(None, map(text_or_none, titles)), None),
            span=span or (None, None),
            block=block,
        )

    def _media(self, step: _Step, kind: str, delta: dict[str, Any]) -> None:
        data, url = text_or_none(delta.get("data")), text_or_none(delta.get("uri"))
        if data is None and url is None:
            return
        named = text_or_none(delta.get("mime_type")) or step.media_type
        step.media_type = named
        rate = count(delta.get("sample_rate")) or count(delta.get("rate"))
        if named == "audio/l16" and rate:
            named = f"{named};rate={rate}"
        sound = kind == "audio" and url is None
        self._builder.end_text(0)
        block = self._builder.media(
            0,
            named or "application/octet-stream",
            url=url,
            data=data,
            block=step.sound if sound else None,
        )
        step.sound = block if sound else step.sound

    def _call(self, step: _Step, call: dict[str, Any]) -> None:
        """Begin a call of a function."""
        step.initial = mapping(call.get("arguments"))
        step.block = self._builder.tool_call(
            0,
            index=step.index,
            id=string(call.get("id")),
            name=string(call.get("name")),
            arguments="",
        )
        self._flush(block=step.block)
        self._sign(step, string(call.get("signature")))

    def _arguments(self, step: _Step, piece: object) -> None:
        if step.type in ("", "function_call") and isinstance(piece, str | dict):
            step.type, step.written = "function_call", True
            step.block = self._builder.tool_call(
                0, index=step.index, id="", name="", arguments=piece
            )

    def _tool(self, step: _Step, more: dict[str, Any]) -> None:
        """Handle the input or the output of a tool that Google runs, or a part of it."""
        kind = string(more.get("type"))
        if step.type == "" and _is_tool(kind):
            step.type = kind
        if not _is_tool(step.type) or kind not in ("", step.type):
            return
        extra = size(more)
        self._builder.reserve(extra)
        step.size += extra
        # The start has empty values, which the delta fills.
        step.fields |= {key: value for key, value in more.items() if value not in ("", None)}
        if step.type.endswith("_call"):
            if arguments := more.get("arguments"):
                self._input(step, input=arguments)
        elif more.get("result") not in (None, "", []):
            self._output(step, more["result"])

    def _input(self, step: _Step, **values: Any) -> None:
        step.block = self._builder.provider_tool(0, _name(step), block=step.block, **values)
        if (key := string(step.fields.get("id"))) and key not in self._tools:
            self._builder.reserve(ENTRY + len(key))
            self._tools[key] = step.block

    def _output(self, step: _Step, result: object) -> None:
        failed = step.fields.get("is_error") is True
        output = {"is_error": True, "result": result} if failed else result
        known = self._tools.get(string(step.fields.get("call_id")))
        block = known if step.block is None else step.block
        step.block = self._builder.provider_tool(0, _name(step), block=block, output=output)
        for found in mappings(result):
            if found.get("status") in (None, "success"):
                self._source(found)
            for place in mappings(found.get("places")):
                self._source(place)

    def _end_tool(self, step: _Step) -> None:
        """Emit a step as it has to be sent back."""
        if step.block is None and step.type.endswith("_call"):
            self._input(step)
        block = step.block
        if block is None:
            block = self._tools.get(string(step.fields.get("call_id")))
        whole = encode({"type": step.type, **step.fields})
        self._builder.opaque(0, STEP, whole.decode(), block=block)


def _is_tool(kind: str) -> bool:
    return kind.endswith(_TOOLS) and kind != "function_call"


def _name(step: _Step) -> str:
    """Return "google_search" for a `google_search_call`, and for an MCP call the tool's name."""
    name = string(step.fields.get("name"))
    return name or step.type.removesuffix("_call").removesuffix("_result")
