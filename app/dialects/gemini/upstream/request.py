"""Renderer of requests to the Gemini API and Vertex AI.

System and developer messages form one instruction outside the conversation. Reasoning is not
sent back, but its signatures are, each with its original part, and the parts of Google's own
tools unchanged.
"""

import re
from typing import Any, Final, Literal

import msgspec

from ....bounds import Budget
from ....errors import RequestError
from ....requests import (
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
    RefusalPart,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMessage,
    UserMessage,
    VideoPart,
)
from ...answering.ids import is_generated
from ...upstream_format import OPENAI_ONLY, RenderedRequest
from ...upstream_format import Quirks as CommonQuirks
from ...writing.chat_extras import render_at
from ...writing.conversation import (
    join_options,
    join_text,
    parse_arguments,
    parse_object,
    restrict_tools,
)
from ...writing.exchange import Exchange, arrange
from ...writing.request_rules import BEGIN, fit_stops, fit_turns
from ...writing.token_counts import pick
from .media_parts import FORMAT, render_audio, render_file, render_image, render_video
from .rules import ALWAYS_THINKS, CALL, CONTINUED, FORM, LEAST_BUDGET, STOPS

SIGNATURE: Final = "gemini.thought_signature"
"""The format of an `opaque` with a thoughtSignature."""
PART: Final = "gemini.part"
"""The format of an `opaque` with a complete part, as JSON, of a Google tool."""

_SIGNATURES: Final = (SIGNATURE, "google.thought_signature")
"""The second is from Gemini's Chat Completions route; their data are equivalent."""
NEWEST_MAJOR: Final = 3
NO_SIGNATURE: Final = "skip_thought_signature_validator"
"""Gemini 3 accepts it in place of the signature of another model's call."""
_BUDGETS: Final = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192}
"""Google's mapping of efforts, in tokens."""
_HIGHEST_BUDGET: Final = 24_576
_HIGHEST_EFFORTS: Final = ("high", "xhigh", "max")
"""The efforts that map to the highest budget."""
_LEVELS: Final = ("minimal", "low", "medium", "high", "xhigh")
IGNORED: Final = OPENAI_ONLY | {
    "cache_control",
    "metadata",
    "parallel_tool_calls",
    "safety_identifier",
    "truncation",
    "user",
}
"""The request fields without a counterpart in the format."""
_TIERS: Final = ("flex", "priority", "standard")
_HIGHEST_LEVEL: Final = "high"
_LOWEST_LEVEL: Final = "low"
"""The highest and lowest levels that every model supports."""
_MINIMAL: Final = re.compile(r"gemini-3(?:\.6)?-flash|gemini-3\.5-flash-lite")
"""Models that support "minimal" (Google's page on thinking, 2026-11); 3.7 and 3.8 Flash do not."""


GOOGLES: Final = "/publishers/"
"""A part of Vertex AI's base URLs, but not of the Gemini API's."""


class Quirks(CommonQuirks, frozen=True):
    """Differences between models; "auto" depends on the version in the model's name."""

    thinking: Literal["auto", "level", "budget"] = "auto"
    """The form of an effort: Gemini 3 expects a level, Gemini 2.5 a number of tokens."""
    call_ids: Literal["auto", "yes", "no"] = "auto"
    """Whether calls and their results have ids: only since Gemini 3."""
    unsigned_calls: Literal["auto", "mark", "send"] = "auto"
    """Gemini 3 rejects an unsigned call without the placeholder signature."""
    stream_arguments: bool = False
    """Whether to request partial arguments, which Vertex AI supports and the Gemini API rejects."""


def find_hosted_tool(kind: str, request: ChatRequest) -> dict[str, Any] | None:
    """Return Gemini's equivalent of one of OpenAI's hosted tools.

    Models before Gemini 3 do not support search together with functions.
    """
    return {"googleSearch": {}} if kind.startswith("web_search") and not request.tools else None


def render_request(
    request: ChatRequest, *, model: str, quirks: Quirks | None = None
) -> RenderedRequest:
    """Return the request body; the model and streaming are in the URL.

    `provider_options` override its fields; objects such as `generationConfig` are merged.

    Raises:
        RequestError: the format cannot express the request.
    """
    quirks = _resolve_auto(quirks or Quirks(), model)
    if request.tool_choice != "required":
        request = restrict_tools(request)
    messages, changes = _arrange(request, model=model)
    request, blank = fit_stops(request, STOPS, format=FORMAT)
    contents = _contents(messages, quirks=quirks)
    begun = fit_turns(
        contents,
        {"role": "user", "parts": [{"text": BEGIN}]},
        refuses_first=lambda turn: any(CALL in part for part in turn["parts"]),
    )
    body: dict[str, Any] = {"contents": contents}
    if instruction := _instruction(request.messages):
        body["systemInstruction"] = {"parts": instruction}
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_tool(tool) for tool in request.tools]}]
    calling = {} if request.tool_choice is None else _tool_choice(request.tool_choice)
    if calling and request.allowed_tools:
        calling["allowedFunctionNames"] = request.allowed_tools
    if request.tools and quirks.stream_arguments:
        calling["streamFunctionCallArguments"] = True
    # `Function calling config is set without function_declarations` (pydantic/pydantic-ai#5791).
    if calling and (request.tools or "tools" in (request.provider_options or {})):
        body["toolConfig"] = {"functionCallingConfig": calling}
    thinking, effort_change = _fit_thinking(request, model=model, quirks=quirks)
    if config := _config(request, thinking=thinking):
        body["generationConfig"] = config
    tier, change = fit_tier(request)
    if tier is not None:
        body["serviceTier"] = tier
    join_options(body, request.provider_options)
    return RenderedRequest(body, [*changes, *begun, *blank, *change, *effort_change])


def fit_tier(request: ChatRequest) -> tuple[str | None, tuple[str, ...]]:
    """Return the service tier, or a change if Google does not have it."""
    tier = request.tier
    if tier is None or tier in _TIERS:
        return tier, ()
    return None, (f"does not support service_tier {tier[:80]!r}: dropped",)


def fit_level(effort: str, *, model: str) -> tuple[str, tuple[str, ...]]:
    """Return the thinking level for an effort, and a change if there is none of its name."""
    if effort in _LEVELS:
        return effort, ()
    level = _HIGHEST_LEVEL
    if effort == "none":  # Gemini 3 cannot disable thinking
        level = "minimal" if _MINIMAL.search(model) else _LOWEST_LEVEL
    return level, (_note_effort(effort, repr(level)),)


def _fit_budget(effort: str, *, model: str) -> tuple[int, tuple[str, ...]]:
    """Return the thinking budget for an effort, and a change if the model does not support it."""
    budget = _BUDGETS.get(effort, _HIGHEST_BUDGET)
    if not budget and ALWAYS_THINKS.search(model):
        budget = LEAST_BUDGET
    elif effort in (*_BUDGETS, *_HIGHEST_EFFORTS):
        return budget, ()
    return budget, (_note_effort(effort, f"a budget of {budget} tokens"),)


def _fit_thinking(
    request: ChatRequest, *, model: str, quirks: Quirks
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return the thinking configuration, with thoughts if any are wanted, and the changes."""
    effort = request.reasoning_effort
    thoughts = {} if effort == "none" else {"includeThoughts": True}
    if effort is None:
        return thoughts if request.reasoning_summary is not None else None, ()
    if quirks.thinking == "level":
        level, change = fit_level(effort, model=model)
        return {**thoughts, "thinkingLevel": level.upper()}, change
    budget, change = _fit_budget(effort, model=model)
    return {**thoughts, "thinkingBudget": budget}, change


def _note_effort(effort: str, sent: str) -> str:
    return f"does not support reasoning_effort {effort[:80]!r}: sent {sent}"


def _arrange(request: ChatRequest, *, model: str) -> Exchange:
    prefill = CONTINUED.search(model) is not None
    # Function results support images since Gemini 3.
    form = FORM._replace(prefill=prefill, images=find_major(model) >= NEWEST_MAJOR)
    return arrange(request.messages, form)


def find_major(model: str) -> int:
    """Return the major version in a model's name; the newest if it has none."""
    version = re.search(r"gemini-([0-9]{1,9})", model)
    return NEWEST_MAJOR if version is None else int(version[1])


_render_field = render_at(
    {
        "top_k": "generationConfig.topK",
        "modalities": "generationConfig.responseModalities",
        "safety_settings": "safetySettings",
    }
)


def render_extra(name: str, value: Any, *, quirks: Quirks) -> dict[str, Any] | None:
    """Return the path of a Chat Completions field with its value."""
    if name == "modalities" and isinstance(value, list):
        value = [str(word).upper() for word in value]
    return _render_field(name, value, quirks=quirks)


def _resolve_auto(quirks: Quirks, model: str) -> Quirks:
    """Resolve "auto"; a model name without version counts as the newest."""
    new = find_major(model) >= NEWEST_MAJOR
    auto = {
        "thinking": "level" if new else "budget",
        "call_ids": "yes" if new else "no",
        "unsigned_calls": "mark" if new else "send",
    }
    found = {field: word for field, word in auto.items() if getattr(quirks, field) == "auto"}
    return msgspec.structs.replace(quirks, **found)


def _instruction(messages: list[Message]) -> list[dict[str, Any]]:
    texts = (
        join_text(message.content)
        for message in messages
        if isinstance(message, SystemMessage | DeveloperMessage)
    )
    return [{"text": text} for text in texts if text]


def _contents(messages: list[Message], *, quirks: Quirks) -> list[dict[str, Any]]:
    """Return the turns; consecutive messages of a role form one."""
    contents: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    """The names of the called functions, by call id."""
    budget = Budget()
    for number, message in enumerate(messages):
        path = f"messages[{number}]"
        role = "user"
        match message:
            case SystemMessage() | DeveloperMessage():
                continue
            case UserMessage():
                parts = _user_parts(message, path=path)
            case AssistantMessage():
                role, parts = "model", _model_parts(message, path=path, quirks=quirks)
                names |= {call.id: call.function.name for call in message.tool_calls or ()}
            case ToolMessage():
                parts = [_tool_result(message, names, budget, path=path, quirks=quirks)]
        if contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": parts})
    return contents


def _user_parts(message: UserMessage, *, path: str) -> list[dict[str, Any]]:
    if isinstance(message.content, str):
        return [{"text": message.content}] if message.content else []
    parts: list[dict[str, Any]] = []
    for number, part in enumerate(message.content):
        where = f"{path}.content[{number}]"
        match part:
            case TextPart():
                # Gemini refuses an empty text.
                parts += [{"text": part.text}] if part.text else []
            case ImagePart():
                parts.append(render_image(part, path=where))
            case VideoPart():
                parts.append(render_video(part, path=where))
            case AudioPart():
                parts.append(render_audio(part))
            case FilePart():
                parts.append(render_file(part, path=where))
    return parts


def _model_parts(message: AssistantMessage, *, path: str, quirks: Quirks) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    content = message.content or ()
    for number, part in enumerate([TextPart(content)] if isinstance(content, str) else content):
        match part:
            case TextPart(text=text) | RefusalPart(refusal=text) if text:
                parts.append({"text": text})
            case OpaquePart(format=format) if format in _SIGNATURES:
                # A signature belongs to the preceding text, or to none.
                if not parts or parts[-1].keys() != {"text"}:
                    parts.append({"text": ""})
                parts[-1]["thoughtSignature"] = part.data
            case OpaquePart(format=format) if format == PART:
                parts.append(_parse_part(part.data, path=f"{path}.content[{number}].data"))
            case _:
                pass  # reasoning, and other providers' data
    if message.refusal:
        parts.append({"text": message.refusal})
    for number, call in enumerate(message.tool_calls or ()):
        where = f"{path}.tool_calls[{number}]"
        parts.append(_call(call, first=number == 0, path=where, quirks=quirks))
    return parts


def _parse_part(data: str, *, path: str) -> dict[str, Any]:
    part = parse_object(data)
    if part is None:
        raise RequestError("invalid_request", f"{path}: must be a JSON object")
    return part


def _call(call: ToolCall, *, first: bool, path: str, quirks: Quirks) -> dict[str, Any]:
    arguments = parse_arguments(call.function, path=f"{path}.function")
    part: dict[str, Any] = {"functionCall": {"name": call.function.name, "args": arguments}}
    if _is_gemini_id(call.id, quirks=quirks):
        part["functionCall"]["id"] = call.id
    signatures = (o.data for o in call.opaque or () if o.format in _SIGNATURES)
    signature = next(signatures, None)
    if signature is None and first and quirks.unsigned_calls == "mark":
        # Of parallel calls, only the first is signed.
        signature = NO_SIGNATURE
    if signature is not None:
        part["thoughtSignature"] = signature
    return part


def _is_gemini_id(id: str, *, quirks: Quirks) -> bool:
    """Return whether a call's id is Gemini's, and not assigned by the relay."""
    return quirks.call_ids == "yes" and not is_generated(id)


def _tool_result(
    message: ToolMessage, names: dict[str, str], budget: Budget, *, path: str, quirks: Quirks
) -> dict[str, Any]:
    call = message.tool_call_id
    response = _response(join_text(message.content), budget)
    result: dict[str, Any] = {"name": names[call], "response": response}
    if _is_gemini_id(call, quirks=quirks):
        result["id"] = call
    if isinstance(message.content, list):
        images = [
            render_image(part, path=f"{path}.content[{number}]")
            for number, part in enumerate(message.content)
            if isinstance(part, ImagePart)
        ]
        if images:
            result["parts"] = images
    return {"functionResponse": result}


def _response(text: str, budget: Budget) -> dict[str, Any]:
    """Return a result as an object, as Gemini requires; too complex JSON stays text."""
    document = None
    if text.lstrip().startswith("{") and budget.refuse(text.encode()) is None:
        document = parse_object(text)
    return {"result": text} if document is None else document


def _tool(tool: Tool) -> dict[str, Any]:
    function = tool.function
    declaration: dict[str, Any] = {"name": function.name}
    if function.description is not None:
        declaration["description"] = function.description
    if function.parameters is not None:
        declaration["parametersJsonSchema"] = function.parameters
    return declaration


def _tool_choice(choice: str | ToolChoice) -> dict[str, Any]:
    match choice:
        case "auto":
            return {"mode": "AUTO"}
        case "none":
            return {"mode": "NONE"}
        case ToolChoice(function=function):
            return {"mode": "ANY", "allowedFunctionNames": [function.name]}
        case _:
            return {"mode": "ANY"}


def _config(request: ChatRequest, *, thinking: dict[str, Any] | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "temperature": request.temperature,
        "topP": request.top_p,
        "maxOutputTokens": request.limit,
        "stopSequences": request.stops,
        "seed": request.seed,
        "candidateCount": request.n,
        "presencePenalty": request.presence_penalty,
        "frequencyPenalty": request.frequency_penalty,
        "responseLogprobs": request.logprobs or None,
        "logprobs": request.top_logprobs if request.logprobs else None,
        "thinkingConfig": thinking,
        **_response_format(request),
    }
    return {key: value for key, value in values.items() if value is not None}


def _response_format(request: ChatRequest) -> dict[str, Any]:
    match request.response_format:
        case JsonObjectFormat():
            return {"responseMimeType": "application/json"}
        case JsonSchemaFormat(json_schema=schema):
            return {"responseMimeType": "application/json", "responseJsonSchema": schema.schema}
        case _:
            return {}


def render_count(body: dict[str, Any], *, model: str, base_url: str) -> dict[str, Any]:
    """Return the body of a counting call for that of an answer."""
    if GOOGLES in base_url:
        return pick(body, ("contents", "systemInstruction", "tools"))
    return {"generateContentRequest": {**body, "model": f"models/{model}"}}
