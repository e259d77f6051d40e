"""Conversion of the input items of a Responses request to messages.

Consecutive items of the model form one assistant message: its texts and reasoning in their
order, then its calls. Items without a counterpart outside OpenAI are recorded: in `untranslatable`
if the answer depends on them, otherwise in `ignored`.
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
    FilePart,
    FileSource,
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
    UserPart,
    convert_body,
)
from ...answering.assistant_message import AssistantPart, build_message, build_reasoning
from ...answering.custom_tools import encode_input
from ...reading.json_values import mappings, string
from ...reasoning_signatures import (
    OPENAI_COMPACTION,
    OPENAI_ENCRYPTED,
    OPENAI_PHASE,
    PackedSignature,
    is_packed,
    unpack,
)
from ..compaction_summary import COMPACTIONS, INSTRUCTION, TRIGGER, read_summary
from ..item_ids import restore_ids
from .tool_mapping import ClientTool
from .tools import OfferedTools

IGNORED: Final = ("image_generation_call",)
"""Items that the relay renders and that no provider accepts as input."""

_MAX_LISTED: Final = 20
"""The maximum number of reported kinds."""
_MAX_KIND: Final = 60
"""The maximum characters of each."""
_TEXTS: Final = ("input_text", "output_text", "text", "summary_text", "reasoning_text")

_CHECKED: Final = ("message", "reasoning", "function_call", "function_call_output")
"""The types of items whose members are checked: what others lack is named."""

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


class SearchItem(msgspec.Struct, frozen=True):
    execution: str | None = None
    call_id: str | None = None
    arguments: Any = None


class FoundItem(msgspec.Struct, frozen=True):
    tools: Annotated[list[dict[str, Any]], Meta(max_length=MAX_TOOLS)]
    execution: str | None = None
    call_id: str | None = None


class SummaryText(msgspec.Struct, frozen=True):
    text: str = ""


class ReasoningItem(msgspec.Struct, frozen=True):
    summary: list[SummaryText] | None = None
    content: list[SummaryText] | None = None
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


_ITEMS: Final = (MessageItem, CallItem, ResultItem, ReasoningItem)
_PARTS: Final = (_Text, _Refusal, _Image, _File, _Sound)
_MEMBERS: Final = frozenset(
    ("id", "type", "status", "annotations", "logprobs", "parsed", "parsed_arguments")
).union(*(kind.__struct_fields__ for kind in (*_ITEMS, *_PARTS)))
"""Their members that have a meaning here, or none for a model."""


class Conversation:
    """Converts items, in order, to messages, which `end` returns."""

    def __init__(self, offered: OfferedTools) -> None:
        self.untranslatable: list[str] = []
        self.ignored: dict[str, None] = {}
        self.unsupported: list[str] = []
        self.compacts = False
        """Whether the last item requests compaction of the preceding ones."""
        self._offered = offered
        self._messages: list[Message] = []
        self._parts: list[AssistantPart] = []
        self._calls: list[ToolCall] = []
        self._signatures: dict[str, list[Opaque]] = {}

    def take(self, item: dict[str, Any], *, path: str) -> None:
        """Convert an item.

        Raises:
            RequestError: `invalid_request`, with the path and the reason.
        """
        kind = item.get("type", "message")
        self.compacts = kind == TRIGGER
        if kind in _CHECKED:
            for value in (item, *mappings(item.get("content")), *mappings(item.get("output"))):
                for name in sorted(value.keys() - _MEMBERS):
                    if value[name] not in (None, "", []):
                        self._ignore(f"input[].{name}")
        match kind:
            case "message":
                self._take_message(convert_body(item, MessageItem, path=path), path=path)
            case "function_call":
                call = convert_body(item, CallItem, path=path)
                tool = ClientTool("function", call.name, call.namespace)
                self._call(call.call_id, tool, call.arguments)
            case "function_call_output" | "custom_tool_call_output":
                result = convert_body(item, ResultItem, path=path)
                self._answer(result.call_id, result.output, path=path)
            case "reasoning":
                self._take_reasoning(convert_body(item, ReasoningItem, path=path), path=path)
            case str() if kind in COMPACTIONS:
                self._take_compaction(convert_body(item, CompactionItem, path=path), path=path)
            case str() if kind == TRIGGER:
                pass
            case "item_reference":
                message = f"{kind!r} was not recognised; write its name without escapes"
                raise RequestError("invalid_request", f"{path}.type: {message}")
            case _:
                self._take_other(kind, item, path=path)

    def _take_other(self, kind: object, item: dict[str, Any], *, path: str) -> None:
        """Convert an item of a tool; other providers know it as a function or not at all."""
        match kind:
            case "custom_tool_call" if restore_ids(item):
                self._ignore(f"input.{kind}")  # executed by the provider
            case "custom_tool_call":
                custom = convert_body(item, CustomCallItem, path=path)
                tool = ClientTool("custom", custom.name, custom.namespace)
                self._call(custom.call_id, tool, encode_input(custom.input))
            case "tool_search_call":
                search = convert_body(item, SearchItem, path=path)
                if search.execution == "client" and search.call_id:
                    value = search.arguments
                    arguments = (
                        value if isinstance(value, str) else msgspec.json.encode(value).decode()
                    )
                    self._call(search.call_id, ClientTool("tool_search", "tool_search"), arguments)
            case "tool_search_output" | "additional_tools":
                found = convert_body(item, FoundItem, path=path)
                for number, definition in enumerate(found.tools):
                    self._offered.add(definition, path=f"{path}.tools[{number}]")
                if found.execution == "client" and found.call_id:
                    self._answer(found.call_id, _describe_tools(found.tools), path=path)
            case "agent_message":
                # A message from one of the client's agents to another.
                texts = [string(part.get("text")) for part in mappings(item.get("content"))]
                if "".join(texts):
                    self._append(UserMessage("".join(texts)))
            case str() if kind not in IGNORED:
                self._ignore(f"input.{kind}")
            case str():
                pass
            case _:
                message = f"{str(kind)[:_MAX_KIND]!r} is not supported"
                raise RequestError("invalid_request", f"{path}.type: {message}")

    def end(self) -> list[Message]:
        """Return the messages."""
        self._end_turn()
        if self.compacts:
            self._messages.append(UserMessage(INSTRUCTION))
        return self._messages

    def _ignore(self, message: str) -> None:
        if len(self.ignored) < _MAX_LISTED:
            self.ignored[message[:_MAX_KIND]] = None

    def _call(self, id: str, tool: ClientTool, arguments: str) -> None:
        name = self._offered.names.name_of(tool)
        self._calls.append(ToolCall(id, FunctionCall(name, arguments)))

    def _answer(self, id: str, output: str | Parts, *, path: str) -> None:
        converted: list[TextPart | ImagePart] = []
        if isinstance(output, str):
            self._append(ToolMessage(output, id))
            return
        for part in self._convert_parts(output, path=f"{path}.output", texts=_TEXTS):
            if isinstance(part, TextPart | ImagePart):
                converted.append(part)
            else:
                self.untranslatable.append(f"{path}.output: a file in a tool's output")
        self._append(ToolMessage(converted or "", id))

    def _append(self, message: Message) -> None:
        self._end_turn()
        self._messages.append(message)

    def _end_turn(self) -> None:
        parts, self._parts = self._parts, []
        calls, self._calls = self._calls, []
        signatures, self._signatures = self._signatures, {}
        if not parts and not calls:
            return
        signed = [ToolCall(c.id, c.function, opaque=signatures.get(c.id)) for c in calls]
        self._messages.append(build_message(parts, signed))

    def _take_message(self, item: MessageItem, *, path: str) -> None:
        content, part_path = item.content, f"{path}.content"
        if item.role == "assistant":
            if item.phase:
                self._parts.append(OpaquePart(OPENAI_PHASE, item.phase))
            self._parts += self._convert_answer(content, path=part_path)
            return
        converted = (
            content if isinstance(content, str) else self._convert_parts(content, path=part_path)
        )
        if item.role == "user":
            self._append(UserMessage(converted))
            return
        if not isinstance(converted, str) and not all(
            isinstance(part, TextPart) for part in converted
        ):
            raise RequestError(
                "invalid_request", f"{part_path}: the role {item.role!r} only allows text"
            )
        kind = SystemMessage if item.role == "system" else DeveloperMessage
        self._append(kind(converted))  # type: ignore[arg-type]  # all of it is text

    def _convert_answer(self, content: str | Parts, *, path: str) -> list[AssistantPart]:
        if isinstance(content, str):
            return [TextPart(content)] if content else []
        found: list[AssistantPart] = []
        for number, part in enumerate(content):
            part_path = f"{path}[{number}]"
            match part.get("type"):
                case kind if kind in _TEXTS:
                    found.append(TextPart(convert_body(part, _Text, path=part_path).text))
                case "refusal":
                    found.append(RefusalPart(convert_body(part, _Refusal, path=part_path).refusal))
                case kind:
                    self._ignore(f"input.content.{kind}")
        return found

    def _convert_parts(
        self, parts: Parts, *, path: str, texts: Sequence[str] = ("input_text", "text")
    ) -> list[UserPart]:
        """Convert the input parts of a user or a tool."""
        found: list[UserPart] = []
        for number, part in enumerate(parts):
            part_path = f"{path}[{number}]"
            match part.get("type"):
                case kind if kind in texts:
                    found.append(TextPart(convert_body(part, _Text, path=part_path).text))
                case "input_image":
                    found += self._convert_image(
                        convert_body(part, _Image, path=part_path), path=part_path
                    )
                case "input_file":
                    file = convert_body(part, _File, path=part_path)
                    fields = (file.file_data, file.file_id, file.filename, file.file_url)
                    found.append(FilePart(FileSource(*fields)))
                case "input_audio":
                    sound = convert_body(part, _Sound, path=part_path)
                    found.append(AudioPart(sound.input_audio))
                case kind:
                    self.untranslatable.append(f"{part_path}: a part {str(kind)[:_MAX_KIND]!r}")
        return found

    def _convert_image(self, part: _Image, *, path: str) -> list[UserPart]:
        if part.image_url is not None:
            return [ImagePart(ImageUrl(part.image_url, _DETAILS.get(part.detail or "")))]
        if part.file_id is None:
            raise RequestError("invalid_request", f"{path}.image_url: missing")
        self.untranslatable.append(f"{path}: an image by its id")
        return []

    def _take_reasoning(self, item: ReasoningItem, *, path: str) -> None:
        """Convert a reasoning item; its signature belongs to the last of its texts."""
        texts = [part.text for part in item.summary or item.content or () if part.text]
        encrypted = item.encrypted_content or ""
        packed = _unpack(encrypted, path=path) if encrypted else PackedSignature()
        if packed is None:
            packed = PackedSignature(OPENAI_ENCRYPTED, encrypted=encrypted)
        if packed.data is not None:
            self._take_opaque(packed.format or "", packed.data, call=packed.call)
        last = texts.pop() if texts else ""
        self._parts += [ReasoningPart(text) for text in texts]
        self._parts += build_reasoning(last, packed)

    def _take_compaction(self, item: CompactionItem, *, path: str) -> None:
        """Convert a compaction item: the relay's own summary, or a provider's."""
        packed = _unpack(item.encrypted_content, path=path)
        if packed is None:
            self.unsupported.append(f"{path}: a provider's compaction")
            self._parts.append(OpaquePart(OPENAI_COMPACTION, item.encrypted_content))
        elif summary := read_summary(packed):
            self._append(UserMessage(summary))

    def _take_opaque(self, format: str, data: str, *, call: str | None) -> None:
        if call is None:
            self._parts.append(OpaquePart(format, data))
        else:
            self._signatures.setdefault(call, []).append(Opaque(format, data))


_DETAILS: Final[dict[str, Literal["auto", "low", "high"]]] = {
    "auto": "auto",
    "low": "low",
    "high": "high",
    "original": "high",
}
"""Only newer OpenAI models support "original"."""


def _unpack(encrypted: str, *, path: str) -> PackedSignature | None:
    """Reverse `pack`; return None if the relay did not issue the value.

    Raises:
        RequestError: `invalid_request`, the relay issued it, but it was modified.
    """
    packed = unpack(encrypted)
    if packed is None and is_packed(encrypted):
        message = f"{path}.encrypted_content: modified since the relay sent it; send it unchanged"
        raise RequestError("invalid_request", message)
    return packed


def _describe_tools(tools: Parts) -> str:
    """Return the description of found tools for the model."""
    names = [
        string(tool.get("name"))
        for entry in tools
        for tool in (mappings(entry.get("tools")) if entry.get("type") == "namespace" else [entry])
    ]
    if not names:
        return "No tools were found."
    return f"These tools can be called now: {', '.join(names)}"
