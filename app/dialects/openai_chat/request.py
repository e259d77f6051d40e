"""What an upstream that speaks Chat Completions is sent."""

from typing import Any, Literal

import msgspec

from app.dialects.conversation import list_reasoning
from app.requests import AssistantMessage, ChatRequest, OpaquePart, ReasoningPart

GOOGLE_SIGNATURE = "google.thought_signature"
"""The format of the `opaque` that Gemini's Chat Completions route wants back with a call."""


class Quirks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one vendor wants in a request."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """OpenAI's reasoning models refuse the older name; most others know no other."""
    stream_options: bool = True
    """Whether to ask for usage; Mistral gives it unasked and refuses the field."""
    send_reasoning: Literal["no", "reasoning_content", "reasoning", "reasoning_details"] = "no"
    """The field of an assistant message that takes what the model thought: DeepSeek wants
    `reasoning_content` back, OpenRouter `reasoning_details`, OpenAI nothing."""


def render_request(
    request: ChatRequest, *, model: str, quirks: Quirks | None = None
) -> dict[str, Any]:
    """Give the body that asks an upstream for `model` as a stream.

    `provider_options` overrules all but the model and that it is a stream.
    """
    quirks = quirks or Quirks()
    body: dict[str, Any] = msgspec.to_builtins(request)
    options = body.pop("provider_options", {})
    limits = [body.pop(name, None) for name in ("max_completion_tokens", "max_tokens")]
    limit = next((value for value in limits if value is not None), None)
    if limit is not None:
        body[quirks.max_tokens_field] = limit
    body.pop("on_disconnect", None)
    for message, rendered in zip(request.messages, body["messages"], strict=True):
        if isinstance(message, AssistantMessage):
            _edit_message(message, rendered, quirks=quirks)
    # msgspec leaves out a `type` that has its default.
    for tool in body.get("tools", ()):
        tool["type"] = "function"
    if isinstance(body.get("tool_choice"), dict):
        body["tool_choice"]["type"] = "function"
    if quirks.stream_options:
        body["stream_options"] = {"include_usage": True}
    return {**body, **options, "model": model, "stream": True}


def _edit_message(message: AssistantMessage, rendered: dict[str, Any], *, quirks: Quirks) -> None:
    rendered.pop("reasoning_content", None)
    content = rendered.setdefault("content", None)
    if isinstance(content, list):
        kept = [part for part in content if part["type"] not in ("reasoning", "opaque")]
        rendered["content"] = kept or None
    parts = list_reasoning(message)
    text = "".join(part.text for part in parts)
    match quirks.send_reasoning:
        case "reasoning_content" | "reasoning" as field if text:
            rendered[field] = text
        case "reasoning_details":
            details = [detail for part in parts for detail in _details(part)]
            if isinstance(message.content, list):
                opaque = [part for part in message.content if isinstance(part, OpaquePart)]
                details += [_encrypted(part.data, part.format) for part in opaque]
            if details:
                rendered["reasoning_details"] = details
    for call in rendered.get("tool_calls", ()):
        call["type"] = "function"
        for opaque in call.pop("opaque", ()):
            if opaque["format"] == GOOGLE_SIGNATURE:
                google = {"thought_signature": opaque["data"]}
                call["extra_content"] = {"google": google}


def _details(part: ReasoningPart) -> list[dict[str, Any]]:
    """Give OpenRouter's form of what was thought, and of what proves it."""
    found: list[dict[str, Any]] = []
    if part.text or part.signature:
        detail: dict[str, Any] = {"type": "reasoning.text", "text": part.text}
        if part.signature:
            detail["signature"] = part.signature
        if part.format:
            detail["format"] = part.format
        found.append(detail)
    if part.encrypted:
        found.append(_encrypted(part.encrypted, part.format))
    return found


def _encrypted(data: str, format: str | None) -> dict[str, Any]:
    return {"type": "reasoning.encrypted", "data": data, **({"format": format} if format else {})}
