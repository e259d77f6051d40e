"""Renderer of requests to Cohere's /v2/chat."""

from typing import Any, Final, Literal

from ....requests import (
    AssistantMessage,
    ChatRequest,
    DeveloperMessage,
    ImagePart,
    JsonObjectFormat,
    JsonSchemaFormat,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolChoice,
    ToolMessage,
    UserMessage,
)
from ...upstream_format import OPENAI_ONLY, RenderedRequest
from ...upstream_format import Quirks as CommonQuirks
from ...writing.chat_extras import render_at
from ...writing.conversation import (
    join_visible,
    list_reasoning,
    refuse_choices,
    render_function,
    restrict_tools,
    unsupported,
)
from ...writing.exchange import arrange
from ...writing.request_rules import BEGIN, fit_stops, fit_turns
from .rules import FORM, NO_PARAMETERS, RANGES, STOPS

FORMAT: Final = "Cohere's API"
IGNORED: Final = OPENAI_ONLY | {
    "cache_control",
    "metadata",
    "parallel_tool_calls",
    "reasoning_summary",
    "safety_identifier",
    "service_tier",
    "top_logprobs",
    "truncation",
    "user",
}
"""The request fields without a counterpart; `n` above 1 is rejected."""

render_extra: Final = render_at(
    {
        "top_k": "k",
        **{name: name for name in ("safety_mode", "documents", "citation_options")},
    }
)

BUDGETS: Final = {"minimal": 512, "low": 1024, "medium": 4096}
"""Thinking tokens by effort. Cohere has no limit by default, nor do higher efforts."""


class Quirks(CommonQuirks, frozen=True):
    """What a model requires in a request."""

    send_reasoning: Literal["no", "tool_plan", "thinking"] = "tool_plan"
    """The form of reasoning in an assistant message: as the plan before its tool calls, which all
    models accept, or in the content, which only reasoning models accept.
    """


def render_request(
    request: ChatRequest, *, model: str, quirks: Quirks | None = None
) -> RenderedRequest:
    """Return the body of a streaming request for `model`.

    `provider_options` override all fields except `model` and `stream`.

    Raises:
        RequestError: the format cannot express the request.
    """
    refuse_choices(request, format=FORMAT)
    request = restrict_tools(request)
    reasoning = (quirks or Quirks()).send_reasoning
    tools = request.tools or []
    messages, changes = arrange(request.messages, FORM)
    request, blank = fit_stops(request, STOPS, format=FORMAT)
    rendered = [
        _render_message(message, path=f"messages[{index}]", reasoning=reasoning)
        for index, message in enumerate(messages)
    ]
    # `content must not be empty`, except that of results.
    filled = ("tool_calls", "tool_call_id")
    rendered = [one for one in rendered if one.get("content") or not one.keys().isdisjoint(filled)]
    begin = {"role": "user", "content": BEGIN}
    if begun := fit_turns([one for one in rendered if one["role"] != "system"], begin):
        rendered.append(begin)
    body: dict[str, Any] = {
        "messages": rendered,
        "tools": [render_function(tool, parameters=NO_PARAMETERS) for tool in tools] or None,
        "strict_tools": (tools and all(tool.function.strict for tool in tools)) or None,
        "tool_choice": _render_choice(request) if tools else None,
        "response_format": _render_format(request),
        "thinking": _render_thinking(request.reasoning_effort),
        "max_tokens": request.limit,
        "stop_sequences": request.stops,
        "temperature": request.temperature,
        "p": request.top_p,
        "seed": request.seed,
        "frequency_penalty": request.frequency_penalty,
        "presence_penalty": request.presence_penalty,
        "logprobs": request.logprobs,
    }
    body = {key: value for key, value in body.items() if value is not None}
    ranged = _fit_ranges(body)
    body |= {**(request.provider_options or {}), "model": model, "stream": True}
    return RenderedRequest(body, [*changes, *begun, *blank, *ranged])


def _fit_ranges(body: dict[str, Any]) -> list[str]:
    """Bring the values of a body into their ranges; return the changes."""
    changes = []
    for name in RANGES.keys() & body.keys():
        least, most = RANGES[name]
        if body[name] != (fitted := min(max(body[name], least), most)):
            changes.append(f"does not allow {name} {body[name]}: sent {fitted}")
            body[name] = fitted
    return changes


def _render_message(message: Message, *, path: str, reasoning: str) -> dict[str, Any]:
    match message:
        case SystemMessage() | DeveloperMessage():
            return {"role": "system", "content": _render_content(message.content, path=path)}
        case UserMessage():
            content = _render_content(message.content, path=path, images=True)
            return {"role": "user", "content": content}
        case AssistantMessage():
            return _render_assistant(message, reasoning=reasoning)
        case ToolMessage():
            content = _render_content(message.content, path=path)
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": content}


def _render_content(
    content: str | list[Any], *, path: str, images: bool = False
) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    rendered: list[dict[str, Any]] = []
    for index, part in enumerate(content):
        if isinstance(part, TextPart):
            rendered.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart) and images:
            image = {"url": part.image_url.url}
            if part.image_url.detail:
                image["detail"] = part.image_url.detail
            rendered.append({"type": "image_url", "image_url": image})
        else:
            subject = "anything but text" + (" and images" if images else "")
            raise unsupported(f"{path}.content[{index}]", subject, format=FORMAT)
    return rendered


def _render_assistant(message: AssistantMessage, *, reasoning: str) -> dict[str, Any]:
    rendered: dict[str, Any] = {"role": "assistant"}
    thinking = "".join(part.text for part in list_reasoning(message))
    content = join_visible(message)
    if thinking and reasoning == "thinking":
        texts = [{"type": "text", "text": content}] if content else []
        rendered["content"] = [{"type": "thinking", "thinking": thinking}, *texts]
    elif content:
        rendered["content"] = content
    if message.tool_calls:
        if thinking and reasoning == "tool_plan":
            rendered["tool_plan"] = thinking
        rendered["tool_calls"] = [_render_call(call) for call in message.tool_calls]
    return rendered


def _render_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.function.name, "arguments": call.function.arguments or "{}"}
    return {"id": call.id, "type": "function", "function": function}


def _render_choice(request: ChatRequest) -> str | None:
    match request.tool_choice:
        case "required" | "none" as word:
            return word.upper()
        case ToolChoice():
            raise unsupported("tool_choice", "the demand for one function", format=FORMAT)
        case _:
            return None


def _render_format(request: ChatRequest) -> dict[str, Any] | None:
    match request.response_format:
        case JsonObjectFormat():
            return {"type": "json_object"}
        case JsonSchemaFormat(json_schema=wanted):
            schema = {} if wanted.schema is None else {"json_schema": wanted.schema}
            return {"type": "json_object", **schema}
        case _:
            return None


def _render_thinking(effort: str | None) -> dict[str, Any] | None:
    if effort is None:
        return None
    if effort == "none":
        return {"type": "disabled"}
    budget = BUDGETS.get(effort)
    return {"type": "enabled", **({} if budget is None else {"token_budget": budget})}
