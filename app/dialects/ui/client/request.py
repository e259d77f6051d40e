"""Parser of the body that `useChat` posts: UI messages to a chat request.

An assistant's message may contain several steps, each an answer of the model with the tool
results after it, separated by `step-start` parts.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ....bounds import MAX_MESSAGES, check_parts
from ....errors import RequestError
from ....requests import (
    Body,
    FunctionCall,
    Id,
    Message,
    Opaque,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    UserPart,
    convert_body,
    parse_body,
    parse_fields,
)
from ...answering.assistant_message import MessageBuilder
from ...answering.attachments import build_part
from ...answering.chat_options import build_chat
from ...client_format import ParsedRequest, name_of_chat
from ...reasoning_signatures import OPENAI_ITEM, SignatureFields
from .messages import DENIED, Approval, File, Text, Tool

IGNORED = ("source-url", "source-document")
"""Parts without content for a model; the page's own parts, `data-...`, are ignored too."""

NOT_OPTIONS = ("id", "messages", "trigger", "messageId")


class UiMessage(Body, frozen=True):
    role: Literal["system", "user", "assistant"]
    parts: list[dict[str, Any]]
    id: Id = ""
    metadata: Any = None


class UiRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of `DefaultChatTransport`; pages add the options of a chat request."""

    id: Annotated[str, Meta(min_length=1, max_length=255)]
    messages: Annotated[list[UiMessage], Meta(max_length=MAX_MESSAGES)]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: Id | None = None


_requests = msgspec.json.Decoder(UiRequest)


def parse_request(body: bytes) -> ParsedRequest:
    """Parse the request of a chat's next turn.

    Raises:
        RequestError: `invalid_request`, with the path and the reason.
    """
    request = parse_body(body, _requests, example='{"id": "...", "messages": [...]}')
    check_parts((message.parts for message in request.messages), path="messages")
    options = {key: value for key, value in parse_fields(body).items() if key not in NOT_OPTIONS}
    messages = _history(request)
    continued = _continued(request, messages)
    chat = build_chat(_convert(messages), options, path="")
    labels = {"message_id": continued} if continued else {}
    if denied := [call for m in messages if m.id == continued for call in _denied(m)]:
        labels[DENIED] = _json(denied)
    tags = {"chat": request.id} if request.id else {}
    return ParsedRequest(chat, labels=labels, name=name_of_chat(request.id), tags=tags)


def _history(request: UiRequest) -> Sequence[UiMessage]:
    """Return the messages without the answer to regenerate, which the SDK has left out."""
    messages = request.messages
    if request.trigger == "submit-message" or not request.message_id:
        return messages
    indices = [i for i, message in enumerate(messages) if message.id == request.message_id]
    at = indices[-1] if indices else len(messages)
    return messages[: at + 1 if indices and messages[at].role != "assistant" else at]


def _continued(request: UiRequest, messages: Sequence[UiMessage]) -> str | None:
    """Return the id of the assistant message that the client will append the answer to."""
    if request.trigger == "regenerate-message" or not messages:
        return None
    named = [m for m in messages if request.message_id and m.id == request.message_id]
    message = named[-1] if named else messages[-1]
    return message.id or None if message.role == "assistant" else None


def _denied(message: UiMessage) -> list[str]:
    """Return the calls that the user has just denied, which the answer reports to the client."""
    answered = (part for part in message.parts if part.get("state") == "approval-responded")
    tools = [convert_body(part, Tool, path="") for part in answered]
    return [tool.tool_call_id for tool in tools if tool.denied and not tool.provider_executed]


def _convert(messages: Iterable[UiMessage]) -> list[Message]:
    """Convert UI messages to those of a chat request."""
    found: list[Message] = []
    for number, message in enumerate(messages):
        path = f"messages[{number}]"
        match message.role:
            case "system":
                found.append(SystemMessage(_read_system(message, path=path)))
            case "user":
                found.append(UserMessage(_read_user(message, path=path)))
            case "assistant":
                step = _Step()
                for index, part in enumerate(message.parts):
                    if part.get("type") == "step-start":
                        found += step.messages()
                        step = _Step()
                    else:
                        step.add(part, path=f"{path}.parts[{index}]")
                found += step.messages()
    return found


class _Step:
    """One answer of the model, and the results of its calls."""

    def __init__(self) -> None:
        self._answer = MessageBuilder()
        self._results: list[ToolMessage] = []
        self._decisions: list[SignatureFields] = []
        """Of the user, about the provider's calls; the request for one is in a later part."""

    def add(self, part: dict[str, Any], *, path: str) -> None:
        match part.get("type"):
            case "text":
                text = _text(part, path=path)
                self._answer.add_text(text.text, text.signatures)
            case "reasoning":
                text = _text(part, path=path)
                self._answer.add_reasoning(text.text, text.signatures)
                self._answer.add_opaque(text.signatures)
            case "file":
                convert_body(part, File, path=path)  # no provider accepts a generated file back
            case str(kind) if kind == "dynamic-tool" or kind.startswith("tool-"):
                tool = convert_body(part, Tool, path=path)
                self._add_tool(tool, tool.tool_name or kind.removeprefix("tool-"), path=path)
            case kind:
                _check_ignored(kind, path=path)

    def messages(self) -> Iterable[Message]:
        for decision in self._decisions:
            self._answer.add_opaque(decision)
        yield from self._answer.take()
        yield from self._results

    def _add_tool(self, tool: Tool, name: str, *, path: str) -> None:
        if tool.provider_executed:
            if tool.state == "approval-responded" and tool.approval is not None:
                self._decisions.append(_decide(tool.approval))
            return
        if tool.state == "approval-responded" and not tool.denied:
            raise RequestError(
                "invalid_request",
                f"{path}: the call is approved but has no output; the relay does not run tools, "
                "so run it in the page and send its output",
            )
        if not tool.answered:
            return
        call = FunctionCall(name, _arguments(tool))
        self._answer.add_call(ToolCall(tool.tool_call_id, call, opaque=tool.opaque))
        failed = tool.state != "output-available" or None
        self._results.append(ToolMessage(_result(tool), tool.tool_call_id, failed))


def _decide(approval: Approval) -> SignatureFields:
    """Return the user's decision about a call that the provider will run."""
    item = {
        "type": "mcp_approval_response",
        "approval_request_id": approval.id,
        "approve": bool(approval.approved),
    }
    if approval.reason:
        item["reason"] = approval.reason
    return SignatureFields(opaque=[Opaque(OPENAI_ITEM, _json(item))])


def _arguments(tool: Tool) -> str:
    """Return the arguments as JSON text; invalid JSON is wrapped in an object."""
    arguments = tool.raw_input if tool.input is None else tool.input
    if isinstance(arguments, str):
        if tool.opaque or tool.state != "output-error":
            return arguments  # free text, or JSON text
        arguments = {"rawInvalidInput": arguments}
    return _json({} if arguments is None else arguments)


def _result(tool: Tool) -> str:
    if tool.state == "output-error":
        return tool.error_text
    if tool.state != "output-available":
        reason = tool.approval.reason if tool.approval else None
        return reason or "The user denied the call of this tool."
    return tool.output if isinstance(tool.output, str) else _json(tool.output)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _text(part: dict[str, Any], *, path: str) -> Text:
    return convert_body(part, Text, path=path)


def _read_system(message: UiMessage, *, path: str) -> str:
    texts = []
    for number, part in enumerate(message.parts):
        where = f"{path}.parts[{number}]"
        if part.get("type") == "text":
            texts.append(_text(part, path=where).text)
        else:
            _check_ignored(part.get("type"), path=where)
    return "".join(texts)


def _read_user(message: UiMessage, *, path: str) -> str | list[UserPart]:
    found: list[UserPart] = []
    for number, part in enumerate(message.parts):
        where = f"{path}.parts[{number}]"
        match part.get("type"):
            case "text":
                if text := _text(part, path=where).text:
                    found.append(TextPart(text))
            case "file":
                file = convert_body(part, File, path=where)
                found.append(
                    build_part(file.url, file.media_type, filename=file.filename, path=where)
                )
            case kind:
                _check_ignored(kind, path=where)
    if not found:
        raise RequestError("invalid_request", f"{path}: has neither text nor file")
    only = found[0]
    return only.text if len(found) == 1 and isinstance(only, TextPart) else found


def _check_ignored(kind: object, *, path: str) -> None:
    if kind in IGNORED or (isinstance(kind, str) and kind.startswith("data-")):
        return
    what = f"part type {repr(kind)[:60]} is not allowed here"
    raise RequestError("invalid_request", f"{path}: {what}")
