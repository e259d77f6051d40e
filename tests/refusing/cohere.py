"""Cohere's /v2/chat.

Sources, read in November 2026: docs.cohere.com/reference/chat (`stop_sequences` up to 5, ranges
of sampling, `tool_choice` with tools only, `REQUIRED` and `NONE`), cohere-ai/
cohere-developer-experience#523 (2025-05-01: `temperature` from 0 to 1), and the types of the SDK.
"""

from collections.abc import Mapping
from typing import Any

from .reading import list_of, object_of

_FIELDS = frozenset(
    (
        *("model", "messages", "stream", "tools", "strict_tools", "tool_choice", "documents"),
        *("citation_options", "response_format", "safety_mode", "max_tokens", "stop_sequences"),
        *("temperature", "seed", "frequency_penalty", "presence_penalty", "k", "p", "logprobs"),
        *("thinking", "priority", "raw_prompting"),
    )
)


def refuse(
    body: Mapping[str, Any], headers: Mapping[str, str] = {}, host: str = "", *, model: str = ""
) -> list[str]:
    """Return what Cohere answers."""
    found = [f"unknown field: {name}" for name in sorted(body.keys() - _FIELDS)]
    messages = list_of(body.get("messages"))
    if not any(message.get("role") != "system" for message in messages):
        found.append("invalid request: messages must have a message of the user")
    waiting: set[str] = set()
    for number, message in enumerate(messages):
        path, role = f"messages[{number}]", message.get("role")
        content, calls = message.get("content"), list_of(message.get("tool_calls"))
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                found.append(f"{path}: tool_call_id not found in the previous tool calls")
            waiting.discard(str(message.get("tool_call_id")))
        elif waiting:
            found.append(f"{path}: tool calls without results: {sorted(waiting)}")
        if role in ("user", "system") and content in ("", [], None):
            found.append(f"{path}: invalid request: content must not be empty")
        if role == "assistant" and not content and not calls:
            found.append(f"{path}: must have content or tool_calls")
        if role != "tool":
            waiting = {call["id"] for call in calls}
        for part in list_of(content):
            if part.get("type") == "image_url" and role != "user":
                found.append(f"{path}: images are only supported in user messages")
    if waiting:
        found.append(f"tool calls without results: {sorted(waiting)}")
    if len(list_of(body.get("stop_sequences"))) > 5:
        found.append("invalid request: stop_sequences must have at most 5 items")
    for name, most in (("temperature", 1), ("presence_penalty", 1), ("frequency_penalty", 1)):
        if not 0 <= (body.get(name) or 0) <= most:
            found.append(f"invalid request: {name} must be between 0 and {most} inclusive")
    if body.get("p") is not None and not 0.01 <= body["p"] <= 0.99:
        found.append("invalid request: p must be between 0.01 and 0.99 inclusive")
    if "tool_choice" in body and not body.get("tools"):
        found.append("invalid request: tool_choice requires tools")
    for tool in list_of(body.get("tools")):
        function = object_of(tool.get("function"))
        if not isinstance(function.get("parameters"), dict):
            found.append(f"invalid request: tool {function.get('name')!r}: parameters")
    return found
