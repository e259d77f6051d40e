"""Parser of `POST /v1/messages`: Anthropic's request to a chat request.

An upstream of Anthropic's format receives the client's own body. Any other receives the chat
request, and `ClientBody` lists what the chat request cannot express. Known fields are checked for
their types. Unknown ones are passed to Anthropic, and dropped for other providers.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from ....bounds import MAX_MESSAGES, MAX_TOOLS, check_parts
from ....errors import RequestError
from ....requests import (
    MAX_TOKENS,
    ChatRequest,
    ClientBody,
    Function,
    JsonSchema,
    JsonSchemaFormat,
    Linger,
    Tool,
    ToolChoiceFunction,
    convert_body,
    parse_body,
    parse_fields,
)
from ....requests import ToolChoice as ChatToolChoice
from ...client_format import ParsedRequest
from ...writing.cache_marks import parse_mark
from .. import BETA, NAME, OLDEST_VERSION, VERSION
from .anthropic_errors import ThreadRefused
from .messages import Content, Conversation, Turn
from .tools import find_client_tool

_EXAMPLE: Final = '{"model": "demo", "max_tokens": 1024, "messages": [...]}'

_RELAY_FIELDS: Final = ("model", "stream", "provider_options", "on_disconnect")
"""The relay's own fields, which no upstream receives."""

_IGNORED: Final = frozenset(
    (
        "cache_control",
        "context_management",
        "diagnostics",
        "service_tier",
        "speed",
        "top_k",
        "betas",
        "fallbacks",
    )
)
"""Fields that do not change the answer's meaning, and are named in a notice if dropped."""

_UNSUPPORTED: Final = ("container", "mcp_servers")
"""Fields that only Anthropic supports: other upstreams are tried last, without them."""

_UNTRANSLATABLE: Final = ("compaction", "inference_geo")
"""Fields that no other provider supports: it refuses the request.

`compaction` (beta compact-2026-09-04) asks for a signed summary instead of an answer.
"""

_MAX_IGNORED: Final = 20
"""Unknown fields in a notice."""

_BETA: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
"""A beta, or a version."""


class _Metadata(msgspec.Struct, frozen=True):
    user_id: str | None = None


class MessagesToolChoice(msgspec.Struct, frozen=True):
    type: Literal["auto", "any", "tool", "none"]
    name: str = ""
    disable_parallel_tool_use: bool | None = None


class MessagesThinking(msgspec.Struct, frozen=True):
    type: str
    budget_tokens: int | None = None


class _Format(msgspec.Struct, frozen=True):
    type: Literal["json_schema"]
    schema: dict[str, Any]


class _Output(msgspec.Struct, frozen=True):
    effort: str | None = None
    format: _Format | None = None


class _CustomTool(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(min_length=1)]
    input_schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None
    allowed_callers: list[str] | None = None
    cache_control: Any = None


class Request(msgspec.Struct, frozen=True):
    model: Annotated[str, Meta(min_length=1)]
    max_tokens: Annotated[int, Meta(ge=0, le=MAX_TOKENS)]
    messages: Annotated[list[Turn], Meta(min_length=1, max_length=MAX_MESSAGES)]
    system: Content | None = None
    stream: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    metadata: _Metadata | None = None
    tools: Annotated[list[dict[str, Any]], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: MessagesToolChoice | None = None
    thinking: MessagesThinking | None = None
    output_config: _Output | None = None
    output_format: _Format | None = None
    """The former name of `output_config.format`."""
    cache_control: Any = None
    provider_options: dict[str, Any] | None = None
    on_disconnect: Literal["continue", "cancel"] | Linger | None = None


_decoder = msgspec.json.Decoder(Request)


def parse_request(data: bytes, *, betas: str = "", version: str = "") -> ParsedRequest:
    """Parse a request; `betas` is its header `anthropic-beta`, `version` `anthropic-version`.

    Raises:
        RequestError: `invalid_request`, with the path and the reason.
    """
    body = parse_body(data, _decoder, example=_EXAMPLE)
    fields = {name: value for name, value in parse_fields(data).items() if value is not None}
    if "thread" in fields:
        # `thread` contains the relay's id of an answer, which Anthropic does not know.
        raise ThreadRefused
    known = set(Request.__struct_fields__)
    check_parts(_lists(body), path="messages")
    untranslatable = [f"{name}: this field" for name in _UNTRANSLATABLE if name in fields]
    unsupported = [name for name in _UNSUPPORTED if fields.get(name)]
    if body.max_tokens == 0:
        untranslatable.append("max_tokens: 0, for filling the cache,")
    conversation = Conversation()
    if body.system:
        conversation.system(body.system)
    for number, turn in enumerate(body.messages):
        conversation.turn(turn, path=f"messages[{number}]")
    tools = _tools(body, unsupported, conversation)
    if not conversation.messages:
        raise RequestError("invalid_request", "messages: empty; send a message")
    unknown = fields.keys() - known - {*_UNSUPPORTED, *_UNTRANSLATABLE} - _IGNORED
    ignored = sorted(_IGNORED & fields.keys()) + [n[:80] for n in sorted(unknown)[:_MAX_IGNORED]]
    for turn in fields["messages"]:
        if len(turn) > 2:  # more than a role and a content
            conversation.note(turn, Turn, path="messages[]")
    ignored += conversation.ignored
    if body.output_config is not None:
        ignored += _list_unknown(fields["output_config"])
    if body.thinking is not None and body.thinking.type == "disabled":
        ignored.append("thinking")
    client_body = ClientBody(
        NAME,
        {name: value for name, value in fields.items() if name not in _RELAY_FIELDS},
        headers=_headers(betas, version),
        untranslatable=tuple(untranslatable),
        ignored=tuple(ignored),
        unsupported=tuple(unsupported),
        shortened=tuple(conversation.shortened),
    )
    chat = ChatRequest(
        conversation.messages,
        model=body.model,
        stream=body.stream or False,
        max_tokens=body.max_tokens or None,
        temperature=body.temperature,
        top_p=body.top_p,
        stop=body.stop_sequences or None,
        user=body.metadata.user_id if body.metadata else None,
        reasoning_effort=_effort(body),
        response_format=_format(body),
        provider_options=body.provider_options,
        on_disconnect=body.on_disconnect,
        cache_control=parse_mark(body.cache_control),
        client_body=client_body,
        extras=None if body.top_k is None else {"top_k": body.top_k},
        **tools,
    )
    return ParsedRequest(chat)


def _list_unknown(output: dict[str, Any]) -> list[str]:
    """List the fields of `output_config` that the chat request lacks."""
    names = sorted(output.keys() - {*_Output.__struct_fields__})
    return [f"output_config.{name[:60]}" for name in names[:_MAX_IGNORED]]


def _lists(body: Request) -> Iterator[object]:
    """Yield the lists of blocks, including those in tool results."""
    yield body.system
    for turn in body.messages:
        yield turn.content
        if isinstance(turn.content, list):
            yield from (block.get("content") for block in turn.content)


def _headers(betas: str, version: str) -> dict[str, str]:
    """Return the headers, without OAuth betas, which concern the client's own login."""
    names = [name.strip() for name in betas.split(",") if name.strip()]
    wrong = next((name for name in names if not _BETA.fullmatch(name)), None)
    if wrong is not None:
        raise RequestError("invalid_request", f"{BETA}: {wrong[:80]!r} is not the name of a beta")
    betas_sent = [name for name in names if not name.startswith("oauth-")]
    found = {BETA: ",".join(betas_sent)} if betas_sent else {}
    if version != OLDEST_VERSION and _BETA.fullmatch(version):
        found[VERSION] = version
    return found


def _effort(body: Request) -> str | None:
    """Return the requested effort, or the one nearest to the thinking budget."""
    thinking = body.thinking
    if thinking is not None and thinking.type == "disabled":
        return None
    if body.output_config is not None and body.output_config.effort is not None:
        return body.output_config.effort
    if thinking is None or thinking.budget_tokens is None:
        return None
    budget = thinking.budget_tokens
    return "low" if budget < 4096 else "medium" if budget < 16384 else "high"


def _format(body: Request) -> JsonSchemaFormat | None:
    output = body.output_config.format if body.output_config else None
    output = output or body.output_format
    if output is None:
        return None
    return JsonSchemaFormat(JsonSchema("answer", output.schema, strict=True))


def _tools(body: Request, unsupported: list[str], conversation: Conversation) -> dict[str, Any]:
    """Return the fields about tools; add the tools that only Anthropic runs to `unsupported`."""
    tools = []
    for number, fields in enumerate(body.tools or ()):
        path = f"tools[{number}]"
        kind = fields.get("type")
        if kind not in (None, "custom"):
            known = find_client_tool(str(kind), str(fields.get("name"))[:128])
            if known is None:
                unsupported.append(f"{path}: Anthropic's tool {str(kind)[:60]!r}")
            else:
                tools.append(known)
            continue
        tool = convert_body(fields, _CustomTool, path=path)
        conversation.note(fields, _CustomTool, path="tools[]")
        if tool.allowed_callers and "direct" not in tool.allowed_callers:
            unsupported.append(f"{path}: a tool for Anthropic's tools")
            continue
        function = Function(
            tool.name, tool.description, parameters=tool.input_schema, strict=tool.strict
        )
        tools.append(Tool(function, cache_control=parse_mark(tool.cache_control)))
    if not tools:
        return {}
    choice = body.tool_choice
    parallel = False if choice and choice.disable_parallel_tool_use else None
    names = {tool.function.name for tool in tools}
    return {"tools": tools, "tool_choice": _choice(choice, names), "parallel_tool_calls": parallel}


def _choice(choice: MessagesToolChoice | None, names: set[str]) -> Any:
    match choice:
        case None:
            return None
        case MessagesToolChoice("any"):
            return "required"
        case MessagesToolChoice("tool", name):
            # The tool may have been dropped above.
            return ChatToolChoice(ToolChoiceFunction(name)) if name in names else None
        case _:
            return choice.type
