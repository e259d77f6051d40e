"""Parser of clients' Chat Completions requests.

The format nearly equals `ChatBody`; it differs in the assistant messages that clients send
back, and in fields that only some providers support, the `extras`. Requests with other
fields go through `unknown_fields`, which is slower.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Annotated, Any, Final, Literal

import msgspec
import msgspec.inspect
from msgspec import Meta

from ....bounds import MAX_MESSAGES
from ....errors import RequestError
from ....requests import (
    AssistantMessage,
    Body,
    CacheControl,
    ChatBody,
    ChatRequest,
    DeveloperMessage,
    FunctionCall,
    Opaque,
    OpaquePart,
    Open,
    ReasoningPart,
    RefusalPart,
    Rest,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    check_body,
    convert_body,
    parse_body,
    parse_fields,
    values_of,
)
from ...client_format import ParsedRequest
from ...reading.json_values import mapping, string
from ...reasoning_signatures import CLAUDE_REDACTED, GOOGLE_SIGNATURE
from ..reasoning_details import join_details
from .deltas import OWN_AUDIO
from .renderer import USAGE
from .unknown_fields import translate

EXTRAS: Final = (
    "audio",
    "logit_bias",
    "modalities",
    "moderation",
    "prediction",
    "prompt_cache_options",
    "web_search_options",
)
"""OpenAI's fields that `ChatBody` lacks: not all providers support them."""

_EXAMPLE: Final = '{"model": "demo", "messages": [...]}'

Part = TextPart | RefusalPart | ReasoningPart | OpaquePart


class GoogleExtra(msgspec.Struct, frozen=True):
    thought_signature: str | None = None


class ExtraContent(msgspec.Struct, frozen=True):
    """The `extra_content` of a call: provider signatures."""

    google: GoogleExtra | None = None
    seseragi: dict[str, str] | None = None


class Function(FunctionCall, frozen=True):
    parsed_arguments: Any = None
    """The arguments as parsed by the client's helper."""


class Call(ToolCall, frozen=True):
    function: Function
    extra_content: ExtraContent | None = None
    index: int | None = None
    """Present in calls that a client assembled from deltas."""


class Detail(msgspec.Struct, frozen=True):
    """One of OpenRouter's `reasoning_details`."""

    type: str
    text: str | None = None
    summary: str | None = None
    data: str | None = None
    signature: str | None = None
    format: str | None = None
    index: int | None = None


class Thinking(msgspec.Struct, frozen=True):
    """One of LiteLLM's `thinking_blocks`, a copy of Claude's content block."""

    type: str
    thinking: str = ""
    signature: str | None = None
    data: str | None = None


class Assistant(Open, frozen=True, tag_field="role", tag="assistant"):
    """An assistant message as the official clients serialize it."""

    content: str | list[Part] | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None
    name: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Detail] | None = None
    annotations: Any = None
    images: Any = None
    audio: Any = None
    function_call: None = None
    parsed: Any = None
    thinking_blocks: list[Thinking] | None = None
    cache_control: CacheControl | None = None


class StreamOptions(Body, frozen=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Request(ChatBody, frozen=True):
    """The body of `POST /v1/chat/completions`."""

    messages: Annotated[  # type: ignore[assignment]  # converted to the base's type
        list[SystemMessage | DeveloperMessage | UserMessage | Assistant | ToolMessage],
        Meta(min_length=1, max_length=MAX_MESSAGES),
    ]
    stream_options: StreamOptions | None = None
    audio: dict[str, Any] | None = None
    logit_bias: dict[str, float] | None = None
    modalities: list[Literal["text", "audio", "image"]] | None = None
    moderation: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    prompt_cache_options: dict[str, Any] | None = None
    web_search_options: dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(Request)
_kinds = {
    field.name: field.type
    for field in msgspec.inspect.type_info(Request).fields  # type: ignore[attr-defined]  # a struct
}


_MESSAGES: Final = ChatBody.__struct_fields__.index("messages")
_STREAM: Final = ChatBody.__struct_fields__.index("stream")
_extras_of = attrgetter(*EXTRAS)
_NO_EXTRAS: Final = (None,) * len(EXTRAS)


def parse_request(body: bytes) -> ParsedRequest:
    """Parse a request body.

    Raises:
        RequestError: `invalid_request`, with the path and the reason.
    """
    check_body(body, example=_EXAMPLE)
    try:
        request, translated = _decoder.decode(body), None
    except msgspec.ValidationError:
        translated = translate(parse_fields(body), kinds=_kinds)
        request = convert_body(translated.fields, Request, path="")
    except (msgspec.DecodeError, RecursionError):
        request, translated = parse_body(body, _decoder, example=_EXAMPLE), None  # raises
    values: Any = [*values_of(request)]
    values[_MESSAGES] = [
        _parse_assistant(message, path=f"messages[{number}]")
        if isinstance(message, Assistant)
        else message
        for number, message in enumerate(request.messages)
    ]
    values[_STREAM] = request.stream is True
    options = request.stream_options
    labels = {USAGE: "1"} if options is not None and options.include_usage else {}
    extras = _list_extras(request)
    if translated is not None:
        extras |= translated.extras
        labels |= translated.labels
    chat = ChatRequest(*values)
    if translated is not None:
        members, left_out = translated.members, translated.left_out
        chat = msgspec.structs.replace(chat, members=members, left_out=left_out)
    if b'"audio"' in body and (spoken := _list_spoken(request)):
        chat = msgspec.structs.replace(chat, members=(*chat.members, *spoken))
    if extras:
        chat = msgspec.structs.replace(chat, extras=extras)
    return ParsedRequest(chat, labels)


def _list_extras(request: Request) -> dict[str, Any]:
    values = _extras_of(request)
    if values == _NO_EXTRAS:
        return {}
    found = dict(zip(EXTRAS, values, strict=True))
    if found["modalities"] == ["text"]:
        del found["modalities"]  # the default
    return {name: value for name, value in found.items() if value is not None}


def _list_spoken(request: Request) -> list[str]:
    """Return the paths of answers' sounds; of one without a text with the message's number."""
    return [
        f"messages[{'' if message.content else number}].audio"
        for number, message in enumerate(request.messages)
        if isinstance(message, Assistant) and message.audio is not None
    ]


def _parse_assistant(message: Assistant, *, path: str) -> AssistantMessage:
    rest = message.rest
    if message.audio is not None:
        audio = string(mapping(message.audio).get("id"))
        if audio and not OWN_AUDIO.fullmatch(audio):
            rest = Rest(rest or {}, audio={"id": audio})
        elif not message.content:
            what = f"{path}.audio: not supported as input; send its transcript"
            raise RequestError("invalid_request", what)
    reasoning = _parse_details(message.reasoning_details) if message.reasoning_details else []
    if message.thinking_blocks and not reasoning:
        reasoning = _parse_thinking(message.thinking_blocks)
    content: str | list[Part] | None = message.content
    if reasoning:
        parts = [TextPart(content)] if isinstance(content, str) and content else content or []
        content = [*reasoning, *(part for part in parts if isinstance(part, Part))]
    return AssistantMessage(
        content=content,
        refusal=message.refusal,
        tool_calls=[_parse_call(call) for call in message.tool_calls or ()] or None,
        name=message.name,
        reasoning_content=None if reasoning else message.reasoning_content or message.reasoning,
        cache_control=message.cache_control,
        rest=rest,
    )


def _parse_thinking(blocks: Iterable[Thinking]) -> list[Part]:
    """Parse `thinking_blocks`, whose signatures are Claude's."""
    parts: list[Part] = []
    for block in blocks:
        if block.data:
            parts.append(OpaquePart(CLAUDE_REDACTED, block.data))
        elif block.thinking or block.signature:
            parts.append(ReasoningPart(block.thinking, block.signature))
    return parts


def _parse_details(pieces: Iterable[Detail]) -> list[Part]:
    """Parse `reasoning_details`; encrypted data belongs to a preceding text of the same format."""
    parts: list[Part] = []
    details = join_details(map(msgspec.structs.asdict, pieces))
    for detail in msgspec.convert(details, list[Detail]):
        text = detail.text or detail.summary or ""
        if text or detail.signature:
            parts.append(ReasoningPart(text, detail.signature, format=detail.format))
        if not detail.data:
            continue
        match parts:
            case [*_, ReasoningPart(signature=None | "", encrypted=None | "") as last] if (
                last.format == detail.format
            ):
                parts[-1] = msgspec.structs.replace(last, encrypted=detail.data)
            case _ if detail.format is None:
                parts.append(ReasoningPart(encrypted=detail.data))
            case _:
                parts.append(OpaquePart(detail.format, detail.data))
    return parts


def _parse_call(call: Call) -> ToolCall:
    opaque = list(call.opaque or ())
    if (extra := call.extra_content) is not None:
        if extra.google is not None and extra.google.thought_signature:
            opaque.append(Opaque(GOOGLE_SIGNATURE, extra.google.thought_signature))
        opaque += [Opaque(name, data) for name, data in (extra.seseragi or {}).items()]
    function = FunctionCall(call.function.name, call.function.arguments)
    return ToolCall(call.id, function, opaque=opaque or None, rest=call.rest)
