"""The items of a Responses request, as messages.

What the model did between two messages of others is one turn: its texts and what it
thought in their order, then its calls.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from app.dialects.openai_responses.items import COMPACTION, ENCRYPTED, PHASE
from app.dialects.packed import Proof, is_packed, unpack
from app.errors import RequestError
from app.requests import (
    AssistantMessage,
    AudioPart,
    Body,
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

Answered = TextPart | RefusalPart | ReasoningPart | OpaquePart
Given = TextPart | ImagePart | AudioPart | FilePart

IGNORED: Final = ("image_generation_call",)
"""The items that the relay gives and no provider is sent back."""


class Input(Body, frozen=True, kw_only=True):
    """What a part of others' messages may have that changes nothing of the answer."""

    prompt_cache_breakpoint: Any = None


class InputText(Input, frozen=True, tag_field="type", tag="input_text"):
    text: str


class InputImage(Input, frozen=True, tag_field="type", tag="input_image"):
    image_url: str | None = None
    detail: Literal["auto", "low", "high"] | None = None
    file_id: None = None


class InputFile(Input, frozen=True, tag_field="type", tag="input_file"):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None
    file_url: None = None


class InputSound(Input, frozen=True, tag_field="type", tag="input_audio"):
    input_audio: InputAudio


class OutputText(Body, frozen=True, tag_field="type", tag="output_text"):
    text: str
    annotations: Any = None
    logprobs: Any = None
    parsed: Any = None


class Refusal(Body, frozen=True, tag_field="type", tag="refusal"):
    refusal: str


Part = InputText | InputImage | InputFile | InputSound | OutputText | Refusal


class Item(Body, frozen=True):
    """What any item may have and nothing depends on."""

    type: str = "message"
    id: str | None = None
    status: str | None = None
    created_by: str | None = None


class MessageItem(Item, frozen=True, kw_only=True):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Part]
    phase: str | None = None


class CallItem(Item, frozen=True, kw_only=True):
    call_id: str
    name: str
    arguments: str
    parsed_arguments: Any = None
    caller: None = None
    namespace: None = None
    async_: None = msgspec.field(default=None, name="async")


class ResultItem(Item, frozen=True, kw_only=True):
    call_id: str
    output: str | list[InputText | InputImage]
    name: str | None = None
    caller: None = None
    namespace: None = None


class Said(msgspec.Struct, frozen=True):
    text: str


class ReasoningItem(Item, frozen=True, kw_only=True):
    summary: list[Said] | None = None
    content: list[Said] | None = None
    encrypted_content: str | None = None


class CompactionItem(Item, frozen=True, kw_only=True):
    encrypted_content: str


def parse_input(items: Sequence[dict[str, Any]]) -> list[Message]:
    """Give the messages that the items are.

    Raises:
        RequestError: `invalid_request`, with the place and the reason.
    """
    conversation = _Conversation()
    for number, item in enumerate(items):
        conversation.take(item, place=f"input[{number}]")
    return conversation.end()


class _Conversation:
    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._parts: list[Answered] = []
        self._calls: list[ToolCall] = []
        self._proofs: dict[str, list[Opaque]] = {}

    def take(self, item: dict[str, Any], *, place: str) -> None:
        kind = item.get("type", "message")
        match kind:
            case "message":
                self._take_message(convert_body(item, MessageItem, place=place), place=place)
            case "function_call":
                call = convert_body(item, CallItem, place=place)
                function = FunctionCall(call.name, call.arguments)
                self._calls.append(ToolCall(call.call_id, function))
            case "function_call_output":
                result = convert_body(item, ResultItem, place=place)
                self._say(ToolMessage(_parse_output(result, place=place), result.call_id))
            case "reasoning":
                self._think(convert_body(item, ReasoningItem, place=place), place=place)
            case "compaction":
                said = convert_body(item, CompactionItem, place=place)
                self._parts.append(OpaquePart(COMPACTION, said.encrypted_content))
            case _ if kind not in IGNORED:
                what = f"{str(kind)[:60]!r} is not taken"
                if kind == "item_reference":
                    what += "; the relay keeps no items: send the item itself"
                raise RequestError("invalid_request", f"{place}.type: {what}")

    def end(self) -> list[Message]:
        self._end_turn()
        return self._messages

    def _say(self, message: Message) -> None:
        self._end_turn()
        self._messages.append(message)

    def _end_turn(self) -> None:
        parts, self._parts = self._parts, []
        calls, self._calls = self._calls, []
        proofs, self._proofs = self._proofs, {}
        if not parts and not calls:
            return
        only = parts[0].text if len(parts) == 1 and isinstance(parts[0], TextPart) else None
        proved = [ToolCall(c.id, c.function, opaque=proofs.get(c.id)) for c in calls]
        self._messages.append(AssistantMessage(only or parts or None, tool_calls=proved or None))

    def _take_message(self, item: MessageItem, *, place: str) -> None:
        if item.role == "assistant":
            self._parts += _parse_answer(item.content, place=place)
            if item.phase:
                self._parts.append(OpaquePart(PHASE, item.phase))
            return
        given = _parse_given(item.content, place=place)
        if item.role == "user":
            self._say(UserMessage(given))
            return
        if not isinstance(given, str) and not all(isinstance(part, TextPart) for part in given):
            raise RequestError(
                "invalid_request", f"{place}.content: the role {item.role!r} has only text"
            )
        kind = SystemMessage if item.role == "system" else DeveloperMessage
        self._say(kind(given))  # type: ignore[arg-type]  # all of it is text

    def _think(self, item: ReasoningItem, *, place: str) -> None:
        """Take what was thought: the proof stands with the last of its texts."""
        texts = [part.text for part in item.summary or item.content or () if part.text]
        encrypted = item.encrypted_content or ""
        proof = unpack(encrypted) if encrypted else Proof()
        if proof is None:
            if is_packed(encrypted):
                raise RequestError(
                    "invalid_request", f"{place}.encrypted_content: it is not as the relay gave it"
                )
            proof = Proof(ENCRYPTED, encrypted=encrypted)
        if proof.data is not None:
            self._take_opaque(proof.format or "", proof.data, call=proof.call)
        last = texts.pop() if texts else ""
        self._parts += [ReasoningPart(text) for text in texts]
        if last or proof.signature or proof.encrypted:
            part = ReasoningPart(last, proof.signature, proof.encrypted, proof.format)
            self._parts.append(part)

    def _take_opaque(self, format: str, data: str, *, call: str | None) -> None:
        if call is None:
            self._parts.append(OpaquePart(format, data))
        else:
            self._proofs.setdefault(call, []).append(Opaque(format, data))


def _parse_answer(content: str | list[Part], *, place: str) -> list[Answered]:
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    found: list[Answered] = []
    for number, part in enumerate(content):
        match part:
            case OutputText() | InputText():
                found.append(TextPart(part.text))
            case Refusal():
                found.append(RefusalPart(part.refusal))
            case _:
                raise _misplaced(part, f"{place}.content[{number}]")
    return found


def _parse_given(content: str | list[Part], *, place: str) -> str | list[Given]:
    if isinstance(content, str):
        return content
    return [_parse_part(p, place=f"{place}.content[{i}]") for i, p in enumerate(content)]


def _parse_part(part: Part, *, place: str) -> Given:
    match part:
        case InputText():
            return TextPart(part.text)
        case InputImage():
            return _parse_image(part, place=place)
        case InputFile():
            return FilePart(FileData(part.file_data, part.file_id, part.filename))
        case InputSound():
            return AudioPart(part.input_audio)
        case _:
            raise _misplaced(part, place)


def _parse_image(part: InputImage, *, place: str) -> ImagePart:
    if part.image_url is None:
        raise RequestError("invalid_request", f"{place}.image_url: it is missing")
    return ImagePart(ImageUrl(part.image_url, part.detail))


def _parse_output(item: ResultItem, *, place: str) -> str | list[TextPart | ImagePart]:
    if isinstance(item.output, str):
        return item.output
    return [
        TextPart(part.text)
        if isinstance(part, InputText)
        else _parse_image(part, place=f"{place}.output[{number}]")
        for number, part in enumerate(item.output)
    ]


def _misplaced(part: Part, place: str) -> RequestError:
    kind = part.__struct_config__.tag
    return RequestError("invalid_request", f"{place}.type: {kind!r} has no place there")
