"""Parser of the body of an AG-UI 1.0 run, `RunAgentInput`, to a chat request."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ....bounds import MAX_MESSAGES, MAX_TOOLS, check_parts
from ....errors import RequestError
from ....requests import (
    DeveloperMessage,
    FilePart,
    FileSource,
    Function,
    FunctionCall,
    Id,
    ImagePart,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
    UserPart,
    parse_body,
    parse_part,
)
from ....requests import Message as ChatMessage
from ...answering.assistant_message import MessageBuilder
from ...answering.attachments import build_part
from ...answering.chat_options import OPTIONS, build_chat
from ...client_format import ParsedRequest, name_of_chat
from ...reasoning_signatures import parse_signature_fields
from .renderer import PROTOCOL_VERSION, PROVIDER_CALL, TOOL_INPUTS


class AgUiObject(msgspec.Struct, frozen=True, rename="camel"):
    """A JSON object of a message; unknown fields are ignored, as the protocol requires."""


class Source(AgUiObject, frozen=True):
    type: Literal["data", "url", "file"]
    value: str
    mime_type: str | None = None


class TextContent(AgUiObject, frozen=True, tag_field="type", tag="text"):
    text: str


class Image(AgUiObject, frozen=True, tag_field="type", tag="image"):
    source: Source


class Audio(AgUiObject, frozen=True, tag_field="type", tag="audio"):
    source: Source


class Video(AgUiObject, frozen=True, tag_field="type", tag="video"):
    source: Source


class Document(AgUiObject, frozen=True, tag_field="type", tag="document"):
    source: Source


ContentPart = TextContent | Image | Audio | Video | Document


class CalledFunction(AgUiObject, frozen=True):
    name: str
    arguments: str


class Call(AgUiObject, frozen=True):
    id: str
    function: CalledFunction
    encrypted_value: str | None = None


class Developer(AgUiObject, frozen=True, tag_field="role", tag="developer"):
    content: str
    name: str | None = None


class System(AgUiObject, frozen=True, tag_field="role", tag="system"):
    content: str
    name: str | None = None


class User(AgUiObject, frozen=True, tag_field="role", tag="user"):
    content: str | list[ContentPart]
    name: str | None = None


class Assistant(AgUiObject, frozen=True, tag_field="role", tag="assistant"):
    content: str | None = None
    tool_calls: list[Call] | None = None
    encrypted_value: str | None = None


class ToolResult(AgUiObject, frozen=True, tag_field="role", tag="tool"):
    content: str | list[ContentPart]
    tool_call_id: str
    error: str | None = None


class Reasoning(AgUiObject, frozen=True, tag_field="role", tag="reasoning"):
    content: str
    encrypted_value: str | None = None


class Activity(AgUiObject, frozen=True, tag_field="role", tag="activity"):
    """The page's view of an agent's work: no content for a model."""


Message = Developer | System | User | Assistant | ToolResult | Reasoning | Activity


class PageTool(AgUiObject, frozen=True):
    """A tool that the page runs."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None


class Context(AgUiObject, frozen=True):
    description: str
    value: str


class RunAgentInput(AgUiObject, frozen=True):
    thread_id: Id
    run_id: Id
    messages: Annotated[list[Message], Meta(max_length=MAX_MESSAGES)]
    protocol_version: Id | None = None
    parent_run_id: Id | None = None
    state: Any = None
    tools: Annotated[list[PageTool], Meta(max_length=MAX_TOOLS)] | None = None
    context: list[Context] | None = None
    forwarded_props: Any = None
    resume: list[Any] | None = None


_decoder = msgspec.json.Decoder(RunAgentInput)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
MAX_UNKNOWN = 50
"""The maximum number of unknown fields that are named in a notice."""
_MIRROR = "data"
"""A field of TanStack AI's client alone, with a copy of `forwardedProps`."""
_KNOWN = frozenset(RunAgentInput.__struct_encode_fields__)


def parse_request(body: bytes) -> ParsedRequest:
    """Parse the input of a run.

    Raises:
        RequestError: `invalid_request`, with the path and the reason.
    """
    example = '{"threadId": "...", "runId": "...", "messages": [...]}'
    run = parse_body(body, _decoder, example=example)
    if run.resume:
        raise RequestError(
            "invalid_request", "resume: the relay never interrupts runs; send `messages`"
        )
    contents = (getattr(message, "content", None) for message in run.messages)
    check_parts(contents, path="messages")
    props = run.forwarded_props if isinstance(run.forwarded_props, dict) else {}
    options = {name: props[name] for name in OPTIONS if name in props}
    if run.tools:
        # `forwardedProps` may have tools too: they are appended to those of the run.
        more = options.get("tools") or []
        if isinstance(more, list):
            run_tools = [
                Tool(Function(one.name, one.description or None, one.parameters))
                for one in run.tools
            ]
            options["tools"] = [*msgspec.to_builtins(run_tools), *more]
    messages = Conversation(run.messages).read()
    chat = build_chat(_add_context(messages, run.context or ()), options, path="forwardedProps")
    fields = _fields.decode(body)
    if unknown := _list_unknown(fields):
        chat = msgspec.structs.replace(chat, left_out=unknown)
    labels = {"thread_id": run.thread_id, "run_id": run.run_id}
    if run.parent_run_id is not None:
        labels["parent_run_id"] = run.parent_run_id
    tags = labels
    if run.protocol_version is not None:
        labels = {**labels, PROTOCOL_VERSION: run.protocol_version}
    if _MIRROR in fields:
        labels = {**labels, TOOL_INPUTS: "custom"}
    name = name_of_chat(run.thread_id) if run.thread_id else None
    return ParsedRequest(chat, labels=labels, name=name, tags=tags)


def _list_unknown(fields: dict[str, msgspec.Raw]) -> tuple[str, ...]:
    """Return the names of those that the protocol does not know."""
    names = []
    for name, value in fields.items():
        if name == _MIRROR and value == fields.get("forwardedProps"):
            continue
        if name not in _KNOWN and parse_part(value, path=name[:80]) not in (None, {}, [], ""):
            names.append(name[:120])
    return tuple(names[:MAX_UNKNOWN])


def _add_context(messages: list[ChatMessage], context: Sequence[Context]) -> list[ChatMessage]:
    """Add the context as a system message, after the leading system messages."""
    if not context:
        return messages
    text = "\n\n".join(f"{one.description}:\n{one.value}" for one in context)
    first = (SystemMessage, DeveloperMessage)
    at = next((i for i, one in enumerate(messages) if not isinstance(one, first)), len(messages))
    return [*messages[:at], SystemMessage(f"Context:\n\n{text}"), *messages[at:]]


class Conversation:
    """Converts the messages of a run to those of a chat request."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._answered = {
            message.tool_call_id for message in messages if isinstance(message, ToolResult)
        }
        self._assistant = MessageBuilder()

    def read(self) -> list[ChatMessage]:
        return [
            *(one for i, m in enumerate(self._messages) for one in self._read(m, f"messages[{i}]")),
            *self._assistant.take(),
        ]

    def _read(self, message: Message, path: str) -> Iterable[ChatMessage]:
        match message:
            case Activity():
                return
            case ToolResult() if message.tool_call_id.startswith(PROVIDER_CALL):
                return
            case Reasoning():
                signatures = parse_signature_fields(message.encrypted_value)
                self._assistant.add_reasoning(message.content, signatures)
                self._assistant.add_opaque(signatures)
                return
            case Assistant():
                self._add_assistant(message)
                return
        yield from self._assistant.take()
        match message:
            case Developer():
                yield DeveloperMessage(message.content, message.name)
            case System():
                yield SystemMessage(message.content, message.name)
            case User():
                yield UserMessage(_read_content(message.content, path=path), message.name)
            case ToolResult():
                yield self._read_result(message, path=path)

    def _add_assistant(self, message: Assistant) -> None:
        signatures = parse_signature_fields(message.encrypted_value)
        self._assistant.add_text(message.content or "", signatures)
        for call in message.tool_calls or ():
            if call.id in self._answered and not call.id.startswith(PROVIDER_CALL):
                opaque = parse_signature_fields(call.encrypted_value).opaque
                function = FunctionCall(call.function.name, call.function.arguments)
                self._assistant.add_call(ToolCall(call.id, function, opaque=opaque))

    def _read_result(self, message: ToolResult, *, path: str) -> ToolMessage:
        content = _read_content(message.content, path=path)
        call = message.tool_call_id
        if isinstance(content, str):
            failed = message.error is not None or None
            return ToolMessage(content or message.error or "", call, failed)
        parts = [part for part in content if isinstance(part, TextPart | ImagePart)]
        if len(parts) < len(content):
            raise RequestError(
                "invalid_request",
                f"{path}.content: only text and images are allowed in a tool result",
            )
        return ToolMessage(parts, call, message.error is not None or None)


def _read_content(content: str | list[ContentPart], *, path: str) -> str | list[UserPart]:
    if isinstance(content, str):
        return content
    return [_read_part(part, path=f"{path}.content[{i}]") for i, part in enumerate(content)]


def _read_part(part: ContentPart, *, path: str) -> UserPart:
    if isinstance(part, TextContent):
        return TextPart(part.text)
    source = part.source
    kind = type(part).__struct_config__.tag
    media_type = source.mime_type or ("application/pdf" if kind == "document" else f"{kind}/*")
    match source.type:
        case "data" if source.mime_type is None:
            raise RequestError("invalid_request", f"{path}.source: missing field `mimeType`")
        case "data":
            url = f"data:{media_type};base64,{source.value}"
            return build_part(url, media_type, path=path)
        case "url":
            return build_part(source.value, media_type, path=path)
        case "file":
            return FilePart(FileSource(file_id=source.value))
