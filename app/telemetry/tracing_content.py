"""Renders messages in the format of OpenTelemetry's conventions for generative AI. Pure."""

from typing import Any, Final, NamedTuple

import msgspec

_FINISHES: Final = {"tool_calls": "tool_call", "cancelled": "error"}
"""Our finish reasons that have another name there."""


class Messages(NamedTuple):
    """The values of `gen_ai.input.messages` and `gen_ai.output.messages`, as JSON."""

    input: str
    output: str


def render_messages(content: bytes, *, finish_reason: str) -> Messages:
    """Render content packed by `generation.content`, which is bounded."""
    packed = msgspec.json.decode(content)
    choices: dict[int, list[dict[str, Any]]] = {}
    for block in packed.get("answer", ()):
        choices.setdefault(block.get("choice", 0), []).append(_output_part(block))
    reason = _FINISHES.get(finish_reason, finish_reason)
    answers = [
        {"role": "assistant", "parts": parts, "finish_reason": reason}
        for _, parts in sorted(choices.items())
    ]
    received = [_input_message(message) for message in packed.get("messages", ())]
    return Messages(msgspec.json.encode(received).decode(), msgspec.json.encode(answers).decode())


def _output_part(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "tool_call":
        return {
            "type": "tool_call",
            "name": block["name"],
            "arguments": _arguments(block["arguments"]),
        }
    return {"type": block["type"], "content": block["text"]}


def _input_message(message: dict[str, Any]) -> dict[str, Any]:
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        part = {
            "type": "tool_call_response",
            "id": message.get("tool_call_id"),
            "response": content,
        }
        return {"role": role, "parts": [part]}
    parts: list[dict[str, Any]] = []
    if thought := message.get("reasoning_content"):
        parts.append({"type": "reasoning", "content": thought})
    if isinstance(content, str):
        parts.append({"type": "text", "content": content})
    else:
        parts += [_part(part) for part in content or ()]
    for call in message.get("tool_calls") or ():
        function = call["function"]
        arguments = _arguments(function["arguments"])
        parts.append(
            {
                "type": "tool_call",
                "id": call["id"],
                "name": function["name"],
                "arguments": arguments,
            }
        )
    return {"role": role, "parts": parts}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """Render a part; kinds that the conventions do not define stay unchanged."""
    kind = part.get("type")
    if kind in ("text", "reasoning"):
        return {"type": kind, "content": part.get("text", "")}
    return part


def _arguments(text: str) -> Any:
    """Parse the arguments of a tool call; return invalid JSON as text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):  # truncated, for example
        return text
