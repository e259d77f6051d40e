"""Renderer of requests to the Interactions API.

The conversation is sent whole, as steps, and Google does not store it unless the request says so.
Reasoning is not sent back, but its signatures are, each as a thought, and the steps of Google's
own tools unchanged. Source: `CreateModelInteraction` of the Gemini API's reference.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal

from .....errors import RequestError
from .....requests import (
    AssistantMessage,
    AudioPart,
    ChatRequest,
    DeveloperMessage,
    FilePart,
    ImagePart,
    JsonObjectFormat,
    JsonSchemaFormat,
    Message,
    OpaquePart,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMessage,
    UserMessage,
    UserPart,
    VideoPart,
)
from ....upstream_format import Quirks as CommonQuirks
from ....upstream_format import RenderedRequest
from ....writing.conversation import (
    join_options,
    join_text,
    parse_arguments,
    parse_object,
    refuse_choices,
    restrict_tools,
)
from ....writing.exchange import arrange
from ....writing.request_rules import BEGIN, fit_stops, fit_turns
from .. import request as generate_content
from ..media_parts import render_audio, render_file, render_image, render_video
from ..rules import FORM, STOPS

FORMAT: Final = "Gemini's Interactions API"
THOUGHT: Final = "gemini_interactions.thought"
"""The format of the signature of a thought."""
STEP: Final = "gemini_interactions.step"
"""The format of an `opaque` with a complete step, as JSON, of a Google tool."""

_NO_CONFIG: Final = ("frequency_penalty", "presence_penalty", "logprobs", "top_logprobs")
IGNORED: Final = (generate_content.IGNORED - {"store"}).union(_NO_CONFIG)
"""The request fields without a counterpart in the format."""


class Quirks(CommonQuirks, frozen=True):
    """Differences between models; "auto" depends on the version in the model's name."""

    unsigned_calls: Literal["auto", "mark", "send"] = "auto"
    """Gemini 3 rejects a call without a signed thought before it, or the placeholder of one."""


def find_hosted_tool(kind: str, request: ChatRequest) -> dict[str, Any] | None:
    """Return Google's equivalent of one of OpenAI's hosted tools."""
    return {"type": "google_search"} if kind.startswith("web_search") else None


def render_extra(name: str, value: Any, *, quirks: Quirks) -> dict[str, Any] | None:
    """Return `modalities` as the formats of the answer."""
    if name != "modalities" or not isinstance(value, list):
        return None
    return {"response_format": [{"type": str(word).lower()} for word in value]}


def render_request(
    request: ChatRequest, *, model: str, quirks: Quirks | None = None
) -> RenderedRequest:
    """Return the body of a streaming request.

    `provider_options` override all fields except `model` and `stream`; objects such as
    `generation_config` are merged.

    Raises:
        RequestError: the format cannot express the request.
    """
    refuse_choices(request, format=FORMAT)
    if request.tool_choice != "required":
        request = restrict_tools(request)
    new = generate_content.find_major(model) >= generate_content.NEWEST_MAJOR
    # Function results support images since Gemini 3.
    messages, changes = arrange(request.messages, FORM._replace(prefill=False, images=new))
    request, blank = fit_stops(request, STOPS, format=FORMAT)
    tier, change = generate_content.fit_tier(request)
    changes += (*blank, *change)
    level: str | None = None
    if request.reasoning_effort is not None:
        level, change = generate_content.fit_level(request.reasoning_effort, model=model)
        changes += change
    mark = (quirks or Quirks()).unsigned_calls
    marks = new if mark == "auto" else mark == "mark"
    steps = _Steps(marks=marks).render(messages)
    begin = {"type": "user_input", "content": _text(BEGIN)}
    if "previous_interaction_id" not in (request.provider_options or {}):
        changes += (*fit_turns(steps, begin),)
    fields: dict[str, Any] = {
        "input": steps,
        "system_instruction": _instruction(request.messages),
        "tools": [_tool(tool) for tool in request.tools or ()],
        "generation_config": _config(request, level=level),
        "response_format": _response_format(request),
        "service_tier": tier,
    }
    body = {name: value for name, value in fields.items() if value or name == "input"}
    body["store"] = bool(request.store)
    join_options(body, request.provider_options)
    body |= {"model": model, "stream": True}
    return RenderedRequest(body, changes)


def _instruction(messages: Iterable[Message]) -> str:
    texts = (
        join_text(message.content)
        for message in messages
        if isinstance(message, SystemMessage | DeveloperMessage)
    )
    return "\n\n".join(filter(None, texts))


class _Steps:
    """The steps of a conversation."""

    def __init__(self, *, marks: bool) -> None:
        self._marks = marks
        """Whether a call without a signed thought gets the placeholder of one."""
        self._steps: list[dict[str, Any]] = []
        self._names: dict[str, str] = {}
        """The names of the called functions, by call id."""

    def render(self, messages: Iterable[Message]) -> list[dict[str, Any]]:
        for number, message in enumerate(messages):
            path = f"messages[{number}]"
            match message:
                case UserMessage():
                    self._add("user_input", _contents(message.content, path=path))
                case AssistantMessage():
                    self._assistant(message, path=path)
                case ToolMessage():
                    self._result(message, path=path)
                case _:
                    pass  # sent in `system_instruction`
        return self._steps

    def _add(self, kind: str, content: list[dict[str, Any]]) -> None:
        """Add content to the last step if it has this type, else as a new one."""
        if not content:
            return
        if self._steps and self._steps[-1]["type"] == kind:
            self._steps[-1]["content"] += content
        else:
            self._steps.append({"type": kind, "content": content})

    def _assistant(self, message: AssistantMessage, *, path: str) -> None:
        begin = len(self._steps)
        content = message.content or ()
        for number, part in enumerate([TextPart(content)] if isinstance(content, str) else content):
            match part:
                case TextPart(text=text) | RefusalPart(refusal=text):
                    self._add("model_output", _text(text))
                case ReasoningPart(format=format, signature=str(signature)) if format == THOUGHT:
                    self._think(signature)
                case OpaquePart(format=format) if format == THOUGHT:
                    self._think(part.data)
                case OpaquePart(format=format) if format == STEP:
                    self._steps.append(_step(part.data, path=f"{path}.content[{number}].data"))
                case _:
                    pass  # other reasoning, and other providers' data
        self._add("model_output", _text(message.refusal or ""))
        for number, call in enumerate(message.tool_calls or ()):
            for opaque in call.opaque or ():
                if opaque.format == THOUGHT:
                    self._think(opaque.data)
            signed = any(step["type"] == "thought" for step in self._steps[begin:])
            if number == 0 and self._marks and not signed:
                self._think(generate_content.NO_SIGNATURE)
            self._call(call, path=f"{path}.tool_calls[{number}]")

    def _think(self, signature: str) -> None:
        self._steps.append({"type": "thought", "signature": signature})

    def _call(self, call: ToolCall, *, path: str) -> None:
        arguments = parse_arguments(call.function, path=f"{path}.function")
        name = self._names[call.id] = call.function.name
        step = {"type": "function_call", "id": call.id, "name": name, "arguments": arguments}
        self._steps.append(step)

    def _result(self, message: ToolMessage, *, path: str) -> None:
        call, result = message.tool_call_id, message.content
        images = isinstance(result, list) and any(isinstance(part, ImagePart) for part in result)
        step: dict[str, Any] = {
            "type": "function_result",
            "call_id": call,
            "name": self._names[call],
            "result": _contents(result, path=path) if images else join_text(result),
        }
        if message.is_error:
            step["is_error"] = True
        self._steps.append(step)


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []


def _contents(content: str | Iterable[UserPart], *, path: str) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return _text(content)
    found: list[dict[str, Any]] = []
    for number, part in enumerate(content):
        where = f"{path}.content[{number}]"
        match part:
            case TextPart():
                found += _text(part.text)
            case ImagePart():
                found.append(_media(render_image(part, path=where), unknown="image"))
            case VideoPart():
                found.append(_media(render_video(part, path=where), unknown="video"))
            case AudioPart():
                found.append(_media(render_audio(part), unknown="audio"))
            case FilePart():
                found.append(_media(render_file(part, path=where), unknown="document"))
    return found


def _media(part: dict[str, Any], *, unknown: str) -> dict[str, Any]:
    """Return a part of `generateContent` as content; `unknown` is the type of a stored file."""
    inline, file = part.get("inlineData", {}), part.get("fileData", {})
    media_type = inline.get("mimeType") or file.get("mimeType")
    kind = media_type.partition("/")[0] if media_type else unknown
    fields = {
        "type": kind if kind in ("image", "audio", "video") else "document",
        "data": inline.get("data"),
        "uri": file.get("fileUri"),
        "mime_type": media_type,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _step(data: str, *, path: str) -> dict[str, Any]:
    """Return a step of a Google tool, as a client returned it."""
    step = parse_object(data)
    kind = None if step is None else step.get("type")
    if not isinstance(kind, str) or not kind.endswith(("_call", "_result")):
        raise RequestError("invalid_request", f"{path}: must be a tool's step, as a JSON object")
    assert step is not None  # noqa: S101  (for mypy)
    return step


def _tool(tool: Tool) -> dict[str, Any]:
    function = tool.function
    fields = {
        "type": "function",
        "name": function.name,
        "description": function.description,
        "parameters": function.parameters,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _config(request: ChatRequest, *, level: str | None) -> dict[str, Any]:
    summaries = request.reasoning_summary or request.reasoning_effort not in (None, "none")
    values: dict[str, Any] = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_output_tokens": request.limit,
        "stop_sequences": request.stops,
        "seed": request.seed,
        "thinking_level": level,
        "thinking_summaries": "auto" if summaries else None,
        # Gemini refuses `tool_choice` without functions.
        "tool_choice": _tool_choice(request) if request.tools else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _tool_choice(request: ChatRequest) -> Any:
    match request.tool_choice:
        case ToolChoice(function=function):
            return {"allowed_tools": {"mode": "any", "tools": [function.name]}}
        case "required" if request.allowed_tools:
            return {"allowed_tools": {"mode": "any", "tools": request.allowed_tools}}
        case "required":
            return "any"
        case choice:
            return choice


def _response_format(request: ChatRequest) -> dict[str, Any] | None:
    form = {"type": "text", "mime_type": "application/json"}
    match request.response_format:
        case JsonSchemaFormat(json_schema=schema) if schema.schema is not None:
            return {**form, "schema": schema.schema}
        case JsonObjectFormat() | JsonSchemaFormat():
            return form
        case _:
            return None
