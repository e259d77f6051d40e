"""Renderer of requests to Bedrock's ConverseStream. The model is in the path, not in the body."""

from typing import Any, Final

import msgspec

from ....requests import (
    AssistantMessage,
    ChatRequest,
    DeveloperMessage,
    Function,
    JsonObjectFormat,
    JsonSchema,
    JsonSchemaFormat,
    SystemMessage,
    Tool,
    ToolChoice,
    ToolMessage,
    UserMessage,
)
from ...upstream_format import OPENAI_ONLY, Quirks, RenderedRequest
from ...writing.cache_marks import is_marked
from ...writing.chat_extras import is_claudes, render_at
from ...writing.claude import (
    choose_sampling,
    find_version,
    is_thinking,
    leave_out_refused,
    takes_prefill,
)
from ...writing.conversation import (
    JSON_ONLY,
    join_options,
    refuse_choices,
    restrict_tools,
    unsupported,
)
from ...writing.enforced_schemas import fit_schemas
from ...writing.exchange import arrange
from ...writing.request_rules import BEGIN, fit_stops, fit_turns
from ...writing.token_counts import pick
from .messages import (
    FORMAT,
    DocumentNames,
    Points,
    add_texts,
    limit_points,
    render_assistant,
    render_system,
    render_tool,
    render_user,
)
from .rules import CLAUDE_STOPS, FIRST_ROLE, FORM, STOPS, USED_TOOLS

IGNORED: Final = OPENAI_ONLY | {
    "frequency_penalty",
    "logprobs",
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning_summary",
    "safety_identifier",
    "seed",
    "top_logprobs",
    "truncation",
    "user",
}
"""The request fields without a counterpart in Converse."""


_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
_HIGHEST_WITHOUT_THINKING: Final = "high"
_ANYTHING: Final[dict[str, Any]] = {"type": "object"}
_TIERS: Final = ("priority", "flex", "reserved")


def render_request(
    request: ChatRequest, *, model: str, quirks: Quirks | None = None
) -> RenderedRequest:
    """Return the body of a streaming request for `model`.

    `provider_options` override its fields; objects are merged.

    Raises:
        RequestError: the format cannot express the request.
    """
    points = _find_points(model)
    unplaced = _list_unplaced(request, points=points)
    request, changes = _fit(restrict_tools(request), model=model)
    refuse_choices(request, format=FORMAT)
    system: list[dict[str, Any]] = []
    for message in request.messages:
        if isinstance(message, SystemMessage | DeveloperMessage):
            system += render_system(message, points=points)
    if isinstance(request.response_format, JsonObjectFormat):
        system.append({"text": JSON_ONLY})
    turns = _render_messages(request, model=model, points=points)
    changes += fit_turns(
        turns,
        {"role": FIRST_ROLE, "content": [{"text": BEGIN}]},
        refuses_first=lambda turn: turn["role"] != FIRST_ROLE,
    )
    changes += add_texts(turns)
    tools = _render_tools(request, points=points)
    if tools is None and (tools := _render_used_tools(request)) is not None:
        changes.append(USED_TOOLS)
    contents = (turn["content"] for turn in turns)
    changes += limit_points((tools or {}).get("tools", []), system, *contents)
    body: dict[str, Any] = {
        "messages": turns,
        "system": system,
        "inferenceConfig": _render_inference(request),
        "toolConfig": tools,
        "outputConfig": _render_output(request),
        "requestMetadata": request.metadata,
        "serviceTier": {"type": request.tier} if request.tier in _TIERS else None,
    }
    body = {key: value for key, value in body.items() if value}
    join_options(body, request.provider_options)
    body.pop("modelId", None)
    return RenderedRequest(body, [*changes, *unplaced])


def _list_unplaced(request: ChatRequest, *, points: Points) -> list[str]:
    """List changes for fields that this model does not support."""
    changes = []
    if request.tier is not None and request.tier not in _TIERS:
        changes.append(f"does not support service_tier {request.tier[:80]!r}: dropped")
    marked_tool = any(tool.cache_control for tool in request.tools or ())
    if (not points.known and is_marked(request)) or (not points.claude and marked_tool):
        changes.append("does not support cache_control for this model: dropped")
    return changes


def _find_points(model: str) -> Points:
    """Return the cache points that a model supports: Bedrock rejects others."""
    claude = _is_claude(model)
    return Points(known=claude or "amazon.nova" in model, claude=claude)


_render_field = render_at(
    {name: f"additionalModelRequestFields.{name}" for name in ("top_k", "thinking", "min_p")}
)


def render_extra(name: str, value: Any, *, quirks: Quirks) -> dict[str, Any] | None:
    """Return the path of a Chat Completions field, among the model-specific fields."""
    if name == "thinking" and not is_claudes(value):
        return None
    return _render_field(name, value, quirks=quirks)


def continues(request: ChatRequest, *, model: str, quirks: Quirks) -> bool:
    """Return whether a model goes on at the end of a last turn of the assistant: Claude does."""
    thinks = is_thinking(_find_thinking(request.provider_options or {}))
    return takes_prefill(model, thinks=thinks)


def _fit(request: ChatRequest, *, model: str) -> tuple[ChatRequest, list[str]]:
    config = _find_thinking(request.provider_options or {})
    thinks = is_thinking(config)
    claude = find_version(model) is not None
    prefill = not claude or takes_prefill(model, thinks=thinks)
    form = FORM._replace(prefill=prefill, trailing_space=not claude)
    messages, arranged = arrange(request.messages, form)
    if messages is not request.messages:
        request = msgspec.structs.replace(request, messages=messages)
    refused: list[str] = []
    if thinks:
        budgeted = config["type"] == "enabled"
        request, refused = leave_out_refused(request, model=model, budgeted=budgeted)
    request, chosen = choose_sampling(request, model=model)
    stops = CLAUDE_STOPS if _is_claude(model) else STOPS
    request, blank = fit_stops(request, stops, format=FORMAT)
    request, changes = _fit_effort(request, model=model, thinks=thinks)
    request, fitted = fit_schemas(request)
    return request, [*arranged, *refused, *chosen, *blank, *changes, *fitted]


def _find_thinking(options: dict[str, Any]) -> Any:
    """Return `thinking` from the options, or `reasoning_config`, Claude's older name for it."""
    fields = options.get("additionalModelRequestFields")
    if not isinstance(fields, dict):
        return None
    return fields.get("thinking", fields.get("reasoning_config"))


def _fit_effort(request: ChatRequest, *, model: str, thinks: bool) -> tuple[ChatRequest, list[str]]:
    """Limit an effort to those that Bedrock accepts: up to "high" without thinking."""
    effort = request.reasoning_effort
    if effort in (None, "none", "minimal"):
        return request, []
    version = find_version(model)
    # Claude thinks by default since version 5.
    thinks = thinks or (version is not None and version >= (5, 0))
    highest = _EFFORTS[-1] if thinks else _HIGHEST_WITHOUT_THINKING
    if effort in _EFFORTS[: _EFFORTS.index(highest) + 1]:
        return request, []
    change = f"does not support reasoning_effort {effort[:80]!r}: sent {highest!r}"
    return msgspec.structs.replace(request, reasoning_effort=highest), [change]


def _render_messages(request: ChatRequest, *, model: str, points: Points) -> list[dict[str, Any]]:
    """Return the turns; consecutive messages of a role form one."""
    rendered: list[dict[str, Any]] = []
    names = DocumentNames()
    for index, message in enumerate(request.messages):
        path = f"messages[{index}]"
        role = "user"
        match message:
            case UserMessage():
                blocks = render_user(message, path=path, names=names, points=points)
            case AssistantMessage():
                role = "assistant"
                signatures = _is_claude(model)
                blocks = render_assistant(message, path=path, signatures=signatures, points=points)
            case ToolMessage():
                blocks = render_tool(message, path=path, points=points)
            case _:
                continue
        if rendered and rendered[-1]["role"] == role:
            rendered[-1]["content"] += blocks
        elif blocks:
            rendered.append({"role": role, "content": blocks})
    if rendered:
        points.add(rendered[-1]["content"], request.cache_control)
    return rendered


def _is_claude(model: str) -> bool:
    """Return whether a model may be Claude: model ids name the maker, some ARNs do not."""
    name = model.rpartition("/")[2]
    return "." not in name or "anthropic." in name


def _render_inference(request: ChatRequest) -> dict[str, Any]:
    config = {
        "maxTokens": request.limit,
        # The client's maximum is 2, Bedrock's is 1.
        "temperature": None if request.temperature is None else min(request.temperature, 1),
        "topP": request.top_p,
        "stopSequences": request.stops,
    }
    return {key: value for key, value in config.items() if value is not None}


def _render_tools(request: ChatRequest, *, points: Points) -> dict[str, Any] | None:
    """Return the tools. "none" is not supported: tools are omitted."""
    if not request.tools or request.tool_choice == "none":
        return None
    rows: list[dict[str, Any]] = []
    for tool in request.tools:
        rows.append(_render_tool(tool))
        if points.claude:
            points.add(rows, tool.cache_control)
    config: dict[str, Any] = {"tools": rows}
    match request.tool_choice:
        case "auto":
            config["toolChoice"] = {"auto": {}}
        case "required":
            config["toolChoice"] = {"any": {}}
        case ToolChoice(function=function):
            config["toolChoice"] = {"tool": {"name": function.name}}
    return config


def _render_used_tools(request: ChatRequest) -> dict[str, Any] | None:
    """Return the tools that earlier calls name, for a request without tools to call; None if there
    are none. Agents send such requests to compact and to make titles.
    """
    offered = {tool.function.name: tool for tool in request.tools or ()}
    used = dict.fromkeys(
        call.function.name
        for message in request.messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls or ()
    )
    tools = [offered.get(name) or Tool(Function(name, parameters=_ANYTHING)) for name in used]
    return {"tools": [_render_tool(tool) for tool in tools]} if tools else None


def _render_tool(tool: Tool) -> dict[str, Any]:
    function = tool.function
    schema = function.parameters or {"type": "object", "properties": {}}
    spec: dict[str, Any] = {"name": function.name, "inputSchema": {"json": schema}}
    if function.description:
        spec["description"] = function.description
    if function.strict is not None:
        spec["strict"] = function.strict
    return {"toolSpec": spec}


def _render_output(request: ChatRequest) -> dict[str, Any]:
    config: dict[str, Any] = {}
    match request.response_format:
        case JsonSchemaFormat(json_schema=JsonSchema(schema=None)):
            raise unsupported("response_format", "a format without its schema", format=FORMAT)
        case JsonSchemaFormat(json_schema=wanted):
            # The schema is sent as text.
            schema = {"schema": msgspec.json.encode(wanted.schema).decode(), "name": wanted.name}
            if wanted.description:
                schema["description"] = wanted.description
            structure = {"jsonSchema": schema}
            config["textFormat"] = {"type": "json_schema", "structure": structure}
    effort = request.reasoning_effort
    if effort and effort != "none":
        config["effort"] = "low" if effort == "minimal" else effort
    return config


def render_count(body: dict[str, Any], *, model: str, base_url: str) -> dict[str, Any]:
    """Return the body of a counting call for that of an answer."""
    fields = ("messages", "system", "toolConfig", "additionalModelRequestFields")
    return {"input": {"converse": pick(body, fields)}}
