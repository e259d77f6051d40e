"""The items of a Responses request, as messages.

What the model did between two messages of others is one turn: its texts and what it
thought in their order, then its calls. What others than OpenAI have no words for is listed: in
`beyond` where the answer depends on it, else in `ignored`.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from ....bounds import MAX_TOOLS
from ....errors import RequestError
from ....requests import (
    AudioPart,
    DeveloperMessage,
    FileData,
    FilePart,
    FunctionCall,
    ImagePart,
    ImageUrl,
    InputAudio,
    Message,
    Opaque,
    OpaquePart,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    convert_body,
)
from ...answering.assistant_message import build_message
from ...answering.packed_proofs import PackedProof, is_packed, unpack
from ...proof_formats import OPENAI_COMPACTION, OPENAI_ENCRYPTED, OPENAI_PHASE
from ...reading.json_values import mappings, string
from ..summary import COMPACTIONS, INSTRUCTION, TRIGGER, read_summary
from .tool_calls import INPUT, Called
from .tools import Offered

Answered = TextPart | RefusalPart | ReasoningPart | OpaquePart
Given = TextPart | ImagePart | AudioPart | FilePart

IGNORED: Final = ("image_generation_call",)
"""The items that the relay gives and no provider is sent back."""

_MAX_LISTED: Final = 20
"""Kinds of what is left out that are told."""
_MAX_KIND: Final = 60
"""Characters of each."""
_TEXTS: Final = ("input_text", "output_text", "text", "summary_text", "reasoning_text")

Parts = list[dict[str, Any]]


class MessageItem(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | Parts
    phase: str | None = None


class CallItem(msgspec.Struct, frozen=True):
    call_id: str
    name: str
    arguments: str
    namespace: str | None = None


class CustomCallItem(msgspec.Struct, frozen=True):
    call_id: str
    name: str
    input: str
    namespace: str | None = None


class ResultItem(msgspec.Struct, frozen=True):
    call_id: str
    output: str | Parts


class ShellCallItem(msgspec.Struct, frozen=True):
    action: dict[str, Any]
    call_id: str | None = None
    id: str | None = None


class ShellResultItem(msgspec.Struct, frozen=True):
    output: str | Parts
    call_id: str | None = None
    id: str | None = None
    """OpenAI's own documents call the call by it."""


class SearchItem(msgspec.Struct, frozen=True):
    execution: str | None = None
    call_id: str | None = None
    arguments: Any = None


class FoundItem(msgspec.Struct, frozen=True):
    tools: Annotated[list[dict[str, Any]], Meta(max_length=MAX_TOOLS)]
    execution: str | None = None
    call_id: str | None = None


class Said(msgspec.Struct, frozen=True):
    text: str = ""


class ReasoningItem(msgspec.Struct, frozen=True):
    summary: list[Said] | None = None
    content: list[Said] | None = None
    encrypted_content: str | None = None


class CompactionItem(msgspec.Struct, frozen=True):
    encrypted_content: str


class _Text(msgspec.Struct, frozen=True):
    text: str


class _Refusal(msgspec.Struct, frozen=True):
    refusal: str


class _Image(msgspec.Struct, frozen=True):
    image_url: str | None = None
    detail: str | None = None
    file_id: str | None = None


class _File(msgspec.Struct, frozen=True):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None
    file_url: str | None = None


class _Sound(msgspec.Struct, frozen=True):
    input_audio: InputAudio


class Conversation:
    """Converts items, in their order, to messages, which `end` returns."""

    def __init__(self, offered: Offered) -> None:
        self.beyond: list[str] = []
        self.ignored: dict[str, None] = {}
        self.foreign: list[str] = []
        self.compacts = False
        """Whether the last item asks for a compaction of those before it."""
        self._offered = offered
        self._messages: list[Message] = []
        self._parts: list[Answered] = []
        self._calls: list[ToolCall] = []
        self._proofs: dict[str, list[Opaque]] = {}

    def take(self, item: dict[str, Any], *, place: str) -> None:
        """Take an item.

        Raises:
            RequestError: `invalid_request`, with the place and the reason.
        """
        kind = item.get("type", "message")
        self.compacts = kind == TRIGGER
        match kind:
            case "message":
                self._take_message(convert_body(item, MessageItem, place=place), place=place)
            case "function_call":
                call = convert_body(item, CallItem, place=place)
                called = Called("function", call.name, call.namespace)
                self._call(call.call_id, called, call.arguments)
            case "function_call_output" | "custom_tool_call_output":
                result = convert_body(item, ResultItem, place=place)
                self._answer(result.call_id, result.output, place=place)
            case "reasoning":
                self._think(convert_body(item, ReasoningItem, place=place), place=place)
            case str() if kind in COMPACTIONS:
                self._recall(convert_body(item, CompactionItem, place=place), place=place)
            case str() if kind == TRIGGER:
                pass
            case "item_reference":
                what = f"{kind!r} was not recognised; write its name without escapes"
                raise RequestError("invalid_request", f"{place}.type: {what}")
            case _:
                self._take_other(kind, item, place=place)

    def _take_other(self, kind: object, item: dict[str, Any], *, place: str) -> None:
        """Take an item of a tool; other providers know it as a function or not at all."""
        match kind:
            case "custom_tool_call":
                custom = convert_body(item, CustomCallItem, place=place)
                called = Called("custom", custom.name, custom.namespace)
                arguments = msgspec.json.encode({INPUT: custom.input}).decode()
                self._call(custom.call_id, called, arguments)
            case "local_shell_call":
                shell = convert_body(item, ShellCallItem, place=place)
                action = {k: v for k, v in shell.action.items() if k != "type" and v is not None}
                called = Called("local_shell", "local_shell")
                arguments = msgspec.json.encode(action).decode()
                self._call(shell.call_id or shell.id or "", called, arguments)
            case "local_shell_call_output":
                told = convert_body(item, ShellResultItem, place=place)
                self._answer(told.call_id or told.id or "", told.output, place=place)
            case "tool_search_call":
                search = convert_body(item, SearchItem, place=place)
                if search.execution == "client" and search.call_id:
                    said = search.arguments
                    arguments = (
                        said if isinstance(said, str) else msgspec.json.encode(said).decode()
                    )
                    self._call(search.call_id, Called("tool_search", "tool_search"), arguments)
            case "tool_search_output" | "additional_tools":
                found = convert_body(item, FoundItem, place=place)
                for number, tool in enumerate(found.tools):
                    self._offered.add(tool, place=f"{place}.tools[{number}]")
                if found.execution == "client" and found.call_id:
                    self._answer(found.call_id, _describe_tools(found.tools), place=place)
            case "agent_message":
                # Of one of the client's agents to another.
                texts = [string(part.get("text")) for part in mappings(item.get("content"))]
                if "".join(texts):
                    self._say(UserMessage("".join(texts)))
            case str() if kind not in IGNORED:
                self._ignore(f"input.{kind}")
            case str():
                pass
            case _:
                what = f"{str(kind)[:_MAX_KIND]!r} is not taken"
                raise RequestError("invalid_request", f"{place}.type: {what}")

    def end(self) -> list[Message]:
        """Return the messages."""
        self._end_turn()
        if self.compacts:
            self._messages.append(UserMessage(INSTRUCTION))
        return self._messages

    def _ignore(self, what: str) -> None:
        if len(self.ignored) < _MAX_LISTED:
            self.ignored[what[:_MAX_KIND]] = None

    def _call(self, id: str, called: Called, arguments: str) -> None:
        name = self._offered.names.name_of(called)
        self._calls.append(ToolCall(id, FunctionCall(name, arguments)))

    def _answer(self, id: str, output: str | Parts, *, place: str) -> None:
        shown: list[TextPart | ImagePart] = []
        if isinstance(output, str):
            self._say(ToolMessage(output, id))
            return
        for part in self._show(output, place=f"{place}.output", texts=_TEXTS):
            if isinstance(part, TextPart | ImagePart):
                shown.append(part)
            else:
                self.beyond.append(f"{place}.output: a file in a tool's output")
        self._say(ToolMessage(shown or "", id))

    def _say(self, message: Message) -> None:
        self._end_turn()
        self._messages.append(message)

    def _end_turn(self) -> None:
        parts, self._parts = self._parts, []
        calls, self._calls = self._calls, []
        proofs, self._proofs = self._proofs, {}
        if not parts and not calls:
            return
        proved = [ToolCall(c.id, c.function, opaque=proofs.get(c.id)) for c in calls]
        self._messages.append(build_message(parts, proved))

    def _take_message(self, item: MessageItem, *, place: str) -> None:
        content, where = item.content, f"{place}.content"
        if item.role == "assistant":
            if item.phase:
                self._parts.append(OpaquePart(OPENAI_PHASE, item.phase))
            self._parts += self._read_answer(content, place=where)
            return
        given = content if isinstance(content, str) else self._show(content, place=where)
        if item.role == "user":
            self._say(UserMessage(given))
            return
        if not isinstance(given, str) and not all(isinstance(part, TextPart) for part in given):
            raise RequestError("invalid_request", f"{where}: the role {item.role!r} has only text")
        kind = SystemMessage if item.role == "system" else DeveloperMessage
        self._say(kind(given))  # type: ignore[arg-type]  # all of it is text

    def _read_answer(self, content: str | Parts, *, place: str) -> list[Answered]:
        if isinstance(content, str):
            return [TextPart(content)] if content else []
        found: list[Answered] = []
        for number, part in enumerate(content):
            where = f"{place}[{number}]"
            match part.get("type"):
                case kind if kind in _TEXTS:
                    found.append(TextPart(convert_body(part, _Text, place=where).text))
                case "refusal":
                    found.append(RefusalPart(convert_body(part, _Refusal, place=where).refusal))
                case "input_image" | "input_file" | "input_audio" as kind:
                    raise _misplaced(kind, where)
                case kind:
                    self._ignore(f"input.content.{kind}")
        return found

    def _show(
        self, parts: Parts, *, place: str, texts: Sequence[str] = ("input_text", "text")
    ) -> list[Given]:
        """Return the parts of what a user or a tool shows to the model."""
        found: list[Given] = []
        for number, part in enumerate(parts):
            where = f"{place}[{number}]"
            match part.get("type"):
                case kind if kind in texts:
                    found.append(TextPart(convert_body(part, _Text, place=where).text))
                case "input_image":
                    found += self._show_image(convert_body(part, _Image, place=where), place=where)
                case "input_file":
                    file = convert_body(part, _File, place=where)
                    if file.file_url is None:
                        data = FileData(file.file_data, file.file_id, file.filename)
                        found.append(FilePart(data))
                    else:
                        self.beyond.append(f"{where}: a file by its URL")
                case "input_audio":
                    sound = convert_body(part, _Sound, place=where)
                    found.append(AudioPart(sound.input_audio))
                case "output_text" | "refusal" as kind:
                    raise _misplaced(kind, where)
                case kind:
                    self.beyond.append(f"{where}: a part {str(kind)[:_MAX_KIND]!r}")
        return found

    def _show_image(self, part: _Image, *, place: str) -> list[Given]:
        if part.image_url is not None:
            return [ImagePart(ImageUrl(part.image_url, _DETAILS.get(part.detail or "")))]
        if part.file_id is None:
            raise RequestError("invalid_request", f"{place}.image_url: it is missing")
        self.beyond.append(f"{place}: an image by its id")
        return []

    def _think(self, item: ReasoningItem, *, place: str) -> None:
        """Take what was thought: the proof stands with the last of its texts."""
        texts = [part.text for part in item.summary or item.content or () if part.text]
        encrypted = item.encrypted_content or ""
        proof = _unpack(encrypted, place=place) if encrypted else PackedProof()
        if proof is None:
            proof = PackedProof(OPENAI_ENCRYPTED, encrypted=encrypted)
        if proof.data is not None:
            self._take_opaque(proof.format or "", proof.data, call=proof.call)
        last = texts.pop() if texts else ""
        self._parts += [ReasoningPart(text) for text in texts]
        if last or proof.signature or proof.encrypted:
            part = ReasoningPart(last, proof.signature, proof.encrypted, proof.format)
            self._parts.append(part)

    def _recall(self, item: CompactionItem, *, place: str) -> None:
        """Take what stands for the conversation before it: a summary of ours, or a provider's."""
        proof = _unpack(item.encrypted_content, place=place)
        if proof is None:
            self.foreign.append(f"{place}: a provider's compaction")
            self._parts.append(OpaquePart(OPENAI_COMPACTION, item.encrypted_content))
        elif summary := read_summary(proof):
            self._say(UserMessage(summary))

    def _take_opaque(self, format: str, data: str, *, call: str | None) -> None:
        if call is None:
            self._parts.append(OpaquePart(format, data))
        else:
            self._proofs.setdefault(call, []).append(Opaque(format, data))


_DETAILS: Final[dict[str, Literal["auto", "low", "high"]]] = {
    **{"auto": "auto", "low": "low", "high": "high", "original": "high"}
}
"""How close an image is looked at; only newer models of OpenAI look at it as it is."""


def _unpack(encrypted: str, *, place: str) -> PackedProof | None:
    """Undo `pack`; None for what the relay did not pack.

    Raises:
        RequestError: `invalid_request`, the relay packed it, and it was changed.
    """
    proof = unpack(encrypted)
    if proof is None and is_packed(encrypted):
        what = f"{place}.encrypted_content: it is not as the relay gave it"
        raise RequestError("invalid_request", what)
    return proof


def _describe_tools(tools: Parts) -> str:
    """Return what the model is told of the tools that were found for it."""
    names = [
        string(tool.get("name"))
        for given in tools
        for tool in (mappings(given.get("tools")) if given.get("type") == "namespace" else [given])
    ]
    if not names:
        return "No tools were found."
    return f"These tools can be called now: {', '.join(names)}"


def _misplaced(kind: str, place: str) -> RequestError:
    return RequestError("invalid_request", f"{place}.type: {kind!r} has no place there")
