"""Parser of clients' Responses requests.

Upstreams with the same format receive the request unchanged. For all others it is converted to
a chat request, with a list of the parts that cannot be expressed in it. Known fields are
type-checked. `messages` converts the items, `tools` the tools.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from ....bounds import MAX_MESSAGES, MAX_TOOLS, check_parts
from ....errors import RequestError
from ....requests import (
    ChatRequest,
    ClientBody,
    JsonObjectFormat,
    JsonSchema,
    JsonSchemaFormat,
    Linger,
    Message,
    Natural,
    SystemMessage,
    ToolChoice,
    ToolChoiceFunction,
    UserMessage,
    parse_body,
    parse_fields,
)
from ...client_format import ParsedRequest
from ...reading.json_values import mappings, string
from .. import NAME
from .messages import Conversation
from .result import BACKGROUND, COMPACTS, ECHO
from .tool_mapping import ClientTool
from .tools import OfferedTools

_LOGPROBS: Final = "message.output_text.logprobs"

REFUSED: Final = {
    # Resolved earlier if the response can be continued.
    "previous_response_id": "send the items of all turns as input here",
    "conversation": "not stored by the relay; send previous_response_id, or the items of all turns",
    "prompt": "not stored by the relay; send it as instructions and input",
}
"""The known fields that are rejected, with the remedy."""

_RELAY_FIELDS: Final = (
    "model",
    "stream",
    "background",
    "provider_options",
    "on_disconnect",
    *REFUSED,
)
"""The relay's own fields, which no upstream receives."""

_MAX_LISTED: Final = 20
_MAX_NAME: Final = 60
"""The maximum number of fields in a notice, and characters of each."""

_LISTS: Final = ("content", "output", "summary")
"""The fields of an item that contain parts."""

ECHOED: Final = (
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "safety_identifier",
    "store",
    "temperature",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
)
"""The fields that the response repeats. Instructions and tools are not among them: readers of a
stream may not be its creator.
"""


MAX_ECHO: Final = 10 * 1024
"""Bytes of the repeated fields, which are stored with the stream: OpenAI's maximum metadata,
and more.
"""


class SchemaFormat(msgspec.Struct, frozen=True, tag_field="type", tag="json_schema"):
    name: str
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


class PlainFormat(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    pass


class JsonFormat(msgspec.Struct, frozen=True, tag_field="type", tag="json_object"):
    pass


class Text(msgspec.Struct, frozen=True):
    format: PlainFormat | JsonFormat | SchemaFormat | None = None
    verbosity: str | None = None


class Reasoning(msgspec.Struct, frozen=True):
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class Request(msgspec.Struct, frozen=True):
    """The body of `POST /v1/responses`."""

    input: str | Annotated[list[dict[str, Any]], Meta(max_length=MAX_MESSAGES)]
    model: str | None = None
    instructions: str | None = None
    stream: bool | None = None
    background: bool | None = None
    max_output_tokens: Natural | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    tools: Annotated[list[dict[str, Any]], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    text: Text | None = None
    reasoning: Reasoning | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    moderation: dict[str, Any] | None = None
    service_tier: str | None = None
    include: list[str] | None = None
    max_tool_calls: Natural | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    store: bool | None = None
    truncation: str | None = None
    previous_response_id: Any = None
    conversation: Any = None
    prompt: Any = None
    provider_options: dict[str, Any] | None = None
    on_disconnect: Literal["continue", "cancel"] | Linger | None = None


_decoder = msgspec.json.Decoder(Request)

_KNOWN: Final = {*Request.__struct_fields__, "stream_options"}
_EXTRAS: Final = ("moderation", "prompt_cache_options")
"""The fields that Chat Completions has too, and the chat request lacks."""


def parse_request(body: bytes) -> ParsedRequest:
    """Parse a request body.

    Raises:
        RequestError: `invalid_request`, with the path and the reason.
    """
    request = parse_body(body, _decoder, example='{"model": "demo", "input": "Hi"}')
    for name, reason in REFUSED.items():
        if getattr(request, name) is not None:
            raise RequestError("invalid_request", f"{name}: not supported; {reason}")
    logprobs = bool(request.top_logprobs) or _LOGPROBS in (request.include or ())
    offered = OfferedTools(request.tools or [])
    conversation = Conversation(offered)
    messages = _parse_messages(request, conversation)
    tool_choice = _ToolChoice(offered)
    choice = tool_choice.parse(request.tool_choice)
    tools = tool_choice.tools
    reasoning = request.reasoning or Reasoning()
    fields = {name: value for name, value in parse_fields(body).items() if value is not None}
    if fields.get("service_tier") in ("auto", "default"):
        del fields["service_tier"]
    if not isinstance(request.input, str):
        fields["input"] = request.input  # the parsed list; avoids a second copy
    if isinstance(fields.get("stream_options"), dict):
        # `include_usage` does not exist here: usage is always sent.
        options = fields["stream_options"]
        fields["stream_options"] = {k: options[k] for k in ("include_obfuscation",) if k in options}
    hosted = [f"tools.{kind}" for kind in dict.fromkeys(offered.hosted)][:_MAX_LISTED]
    hosted += [*offered.ignored][:_MAX_LISTED]
    client_body = ClientBody(
        NAME,
        {k: v for k, v in fields.items() if k not in _RELAY_FIELDS},
        untranslatable=(*conversation.untranslatable, *tool_choice.untranslatable),
        ignored=_list_ignored(request, fields, [*conversation.ignored, *hosted]),
        unsupported=tuple(conversation.unsupported),
    )
    chat = ChatRequest(
        messages,
        model=request.model,
        stream=request.stream is True,
        temperature=request.temperature,
        top_p=request.top_p,
        top_logprobs=request.top_logprobs,
        metadata=request.metadata,
        user=request.user,
        service_tier=request.service_tier,
        store=request.store,
        truncation=request.truncation,
        max_tool_calls=request.max_tool_calls,
        prompt_cache_key=request.prompt_cache_key,
        prompt_cache_retention=request.prompt_cache_retention,
        safety_identifier=request.safety_identifier,
        provider_options=request.provider_options,
        max_tokens=request.max_output_tokens,
        logprobs=logprobs or None,
        tools=tools or None,
        tool_choice=choice,
        parallel_tool_calls=request.parallel_tool_calls if tools or not request.tools else None,
        response_format=_parse_format(request.text),
        reasoning_effort=reasoning.effort,
        verbosity=request.text.verbosity if request.text else None,
        reasoning_summary=reasoning.summary or reasoning.generate_summary,
        extras={name: fields[name] for name in _EXTRAS if name in fields} or None,
        on_disconnect="continue"
        if request.background and request.on_disconnect is None
        else request.on_disconnect,
        client_body=client_body,
    )
    labels = {ECHO: msgspec.json.encode(_echo(request)).decode(), **offered.label()}
    labels |= {COMPACTS: "1"} if conversation.compacts else {}
    return ParsedRequest(chat, labels | ({BACKGROUND: "1"} if request.background else {}))


def _list_ignored(request: Request, fields: dict[str, Any], more: list[str]) -> tuple[str, ...]:
    """List the fields that other providers lack, but can answer without."""
    ignored = [name[:_MAX_NAME] for name in fields if name not in _KNOWN]
    if request.reasoning is not None:
        extra = sorted(fields["reasoning"].keys() - {"effort", "summary", "generate_summary"})
        ignored += [f"reasoning.{name}"[:_MAX_NAME] for name in extra if fields["reasoning"][name]]
    return (*ignored[:_MAX_LISTED], *more)


def _parse_messages(request: Request, conversation: Conversation) -> list[Message]:
    head: list[Message] = [SystemMessage(request.instructions)] if request.instructions else []
    if isinstance(request.input, str):
        return [*head, UserMessage(request.input)]
    if not request.input:
        raise RequestError("invalid_request", "input: empty; send a text or items")
    lists = (item.get(name) for item in request.input for name in _LISTS)
    check_parts(lists, path="input")
    for number, item in enumerate(request.input):
        conversation.take(item, path=f"input[{number}]")
    messages = [*head, *conversation.end()]
    if not messages:
        raise RequestError("invalid_request", "input: contains no message")
    return messages


class _ToolChoice:
    """The tools that the model may call, and whether it must call one."""

    def __init__(self, offered: OfferedTools) -> None:
        self.tools = list(offered.tools.values())
        self.untranslatable: list[str] = []
        self._offered = offered

    def parse(self, choice: Any) -> Literal["none", "auto", "required"] | ToolChoice | None:
        """Parse `tool_choice`; `tools` then has the callable tools."""
        if choice is None or isinstance(choice, str):
            if not self.tools and self._offered.hosted:
                if choice == "required":
                    self.untranslatable.append("tool_choice: a call of a tool that OpenAI runs")
                return None
            return choice  # type: ignore[return-value]  # one of the three
        if choice.get("type") == "allowed_tools":
            return self._allow(choice)
        name = self._find(choice)
        if name is None:
            self.untranslatable.append(f"tool_choice: {string(choice.get('type'))[:_MAX_NAME]!r}")
            return None
        return ToolChoice(ToolChoiceFunction(name))

    def _allow(self, choice: dict[str, Any]) -> Literal["none", "auto", "required"] | None:
        allowed = {self._find(tool) for tool in mappings(choice.get("tools"))}
        self.tools = [tool for tool in self.tools if tool.function.name in allowed]
        if choice.get("mode") != "required":
            return "auto" if self.tools else None
        if not self.tools:
            self.untranslatable.append("tool_choice: a call of a tool that OpenAI runs")
            return None
        return "required"

    def _find(self, choice: dict[str, Any]) -> str | None:
        """Return the provider name of a tool; None unless the client executes it."""
        name, space = string(choice.get("name")), choice.get("namespace")
        match choice.get("type"):
            case "function" | "custom" as form if name:
                tool = ClientTool(form, name, space if isinstance(space, str) else None)
            case "tool_search":
                tool = ClientTool("tool_search", "tool_search")
            case _:
                return None
        return self._offered.names.name_of(tool)


def _parse_format(
    text: Text | None,
) -> JsonObjectFormat | JsonSchemaFormat | None:
    form = text.format if text else None
    if isinstance(form, SchemaFormat):
        schema = JsonSchema(
            form.name, form.schema, description=form.description, strict=form.strict
        )
        return JsonSchemaFormat(schema)
    return JsonObjectFormat() if isinstance(form, JsonFormat) else None


def _echo(request: Request) -> dict[str, Any]:
    """Return the fields that the response repeats, without the largest ones if they are too long.

    Omitted fields appear with their defaults.
    """
    fields = {name: getattr(request, name) for name in ECHOED}
    found = {name: value for name, value in fields.items() if value is not None}
    if request.tool_choice is not None:
        found["tool_choice"] = msgspec.to_builtins(request.tool_choice)
    reasoning = request.reasoning
    if reasoning is not None and (reasoning.effort or reasoning.summary):
        found["reasoning"] = {"effort": reasoning.effort, "summary": reasoning.summary}
    if request.text is not None:
        found["text"] = _echo_text(request.text)
    sizes = {name: len(msgspec.json.encode(value)) for name, value in found.items()}
    remaining = sum(sizes.values())
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if remaining <= MAX_ECHO:
            break
        remaining -= sizes[name]
        del found[name]
    return found


def _echo_text(text: Text) -> dict[str, Any]:
    """Return the format without the schema, which readers need not see."""
    form = text.format or PlainFormat()
    echoed: dict[str, Any] = {"format": {**msgspec.to_builtins(form)}}
    if isinstance(form, SchemaFormat):
        echoed["format"] |= {"schema": {}, "description": None, "strict": form.strict}
    return echoed | ({"verbosity": text.verbosity} if text.verbosity else {})
