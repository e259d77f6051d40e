"""A Chat Completions request of a client, as the one form there is.

The form is nearly the same: what differs is what clients send back of an assistant's
message, and fields that only some providers know. Those go on under their own names, as
`provider_options` do.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from app.bounds import MAX_MESSAGES
from app.dialects.front import Asked
from app.dialects.openai_chat.renderer import USAGE
from app.dialects.openai_chat.request import GOOGLE_SIGNATURE
from app.errors import RequestError
from app.requests import (
    AssistantMessage,
    Body,
    ChatRequest,
    DeveloperMessage,
    FunctionCall,
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
    parse_body,
)

PASSED_ON: Final = (
    *("audio", "logit_bias", "modalities", "moderation", "prediction"),
    *("service_tier", "verbosity", "web_search_options"),
)
"""The fields that go on to the provider as they are: not all providers know them."""

_NO_MATTER: Final[dict[str, object]] = {"modalities": ["text"], "service_tier": "auto"}
"""What clients say of such a field to say nothing."""

OLDER: Final = {"functions": "tools", "function_call": "tool_choice"}
"""The fields that are refused, and what took their place."""

Part = TextPart | RefusalPart | ReasoningPart | OpaquePart


class GoogleExtra(msgspec.Struct, frozen=True):
    thought_signature: str | None = None


class ExtraContent(msgspec.Struct, frozen=True):
    """What stands beside a call and proves it."""

    google: GoogleExtra | None = None
    seseragi: dict[str, str] | None = None


class Function(FunctionCall, frozen=True):
    parsed_arguments: Any = None
    """What the client's helper has made of them."""


class Call(ToolCall, frozen=True):
    function: Function
    extra_content: ExtraContent | None = None
    index: int | None = None
    """Of a call put together from its deltas."""


class Detail(msgspec.Struct, frozen=True):
    """OpenRouter's form of reasoning, and of what proves it."""

    type: str
    text: str | None = None
    summary: str | None = None
    data: str | None = None
    signature: str | None = None
    format: str | None = None


class Assistant(Body, frozen=True, tag_field="role", tag="assistant"):
    """An answer sent back, as the official clients dump it."""

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
    function_call: Any = None
    parsed: Any = None


class FunctionMessage(msgspec.Struct, frozen=True, tag_field="role", tag="function"):
    """The older form of a tool's result, which is refused."""


class StreamOptions(Body, frozen=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Request(ChatRequest, frozen=True):
    """What `POST /v1/chat/completions` takes."""

    messages: Annotated[  # type: ignore[assignment]  # it is turned into the base's
        list[
            SystemMessage
            | DeveloperMessage
            | UserMessage
            | Assistant
            | ToolMessage
            | FunctionMessage
        ],
        Meta(min_length=1, max_length=MAX_MESSAGES),
    ]
    stream_options: StreamOptions | None = None
    safety_identifier: str | None = None
    audio: dict[str, Any] | None = None
    logit_bias: dict[str, float] | None = None
    modalities: list[Literal["text", "audio", "image"]] | None = None
    moderation: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    service_tier: str | None = None
    verbosity: str | None = None
    web_search_options: dict[str, Any] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None
    store: bool | None = None
    functions: Any = None
    function_call: Any = None


_decoder = msgspec.json.Decoder(Request)


def parse_request(body: bytes) -> Asked:
    """Read a request.

    Raises:
        RequestError: `invalid_request`, with the place and the reason.
    """
    request = parse_body(body, _decoder, example='{"model": "demo", "messages": [...]}')
    for name, newer in OLDER.items():
        if getattr(request, name) is not None:
            raise RequestError(
                "invalid_request", f"{name}: the older form of {newer} is not taken; use {newer}"
            )
    fields = {name: getattr(request, name) for name in ChatRequest.__struct_fields__}
    fields |= {
        "messages": [
            _parse_message(m, place=f"messages[{i}]") for i, m in enumerate(request.messages)
        ],
        "stream": request.stream is True,
        "user": request.user or request.safety_identifier,
        "provider_options": _pass_on(request) or None,
    }
    options = request.stream_options
    labels = {USAGE: "1"} if options is not None and options.include_usage else {}
    return Asked(ChatRequest(**fields), labels)


def _pass_on(request: Request) -> dict[str, Any]:
    found = {name: getattr(request, name) for name in PASSED_ON}
    said = {
        name: value
        for name, value in found.items()
        if value is not None and value != _NO_MATTER.get(name)
    }
    return {**said, **(request.provider_options or {})}


def _parse_message(message: Any, *, place: str) -> Message:
    match message:
        case FunctionMessage():
            raise RequestError(
                "invalid_request", f"{place}.role: 'function' is not taken; use 'tool'"
            )
        case Assistant():
            return _parse_assistant(message, place=place)
        case _:
            known: Message = message
            return known


def _parse_assistant(message: Assistant, *, place: str) -> AssistantMessage:
    if message.function_call is not None:
        raise RequestError(
            "invalid_request", f"{place}.function_call: it is not taken; use tool_calls"
        )
    if message.audio is not None and not message.content:
        raise RequestError(
            "invalid_request", f"{place}.audio: it cannot be sent back; send its transcript"
        )
    proofs = _parse_details(message.reasoning_details or ())
    content: str | list[Part] | None = message.content
    if proofs:
        said = [TextPart(content)] if isinstance(content, str) and content else content or []
        content = [*proofs, *(part for part in said if isinstance(part, Part))]
    return AssistantMessage(
        content=content,
        refusal=message.refusal,
        tool_calls=[_parse_call(call) for call in message.tool_calls or ()] or None,
        name=message.name,
        reasoning_content=None if proofs else message.reasoning_content or message.reasoning,
    )


def _parse_details(details: Any) -> list[Part]:
    """Read `reasoning_details`: data right after a text of its format proves that text."""
    parts: list[Part] = []
    for detail in details:
        text = detail.text or detail.summary or ""
        if text or detail.signature:
            parts.append(ReasoningPart(text, detail.signature, format=detail.format))
        if not detail.data:
            continue
        last = parts[-1] if parts else None
        if isinstance(last, ReasoningPart) and last.format == detail.format and not _proved(last):
            parts[-1] = msgspec.structs.replace(last, encrypted=detail.data)
        elif detail.format is None:
            parts.append(ReasoningPart(encrypted=detail.data))
        else:
            parts.append(OpaquePart(detail.format, detail.data))
    return parts


def _proved(part: ReasoningPart) -> bool:
    return bool(part.signature or part.encrypted)


def _parse_call(call: Call) -> ToolCall:
    opaque = list(call.opaque or ())
    if (extra := call.extra_content) is not None:
        if extra.google is not None and extra.google.thought_signature:
            opaque.append(Opaque(GOOGLE_SIGNATURE, extra.google.thought_signature))
        opaque += [Opaque(name, data) for name, data in (extra.seseragi or {}).items()]
    function = FunctionCall(call.function.name, call.function.arguments)
    return ToolCall(call.id, function, opaque=opaque or None)
