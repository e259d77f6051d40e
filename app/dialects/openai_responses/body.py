"""A Responses request of a client, as the one form there is.

What other than the conversation it says, and is taken, is one of the fields below. The
items of the conversation are in `turns`.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from app.bounds import MAX_MESSAGES, MAX_TOOLS, check_parts
from app.dialects.front import Asked
from app.dialects.openai_responses.result import BACKGROUND, ECHO
from app.dialects.openai_responses.turns import parse_input
from app.errors import RequestError
from app.requests import (
    Body,
    ChatRequest,
    Function,
    JsonObjectFormat,
    JsonSchema,
    JsonSchemaFormat,
    Linger,
    Message,
    Natural,
    SystemMessage,
    TextFormat,
    Tool,
    ToolChoice,
    ToolChoiceFunction,
    UserMessage,
    parse_body,
)

_LOGPROBS: Final = "message.output_text.logprobs"

_NOT_KEPT: Final = "the relay keeps no conversations; send the items of all turns as input"
REFUSED: Final = {
    "previous_response_id": _NOT_KEPT,
    "conversation": _NOT_KEPT,
    "prompt": "the relay keeps no prompts; send it as instructions and input",
    "context_management": "the relay does not shorten conversations",
}
"""The fields that are known and not taken, and why."""

_LISTS: Final = ("content", "output", "summary")
"""Where the parts of an item are."""

ECHOED: Final = (
    *("max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls"),
    *("prompt_cache_key", "safety_identifier", "store", "temperature", "top_logprobs", "top_p"),
    *("truncation", "user"),
)
"""The fields that the response says again. Not the instructions and the tools: readers of a
stream need not be those who asked."""


MAX_ECHO: Final = 10 * 1024
"""Bytes of them that are kept with the stream: the most metadata that OpenAI takes, and some."""


class FunctionTool(Body, frozen=True):
    type: Literal["function"]
    name: Annotated[str, Meta(min_length=1)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class NamedFunction(Body, frozen=True):
    type: Literal["function"]
    name: str


class SchemaFormat(Body, frozen=True, tag_field="type", tag="json_schema"):
    name: str
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


class Text(Body, frozen=True):
    format: TextFormat | JsonObjectFormat | SchemaFormat | None = None
    verbosity: str | None = None


class Reasoning(Body, frozen=True):
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class Request(Body, frozen=True):
    """What `POST /v1/responses` takes."""

    input: str | Annotated[list[dict[str, Any]], Meta(max_length=MAX_MESSAGES)]
    model: str | None = None
    instructions: str | None = None
    stream: bool | None = None
    background: bool | None = None
    max_output_tokens: Natural | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    tools: Annotated[list[FunctionTool], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedFunction | None = None
    parallel_tool_calls: bool | None = None
    text: Text | None = None
    reasoning: Reasoning | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    moderation: dict[str, Any] | None = None
    service_tier: str | None = None
    include: list[str] | None = None
    max_tool_calls: int | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None
    store: bool | None = None
    stream_options: dict[str, Any] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    previous_response_id: Any = None
    conversation: Any = None
    prompt: Any = None
    context_management: Any = None
    provider_options: dict[str, Any] | None = None
    on_disconnect: Literal["continue", "cancel"] | Linger | None = None


_decoder = msgspec.json.Decoder(Request)


def parse_request(body: bytes) -> Asked:
    """Read a request.

    Raises:
        RequestError: `invalid_request`, with the place and the reason.
    """
    request = parse_body(body, _decoder, example='{"model": "demo", "input": "Hi"}')
    for name, reason in REFUSED.items():
        if getattr(request, name) is not None:
            raise RequestError("invalid_request", f"{name}: it is not taken; {reason}")
    logprobs = bool(request.top_logprobs) or _LOGPROBS in (request.include or ())
    chat = ChatRequest(
        messages=_parse_messages(request),
        model=request.model,
        stream=request.stream is True,
        max_completion_tokens=request.max_output_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        logprobs=logprobs or None,
        top_logprobs=request.top_logprobs,
        tools=[_parse_tool(tool) for tool in request.tools or ()] or None,
        tool_choice=_parse_choice(request),
        parallel_tool_calls=request.parallel_tool_calls,
        response_format=_parse_format(request.text),
        reasoning_effort=request.reasoning.effort if request.reasoning else None,
        metadata=request.metadata,
        user=request.user or request.safety_identifier,
        provider_options=_pass_on(request) or None,
        on_disconnect=_parse_leaving(request),
    )
    labels = {ECHO: msgspec.json.encode(_echo(request)).decode()}
    return Asked(chat, labels | ({BACKGROUND: "1"} if request.background else {}))


def _parse_leaving(request: Request) -> Literal["continue", "cancel"] | float | None:
    if request.on_disconnect is None and request.background:
        return "continue"
    return request.on_disconnect


def _parse_messages(request: Request) -> list[Message]:
    head: list[Message] = [SystemMessage(request.instructions)] if request.instructions else []
    if isinstance(request.input, str):
        return [*head, UserMessage(request.input)]
    if not request.input:
        raise RequestError("invalid_request", "input: it is empty; send a text or items")
    lists = (item.get(name) for item in request.input for name in _LISTS)
    check_parts(lists, place="input")
    return [*head, *parse_input(request.input)]


def _parse_tool(tool: FunctionTool) -> Tool:
    return Tool(Function(tool.name, tool.description, tool.parameters, tool.strict))


def _parse_choice(request: Request) -> Any:
    choice = request.tool_choice
    return (
        ToolChoice(ToolChoiceFunction(choice.name)) if isinstance(choice, NamedFunction) else choice
    )


def _parse_format(
    text: Text | None,
) -> TextFormat | JsonObjectFormat | JsonSchemaFormat | None:
    form = text.format if text else None
    if isinstance(form, SchemaFormat):
        schema = JsonSchema(form.name, form.schema, form.description, form.strict)
        return JsonSchemaFormat(schema)
    return None if isinstance(form, TextFormat) else form


def _pass_on(request: Request) -> dict[str, Any]:
    """Give what goes on to the provider as it is, which not all providers know."""
    said: dict[str, Any] = {}
    if request.service_tier not in (None, "auto", "default"):
        said["service_tier"] = request.service_tier
    if request.moderation is not None:
        said["moderation"] = request.moderation
    if request.text is not None and request.text.verbosity is not None:
        said["text"] = msgspec.to_builtins(request.text)
    return {**said, **(request.provider_options or {})}


def _echo(request: Request) -> dict[str, Any]:
    """Give the fields that the response says again, without the largest if they are too many.

    What is left out is told as if it had not been said, which every client understands.
    """
    fields = {name: getattr(request, name) for name in ECHOED}
    found = {name: value for name, value in fields.items() if value is not None}
    if request.tool_choice is not None:
        found["tool_choice"] = msgspec.to_builtins(request.tool_choice)
    if request.reasoning is not None and request.reasoning.effort:
        found["reasoning"] = {"effort": request.reasoning.effort, "summary": None}
    if request.text is not None:
        found["text"] = _echo_text(request.text)
    sizes = {name: len(msgspec.json.encode(value)) for name, value in found.items()}
    left = sum(sizes.values())
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if left <= MAX_ECHO:
            break
        left -= sizes[name]
        del found[name]
    return found


def _echo_text(text: Text) -> dict[str, Any]:
    """Give the format without the schema, which readers need not see either."""
    form = text.format or TextFormat()
    said: dict[str, Any] = {"format": {**msgspec.to_builtins(form)}}
    if isinstance(form, SchemaFormat):
        said["format"] |= {"schema": {}, "description": None, "strict": form.strict}
    return said | ({"verbosity": text.verbosity} if text.verbosity else {})
