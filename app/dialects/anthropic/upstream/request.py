"""Builder of Anthropic Messages requests, for all of its platforms."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from ....requests import ChatRequest, JsonObjectFormat, JsonSchemaFormat, Tool, ToolChoice
from ...upstream_format import OPENAI_ONLY, RenderedRequest
from ...upstream_format import Quirks as CommonQuirks
from ...writing.chat_extras import is_claudes
from ...writing.claude import (
    begins_with_call,
    choose_sampling,
    find_version,
    is_thinking,
    leave_out_refused,
    takes_prefill,
)
from ...writing.conversation import JSON_ONLY, fit_user, refuse_choices, restrict_tools, unsupported
from ...writing.enforced_schemas import fit_schemas
from ...writing.exchange import arrange
from ...writing.request_rules import BEGIN, fit_stops, fit_tool_schemas, fit_turns
from .messages import FORMAT, limit_marks, mark_last, render_mark, render_messages
from .rules import FORM, MAX_USER, STOPS, TOP_KEYWORDS

IGNORED: Final = OPENAI_ONLY | {
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "logprobs",
    "top_logprobs",
    "metadata",
    "service_tier",
    "truncation",
}
"""The fields of a chat request that the format lacks."""

_VERTEX_VERSION: Final = "vertex-2023-10-16"
_BEDROCK_VERSION: Final = "bedrock-2023-05-31"

_BUDGETS: Final = {
    **dict.fromkeys(("minimal", "low"), 1024),
    "medium": 4096,
    **dict.fromkeys(("high", "xhigh", "max"), 16384),
}
"""Thinking budgets in tokens, by effort; the API's minimum is 1024."""


class Quirks(CommonQuirks, frozen=True):
    """Deviations of one upstream, or of its models."""

    default_max_tokens: Annotated[int, Meta(ge=1)] = 16384
    """`max_tokens` of a request without a limit; the API requires one."""
    sampling: bool = True
    """Whether to send `temperature` and `top_p`. Models after Claude 4.6 refuse them; with False,
    clients that always send them can use these models."""
    thinking: Literal["auto", "adaptive", "budget"] = "auto"
    """The form of the effort: Claude 4.5 and older take a budget of tokens, 4.7 and newer only an
    effort. "auto" depends on the version in the model's name; without one the model is new."""

    @property
    def ignored(self) -> tuple[str, ...]:
        return () if self.sampling else ("temperature", "top_p")


def finish_api(body: dict[str, Any], *, model: str, quirks: object = None) -> dict[str, Any]:
    """Return the body with `model` and `stream`."""
    return {**body, "model": model, "stream": True}


def finish_vertex(body: dict[str, Any], *, model: str, quirks: object = None) -> dict[str, Any]:
    """Return the body with a version and `stream`, and without `model`."""
    named = {name: value for name, value in body.items() if name != "model"}
    return {"anthropic_version": _VERTEX_VERSION, **named, "stream": True}


def finish_bedrock(body: dict[str, Any], *, model: str, quirks: object = None) -> dict[str, Any]:
    """Return the body with a version, and without `model` and `stream`."""
    rest = {name: value for name, value in body.items() if name not in ("model", "stream")}
    return {"anthropic_version": _BEDROCK_VERSION, **rest}


def find_hosted_tool(kind: str, request: ChatRequest) -> dict[str, Any] | None:
    """Return Anthropic's equivalent of OpenAI's hosted tool of a type, if there is one."""
    name = "web_search"
    taken = any(tool.function.name == name for tool in request.tools or ())
    if taken or not kind.startswith(name):
        return None
    return {"type": "web_search_20250305", "name": name}


def render_extra(name: str, value: Any, *, quirks: Quirks) -> dict[str, Any] | None:
    """Return an extra field of Chat Completions that has the same name and meaning here."""
    if name == "top_k" or (name == "thinking" and is_claudes(value)):
        return {name: value}
    return None


def _thinks(request: ChatRequest) -> bool:
    """Return whether the model is asked to think."""
    options = request.provider_options or {}
    if "thinking" in options:
        return is_thinking(options["thinking"])
    return request.reasoning_effort not in (None, "none")


def continues(request: ChatRequest, *, model: str, quirks: Quirks) -> bool:
    """Return whether the model goes on at the end of a last turn of the assistant."""
    return takes_prefill(model, thinks=_thinks(request))


def _fit(request: ChatRequest, *, model: str, quirks: Quirks) -> tuple[ChatRequest, list[str]]:
    thinks = _thinks(request)
    form = FORM._replace(prefill=takes_prefill(model, thinks=thinks))
    messages, changes = arrange(request.messages, form)
    if messages is not request.messages:
        request = msgspec.structs.replace(request, messages=messages)
    if not quirks.sampling:
        request = msgspec.structs.replace(request, temperature=None, top_p=None)
    dropped: list[str] = []
    budgeted = _is_budgeted(model, quirks)
    if budgeted and request.reasoning_effort and begins_with_call(messages):
        request = msgspec.structs.replace(request, reasoning_effort=None)
        dropped = ["requires the thinking before an earlier tool call: dropped reasoning_effort"]
    elif thinks:
        request, dropped = leave_out_refused(request, model=model, budgeted=budgeted)
    request, chosen = choose_sampling(request, model=model)
    request, blank = fit_stops(request, STOPS, format=FORMAT)
    request, moved = fit_tool_schemas(request, TOP_KEYWORDS)
    request, fitted = fit_schemas(request)
    return request, [*changes, *dropped, *chosen, *blank, *moved, *fitted]


def _render(
    finish: Callable[..., dict[str, Any]],
    request: ChatRequest,
    *,
    model: str,
    quirks: Quirks | None = None,
) -> RenderedRequest:
    """Return the body of a streaming request; `finish` adapts it to the platform.

    `provider_options` overrides every field but those that `finish` sets.

    Raises:
        RequestError: the format cannot express the request.
    """
    quirks = quirks or Quirks()
    automatic = finish is finish_api
    request, changes = _fit(restrict_tools(request), model=model, quirks=quirks)
    refuse_choices(request, format=FORMAT, what="more than one answer")
    system, turns = render_messages(request.messages)
    # A system prompt alone: `messages: at least one message is required` (2026-09).
    changes += fit_turns(turns, {"role": "user", "content": [{"type": "text", "text": BEGIN}]})
    if isinstance(request.response_format, JsonObjectFormat):
        system.append({"type": "text", "text": JSON_ONLY})
    mark = render_mark(request.cache_control)
    # Only Anthropic's own API sets the request's cache breakpoint itself.
    if mark and not automatic and turns:
        mark_last(turns[-1]["content"], request.cache_control)
    limit = request.limit or quirks.default_max_tokens
    user = fit_user(request.user or request.safety_identifier, longest=MAX_USER)
    body: dict[str, Any] = {
        "max_tokens": limit,
        "messages": turns,
        "system": system,
        "stop_sequences": request.stops,
        "metadata": {"user_id": user} if user else None,
        "cache_control": mark if automatic else None,
        **_sampling(request, quirks=quirks),
        **_tools(request),
        **_output(request, limit=limit, budgeted=_is_budgeted(model, quirks)),
    }
    fields = {name: value for name, value in body.items() if value not in (None, [], {})}
    changes += limit_marks(fields)
    body = {**fields, **(msgspec.to_builtins(request.provider_options) or {})}
    return RenderedRequest(finish(body, model=model), changes)


render_request = partial(_render, finish_api)
render_vertex_request = partial(_render, finish_vertex)
render_bedrock_request = partial(_render, finish_bedrock)


def _sampling(request: ChatRequest, *, quirks: Quirks) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if quirks.sampling and request.temperature is not None:
        # The chat request allows 2. Anthropic's own Chat Completions route caps it at 1 too.
        fields["temperature"] = min(request.temperature, 1)
    if quirks.sampling and request.top_p is not None:
        fields["top_p"] = request.top_p
    return fields


def _tools(request: ChatRequest) -> dict[str, Any]:
    options = request.provider_options or {}
    choice: dict[str, Any] | None
    match request.tool_choice:
        case ToolChoice(function=function):
            choice = {"type": "tool", "name": function.name}
        case "required":
            choice = {"type": "any"}
        case "none" | "auto" as word if request.tools or "tools" in options:
            choice = {"type": word}
        case _:
            choice = None
    if request.parallel_tool_calls is False and (choice or request.tools):
        choice = choice or {"type": "auto"}
        if choice["type"] != "none":
            choice["disable_parallel_tool_use"] = True
    return {"tools": [_tool(tool) for tool in request.tools or ()], "tool_choice": choice}


def _tool(tool: Tool) -> dict[str, Any]:
    function = tool.function
    schema = {"type": "object", **(function.parameters or {"properties": {}})}
    rendered: dict[str, Any] = {"name": function.name, "input_schema": schema}
    if function.description:
        rendered["description"] = function.description
    if function.strict is not None:
        rendered["strict"] = function.strict
    if tool.cache_control is not None:
        rendered["cache_control"] = render_mark(tool.cache_control)
    return rendered


def _output(request: ChatRequest, *, limit: int, budgeted: bool) -> dict[str, Any]:
    """Return `output_config` and `thinking`."""
    config: dict[str, Any] = {}
    thinking: dict[str, Any] | None = None
    if isinstance(request.response_format, JsonSchemaFormat):
        schema = request.response_format.json_schema.schema
        if schema is None:
            raise unsupported("response_format.json_schema", "JSON without a schema", format=FORMAT)
        config["format"] = {"type": "json_schema", "schema": schema}
    effort = request.reasoning_effort
    if effort == "none":
        thinking = {"type": "disabled"}
    elif effort and budgeted:
        thinking = _budget(effort, limit=limit)
    elif effort:
        config["effort"] = "low" if effort == "minimal" else effort
        # Models up to Claude 4.8 think only on request; those from 4.7 omit the text by default.
        thinking = {"type": "adaptive", "display": "summarized"}
    return {"output_config": config, "thinking": thinking}


def _is_budgeted(model: str, quirks: Quirks) -> bool:
    if quirks.thinking != "auto":
        return quirks.thinking == "budget"
    version = find_version(model)
    return version is not None and version < (4, 6)


def _budget(effort: str, *, limit: int) -> dict[str, Any]:
    if effort not in _BUDGETS:
        raise unsupported("reasoning_effort", repr(effort[:80]), format=FORMAT)
    if limit <= 1024:
        raise unsupported("max_tokens", "thinking with 1024 tokens or fewer", format=FORMAT)
    # The limit includes the budget: half of it is left for the answer.
    return {"type": "enabled", "budget_tokens": max(1024, min(_BUDGETS[effort], limit // 2))}
