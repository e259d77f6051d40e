"""Renderer of Chat Completions requests to upstreams."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Self

import msgspec

from ....requests import (
    AssistantMessage,
    ChatBody,
    ChatRequest,
    FilePart,
    Message,
    OpaquePart,
    ReasoningPart,
    UserMessage,
    VideoPart,
    values_of,
)
from ...reasoning_signatures import CLAUDE_REDACTED, GOOGLE_SIGNATURE
from ...upstream_format import Quirks as CommonQuirks
from ...upstream_format import RenderedRequest
from ...writing.conversation import (
    fit_user,
    list_reasoning,
    parse_data_url,
    restrict_tools,
)
from ...writing.exchange import arrange
from ...writing.request_rules import (
    check_parts,
    fit_object,
    fit_stops,
    fit_tool_schemas,
    name_image,
)
from ..reasoning_details import render_encrypted_detail, render_text_detail
from .rules import FORMS, IMAGES, LONGEST_USER, STOPS, TOP_KEYWORDS

LITELLM: Final = "litellm"
"""The format of a signature in `thinking_blocks`."""
LITELLM_REDACTED: Final = "litellm.redacted_thinking"
"""The format of an `opaque` for a redacted thinking block."""

Tuning = Literal[
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "logprobs",
    "top_logprobs",
    "parallel_tool_calls",
    "reasoning_effort",
    "metadata",
    "user",
    "verbosity",
    "service_tier",
    "store",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
]
"""The optional fields: an upstream that ignores them still answers the request."""

IGNORED: Final = frozenset(("truncation", "max_tool_calls"))
"""The request fields without a counterpart in the format."""
FORMAT: Final = "Chat Completions"


class Quirks(CommonQuirks, frozen=True):
    """What a vendor requires in a request."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens", "as_received"] = "max_tokens"
    """OpenAI's reasoning models reject the older name; most others only know that. `as_received`
    is the name that a client of Chat Completions used, for hosts that nobody knows.
    """
    stream_options: bool = True
    """Whether to request usage; Mistral always sends it and rejects the field."""
    send_reasoning: Literal[
        "no",
        "as_received",
        "reasoning_content",
        "reasoning",
        "reasoning_details",
        "thinking",
        "thinking_blocks",
    ] = "no"
    """The field of an assistant message for its reasoning: DeepSeek requires
    `reasoning_content`, OpenRouter `reasoning_details`, OpenAI none; Mistral requires
    `thinking` parts in the content, LiteLLM `thinking_blocks` with Claude's signatures.
    `as_received` is the field in which the model sent it.
    """
    seed_field: Literal["seed", "random_seed"] = "seed"
    effort_field: Literal["reasoning_effort", "reasoning"] = "reasoning_effort"
    """`reasoning` is an object that contains the effort, as in gateways."""
    required_word: Literal["required", "any"] = "required"
    """The value of `tool_choice` that requires a call."""
    files: Literal["file", "document_url"] = "file"
    """The type of a file part."""
    names: Literal["all", "user", "none"] = "all"
    """The messages that may have a `name`: Groq rejects any, xAI those of roles other than
    `user`.
    """
    dimensions_field: Literal["dimensions", "output_dimension"] = "dimensions"
    """For embeddings."""
    call_ids: Literal["any", "40", "nine"] = "any"
    """The accepted ids of tool calls: OpenAI's have at most 40 characters, Mistral's are nine
    letters and digits. Other ids are replaced by a digest.
    """
    bare_audio: bool = False
    """Whether an audio part is its base64 text instead of an object with the format."""
    developer: bool = True
    """Whether the role `developer` is supported; otherwise `system` replaces it."""
    plain: bool = False
    """Whether fields beyond the basic format are rejected, as by Mistral: then no `name` is
    sent, refusals become text, `developer` becomes `system`, a tool without parameters gets an
    empty schema, and `prefill` is `prefix`.
    """
    left_out: tuple[Tuning, ...] = ()
    """Optional fields that the vendor rejects."""
    extras: tuple[str, ...] | None = None
    """The vendor's fields beyond `ChatRequest` that clients may set; None for vendors that
    ignore unknown fields.
    """
    cache_control: bool = False
    """Whether parts and tools may have `cache_control`, as in gateways to Claude."""
    custom_tools: bool = False
    """Whether there are custom tools, whose input is any text; otherwise they are functions."""
    openai_limits: bool = False
    """Whether OpenAI's own limits hold: at most four stop sequences, tools' schemas without a
    choice at their top, images of four types, no videos, no files by URL.
    """
    allowed_tools: bool = False
    """Whether `tool_choice` may be a list; otherwise only the allowed tools are sent."""
    prefill: Literal["no", "plain", "prefix", "partial", "continue_final_message"] = "no"
    """How the model goes on at the end of a last turn of the assistant: as it is, with a field of
    that message, or with vLLM's field of the request.
    """

    @property
    def ignored(self) -> tuple[str, ...]:
        marks = () if self.cache_control else ("cache_control",)
        summary = () if self.effort_field == "reasoning" else ("reasoning_summary",)
        return (*self.left_out, *marks, *summary)

    @property
    def echoes(self) -> bool:
        return self.plain or self.prefill == "prefix"  # Mistral returns the prefix

    def with_reasoning(self, field: str) -> Self:
        """Return the quirks with the model's own reasoning field, if `send_reasoning` is
        `as_received`.
        """
        if self.send_reasoning != "as_received" or field == "no":
            return self
        return msgspec.structs.replace(self, send_reasoning=field)


def render_request(
    request: ChatRequest, *, model: str, quirks: Quirks | None = None
) -> RenderedRequest:
    """Return the body of a streaming request for `model`.

    `provider_options` override all fields except `model` and `stream`.

    Raises:
        RequestError: no tool is allowed; the vendor refuses a part.
    """
    quirks = quirks or Quirks()
    if request.allowed_tools is not None and not quirks.allowed_tools:
        request = restrict_tools(request)
    if request.user is None and "safety_identifier" in quirks.left_out:
        request = msgspec.structs.replace(request, user=request.safety_identifier)
    changes = _list_names(request.messages, quirks=quirks)
    if quirks.openai_limits:
        request, stops = fit_stops(request, STOPS, format=FORMAT)
        request, moved = fit_tool_schemas(request, TOP_KEYWORDS)
        check_parts(request.messages, _refuse, format=FORMAT)
        changes = (*changes, *stops, *moved)
    messages = request.messages
    if not request.is_plain:
        messages, arranged = arrange(messages, FORMS[quirks.call_ids])
        changes = (*arranged, *changes)
    if messages is not request.messages:
        request = msgspec.structs.replace(request, messages=messages)
    body: dict[str, Any] = msgspec.to_builtins(ChatBody(*values_of(request)))
    options = body.pop("provider_options", {})
    for name in ("on_disconnect", "chat", "overlap"):
        body.pop(name, None)
    _edit_fields(request, body, quirks=quirks)
    limit_field = find_limit_field(body, quirks=quirks)
    body.pop("max_completion_tokens", None)
    body.pop("max_tokens", None)
    if request.limit is not None:
        body[limit_field] = request.limit
    if "user" in body:
        body["user"] = fit_user(request.user, longest=LONGEST_USER)
    if "seed" in body:
        body[quirks.seed_field] = body.pop("seed")
    for message, rendered in zip(request.messages, body["messages"], strict=True):
        if len(rendered) == 2 and type(message.content) is str and rendered["role"] != "developer":
            continue  # a role and a text
        _edit_message(rendered, quirks=quirks)
        if rest := rendered.pop("rest", None):
            _add_rest(rendered, rest, quirks=quirks)
        if "name" in rendered and not _takes_name(message, quirks=quirks):
            del rendered["name"]
        if isinstance(message, AssistantMessage):
            _edit_assistant(message, rendered, quirks=quirks)
    # An assistant message of reasoning only may become empty, which hosts reject.
    kept = [
        one
        for one in body["messages"]
        if one["content"] or one["role"] != "assistant" or len(one) > 2
    ]
    body["messages"] = kept or body["messages"]
    if body["messages"][-1]["role"] == "assistant":
        _mark_prefill(body, quirks=quirks)
    _edit_tools(body, options, quirks=quirks)
    if quirks.stream_options:
        option = options.pop("stream_options", None)
        fields = option if isinstance(option, dict) else {}
        body["stream_options"] = {**fields, "include_usage": True}
    return RenderedRequest({**body, **options, "model": model, "stream": True}, changes)


def find_limit_field(body: Mapping[str, Any], *, quirks: Quirks) -> str:
    """Return the name of the output limit of a body."""
    if quirks.max_tokens_field != "as_received":
        return quirks.max_tokens_field
    return "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"


def continues(request: ChatRequest, *, model: str, quirks: Quirks) -> bool:
    """Return whether the model goes on at the end of a last turn of the assistant."""
    return quirks.plain or quirks.prefill != "no"


def _mark_prefill(body: dict[str, Any], *, quirks: Quirks) -> None:
    """Mark a last turn of the assistant for the model to continue: Mistral requires it."""
    match "prefix" if quirks.plain else quirks.prefill:
        case "prefix" | "partial" as field:
            body["messages"][-1][field] = True
        case "continue_final_message":
            body |= {"continue_final_message": True, "add_generation_prompt": False}


def _edit_fields(request: ChatRequest, body: dict[str, Any], *, quirks: Quirks) -> None:
    """Render the top-level fields as the vendor requires."""
    for name in IGNORED:
        body.pop(name, None)
    for name in quirks.left_out:
        body.pop(name, None)
    if request.tier is None:
        body.pop("service_tier", None)
    if not request.store:
        body.pop("store", None)
    summary = body.pop("reasoning_summary", None)
    if quirks.effort_field == "reasoning":
        reasoning = {"effort": body.pop("reasoning_effort", None), "summary": summary}
        reasoning = {name: value for name, value in reasoning.items() if value is not None}
        if reasoning:
            body["reasoning"] = reasoning
    mark = body.pop("cache_control", None)
    if mark is not None and quirks.cache_control:
        body["messages"][-1].setdefault("cache_control", mark)


def render_extra(name: str, value: Any, *, quirks: Quirks) -> dict[str, Any] | None:
    """Return a field under its own name, if the vendor supports it."""
    return {name: value} if quirks.extras is None or name in quirks.extras else None


def _add_rest(rendered: dict[str, Any], rest: dict[str, Any], *, quirks: Quirks) -> None:
    """Add a client's other members to an object; they replace none."""
    for name, value in rest.items():
        known = rendered.get(name)
        if isinstance(known, dict) and isinstance(value, dict):
            _add_rest(known, value, quirks=quirks)
        elif name not in rendered:
            rendered |= render_extra(name, value, quirks=quirks) or {}


def _be_custom(item: dict[str, Any], *, quirks: Quirks) -> None:
    """Turn a function or a call of it into the custom tool that it was, with its other members."""
    rest = item.pop("rest", {})
    custom = rest.pop("custom", None)
    if custom and quirks.custom_tools:
        item["type"] = "custom"
        item["custom"] = {**custom, "name": item.pop("function")["name"]}
        rest.pop("function", None)
    _add_rest(item, rest, quirks=quirks)


def _list_names(messages: Sequence[Message], *, quirks: Quirks) -> tuple[str, ...]:
    """Return a change if names of messages are omitted."""
    if quirks.names == "all" and not quirks.plain:
        return ()
    for message in messages:
        named = getattr(message, "name", None) is not None or "name" in (message.rest or ())
        if named and not _takes_name(message, quirks=quirks):
            scope = "in messages of other roles" if quirks.names == "user" else "in messages"
            return (f"does not support name {scope}: dropped",)
    return ()


def _refuse(part: Any) -> str:
    """Return what a part is that OpenAI refuses: it takes no video, and fetches no file."""
    if isinstance(part, VideoPart):
        return "video"
    if isinstance(part, FilePart) and part.file.url:
        return "a file by its URL (send a data: URL)"
    return name_image(part, IMAGES)


def _takes_name(message: Message, *, quirks: Quirks) -> bool:
    if quirks.plain or quirks.names == "none":
        return False
    return quirks.names == "all" or isinstance(message, UserMessage)


def _edit_tools(body: dict[str, Any], options: Mapping[str, Any], *, quirks: Quirks) -> None:
    custom: set[str] = set()
    if not body.get("tools") and "tools" not in options:
        # These are only allowed with tools, and have no meaning without.
        for name in ("tools", "parallel_tool_calls", "allowed_tools"):
            body.pop(name, None)
        if body.get("tool_choice") in ("auto", "none"):
            del body["tool_choice"]
    # msgspec omits a `type` that has its default.
    for tool in body.get("tools", ()):
        tool["type"] = "function"
        if quirks.plain or "parameters" in tool["function"]:
            # `object schema missing properties` (github/github-mcp-server#1548, 2025-12-07).
            tool["function"]["parameters"] = fit_object(tool["function"].get("parameters"))
        if not quirks.cache_control:
            tool.pop("cache_control", None)
        _be_custom(tool, quirks=quirks)
        if "custom" in tool:
            custom.add(tool["custom"]["name"])
    choice = body.get("tool_choice")
    allowed = body.pop("allowed_tools", None)
    if allowed is not None and not isinstance(choice, dict):
        kinds = [(name, "custom" if name in custom else "function") for name in allowed]
        tools = [{"type": kind, kind: {"name": name}} for name, kind in kinds]
        listed = {"mode": "required" if choice == "required" else "auto", "tools": tools}
        body["tool_choice"] = {"type": "allowed_tools", "allowed_tools": listed}
    elif isinstance(choice, dict):
        name = choice["function"]["name"]
        kind = "custom" if name in custom else "function"
        body["tool_choice"] = {"type": kind, kind: {"name": name}}
    elif choice == "required":
        body["tool_choice"] = quirks.required_word


def _edit_message(rendered: dict[str, Any], *, quirks: Quirks) -> None:
    rendered.pop("is_error", None)  # the format has no such field
    if rendered["role"] == "developer" and (quirks.plain or not quirks.developer):
        rendered["role"] = "system"
    mark = rendered.pop("cache_control", None)
    content = rendered.get("content")
    if mark is not None and quirks.cache_control:
        content = rendered["content"] = _mark(content, mark)
    if isinstance(content, list):
        rendered["content"] = [_edit_part(part, quirks=quirks) for part in content]


def _mark(content: Any, mark: dict[str, Any]) -> Any:
    """Put the mark on the last text of a content: gateways expect it there."""
    if isinstance(content, str) and content:
        return [{"type": "text", "text": content, "cache_control": mark}]
    texts = [part for part in content or () if part["type"] == "text"]
    if texts:
        texts[-1].setdefault("cache_control", mark)
    return content


def _edit_part(part: dict[str, Any], *, quirks: Quirks) -> dict[str, Any]:
    rest = part.pop("rest", {})
    edited = _edit_known(part, quirks=quirks)
    _add_rest(edited, rest, quirks=quirks)
    return edited


def _edit_known(part: dict[str, Any], *, quirks: Quirks) -> dict[str, Any]:
    if not quirks.cache_control:
        part.pop("cache_control", None)
    part.pop("optional", None)
    match part["type"]:
        case "input_audio" if quirks.bare_audio:
            return {"type": "input_audio", "input_audio": part["input_audio"]["data"]}
        case "file" if quirks.files == "document_url":
            return _document(part["file"])
        case "file" if "file_url" in part["file"]:  # as OpenRouter takes it
            url = part["file"].pop("file_url")
            return {"type": "file", "file": {**part["file"], "file_data": url}}
        case "refusal" if quirks.plain:
            return {"type": "text", "text": part["refusal"]}
        case _:
            return part


def _document(file: dict[str, Any]) -> dict[str, Any]:
    """Return a file in Mistral's form: an image, a document, or an uploaded file."""
    url = file.get("file_url") or file.get("file_data")
    if url is None:
        return {"type": "file", "file_id": file.get("file_id")}
    found = parse_data_url(url)
    if found and found[0].startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    name = {"document_name": file["filename"]} if "filename" in file else {}
    return {"type": "document_url", "document_url": url, **name}


def _edit_assistant(message: AssistantMessage, rendered: dict[str, Any], *, quirks: Quirks) -> None:
    rendered.pop("reasoning_content", None)
    content = rendered.setdefault("content", None)
    if isinstance(content, list):
        rest = [part for part in content if part["type"] not in ("reasoning", "opaque")]
        rendered["content"] = rest or None
    if quirks.plain and (refusal := rendered.pop("refusal", None)):
        rendered["content"] = rendered["content"] or refusal
    _add_reasoning(message, rendered, form=quirks.send_reasoning)
    for call in rendered.get("tool_calls", ()):
        for opaque in call.pop("opaque", ()):
            if opaque["format"] == GOOGLE_SIGNATURE:
                google = {"thought_signature": opaque["data"]}
                call["extra_content"] = {"google": google}
        _be_custom(call, quirks=quirks)


def _add_reasoning(message: AssistantMessage, rendered: dict[str, Any], *, form: str) -> None:
    parts = list_reasoning(message)
    text = "".join(part.text for part in parts)
    match form:
        case "reasoning_content" | "reasoning" if text:
            rendered[form] = text
        case "reasoning_details":
            details = [detail for part in parts for detail in _details(part)]
            if isinstance(message.content, list):
                opaque = [part for part in message.content if isinstance(part, OpaquePart)]
                details += [
                    render_encrypted_detail(part.data, format=part.format) for part in opaque
                ]
            if details:
                rendered["reasoning_details"] = details
        case "thinking_blocks":
            if blocks := _thinking_blocks(message):
                rendered["thinking_blocks"] = blocks
        case "thinking":
            thinking = [_thinking(part) for part in parts if part.text]
            content = rendered["content"]
            if isinstance(content, str):
                content = [{"type": "text", "text": content}] if content else None
            if thinking:
                rendered["content"] = [*thinking, *(content or [])]


def _thinking(part: ReasoningPart) -> dict[str, Any]:
    """Return a `thinking` part for Mistral; only signatures without a format are its own."""
    is_mistral = part.signature and not part.format
    return {
        "type": "thinking",
        "thinking": [{"type": "text", "text": part.text}],
        **({"signature": part.signature} if is_mistral else {}),
    }


def _thinking_blocks(message: AssistantMessage) -> list[dict[str, Any]]:
    """Return Claude's thinking in LiteLLM's form; signatures of other formats are dropped."""
    blocks: list[dict[str, Any]] = []
    for part in message.content if isinstance(message.content, list) else ():
        match part:
            case ReasoningPart(signature=str(signed)) if part.format in (None, LITELLM):
                blocks.append({"type": "thinking", "thinking": part.text, "signature": signed})
            case OpaquePart(format=format) if format in (CLAUDE_REDACTED, LITELLM_REDACTED):
                blocks.append({"type": "redacted_thinking", "data": part.data})
            case OpaquePart(format=format) if format == LITELLM:  # a signature without a text
                blocks.append({"type": "thinking", "thinking": "", "signature": part.data})
    return blocks


def _details(part: ReasoningPart) -> list[dict[str, Any]]:
    """Return OpenRouter's `reasoning_details` for a part."""
    found: list[dict[str, Any]] = []
    if part.text or part.signature:
        found.append(render_text_detail(part.text, signature=part.signature, format=part.format))
    if part.encrypted:
        found.append(render_encrypted_detail(part.encrypted, format=part.format))
    return found
