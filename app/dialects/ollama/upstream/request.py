"""Renderer of requests to Ollama's /api/chat."""

from typing import Any, Final

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
    ToolMessage,
)
from ...upstream_format import OPENAI_ONLY, Quirks, RenderedRequest
from ...writing.chat_extras import render_at
from ...writing.conversation import (
    join_text,
    join_visible,
    list_reasoning,
    parse_arguments,
    parse_data_url,
    refuse_choices,
    render_function,
    restrict_tools,
    unsupported,
)
from ...writing.exchange import arrange
from .rules import FORM, THINK

FORMAT: Final = "Ollama's API"
IGNORED: Final = OPENAI_ONLY | {
    "cache_control",
    "metadata",
    "parallel_tool_calls",
    "reasoning_summary",
    "safety_identifier",
    "service_tier",
    "user",
}
"""The request fields without a counterpart; `n` above 1 is rejected."""

_OPTIONS: Final = (
    "min_p",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "num_ctx",
    "num_keep",
    "penalize_newline",
    "repeat_last_n",
    "repeat_penalty",
    "tfs_z",
    "top_k",
    "typical_p",
)
render_extra: Final = render_at(
    {
        **{name: f"options.{name}" for name in _OPTIONS},
        "repetition_penalty": "options.repeat_penalty",
        **{name: name for name in ("options", "keep_alive", "think", "format")},
    }
)


def render_request(
    request: ChatRequest, *, model: str, quirks: Quirks | None = None
) -> RenderedRequest:
    """Return the body of a streaming request for `model`.

    `provider_options` override all fields except `model` and `stream`; its `options` are merged
    with those of the request.

    Raises:
        RequestError: the format cannot express the request.
    """
    refuse_choices(request, format=FORMAT)
    request = restrict_tools(request)
    messages, changes = arrange(request.messages, FORM)
    names: dict[str, str] = {}
    body: dict[str, Any] = {
        "messages": [
            _render_message(message, path=f"messages[{index}]", names=names)
            for index, message in enumerate(messages)
        ],
        "tools": _render_tools(request),
        "format": _render_format(request),
        "think": THINK.get(request.reasoning_effort or "", request.reasoning_effort),
        "logprobs": request.logprobs,
        "top_logprobs": request.top_logprobs,
        "truncate": None if request.truncation is None else request.truncation == "auto",
        "options": _render_options(request) or None,
    }
    body = {key: value for key, value in body.items() if value is not None}
    options = dict(request.provider_options or {})
    if isinstance(options.get("options"), dict):
        options["options"] = {**body.get("options", {}), **options["options"]}
    return RenderedRequest({**body, **options, "model": model, "stream": True}, changes)


def _render_message(message: Message, *, path: str, names: dict[str, str]) -> dict[str, Any]:
    match message:
        case SystemMessage() | DeveloperMessage():
            return {"role": "system", "content": join_text(message.content)}
        case AssistantMessage():
            names |= {call.id: call.function.name for call in message.tool_calls or ()}
            return _render_assistant(message, path=path)
        case ToolMessage():
            tool: dict[str, Any] = {"role": "tool", **_render_content(message.content, path=path)}
            if message.tool_call_id in names:
                tool["tool_name"] = names[message.tool_call_id]
            return {**tool, "tool_call_id": message.tool_call_id}
        case _:
            return {"role": "user", **_render_content(message.content, path=path)}


def _render_content(content: str | list[Any], *, path: str) -> dict[str, Any]:
    """Return the text and the images; the format does not represent their order."""
    images = []
    parts = [] if isinstance(content, str) else content
    for index, part in enumerate(parts):
        where = f"{path}.content[{index}]"
        if isinstance(part, ImagePart):
            images.append(_render_image(part, path=where))
        elif not isinstance(part, TextPart):
            raise unsupported(where, "anything but text and images", format=FORMAT)
    return {"content": join_text(content), **({"images": images} if images else {})}


def _render_image(part: ImagePart, *, path: str) -> str:
    found = parse_data_url(part.image_url.url)
    if found is None:
        raise unsupported(path, "an image by URL", format=FORMAT)
    return found[1]


def _render_assistant(message: AssistantMessage, *, path: str) -> dict[str, Any]:
    rendered: dict[str, Any] = {"role": "assistant", "content": join_visible(message)}
    thinking = "".join(part.text for part in list_reasoning(message))
    if thinking:
        rendered["thinking"] = thinking
    if message.tool_calls:
        rendered["tool_calls"] = [
            _render_call(call, path=f"{path}.tool_calls[{index}].function")
            for index, call in enumerate(message.tool_calls)
        ]
    return rendered


def _render_call(call: ToolCall, *, path: str) -> dict[str, Any]:
    arguments = parse_arguments(call.function, path=path)
    return {"id": call.id, "function": {"name": call.function.name, "arguments": arguments}}


def _render_tools(request: ChatRequest) -> list[dict[str, Any]] | None:
    """Return the tools, but none for "none": the model may use any tool that it receives."""
    if request.tool_choice not in (None, "auto", "none"):
        raise unsupported("tool_choice", "the demand for a tool call", format=FORMAT)
    if not request.tools or request.tool_choice == "none":
        return None
    return [render_function(tool) for tool in request.tools]


def _render_format(request: ChatRequest) -> Any:
    match request.response_format:
        case JsonObjectFormat():
            return "json"
        case JsonSchemaFormat(json_schema=wanted):
            return "json" if wanted.schema is None else wanted.schema
        case _:
            return None


def _render_options(request: ChatRequest) -> dict[str, Any]:
    options = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "num_predict": request.limit,
        "stop": request.stops,
        "seed": request.seed,
        "presence_penalty": request.presence_penalty,
        "frequency_penalty": request.frequency_penalty,
    }
    return {name: value for name, value in options.items() if value is not None}
