"""A whole answer as one Anthropic message: what a client would make of the stream."""

from collections.abc import Iterable
from typing import Any

from app.dialects.anthropic.renderer import Payload, Payloads
from app.dialects.untyped import decode
from app.events import Event, StreamEnd


def render_result(stream: str, events: Iterable[Event]) -> Payload:
    """Fold the events of a stream into a message.

    Raises:
        RelayError: it did not complete, or called a tool with what is no JSON object.
    """
    payloads = Payloads(stream)
    message: Payload = {}
    inputs: dict[int, str] = {}
    for event in events:
        if isinstance(event, StreamEnd) and (failed := payloads.failed(event)) is not None:
            raise failed
        for payload in payloads.feed(event):
            _add(message, payload, inputs)
    content = enumerate(message["content"])
    found = [_whole(block, inputs.get(number, "")) for number, block in content]
    return {**message, "content": [block for block in found if block is not None]}


def _add(message: Payload, payload: Payload, inputs: dict[int, str]) -> None:
    match payload["type"]:
        case "message_start":
            message.update(payload["message"])
        case "content_block_start":
            message["content"].append(dict(payload["content_block"]))
        case "content_block_delta":
            number = payload["index"]
            _extend(message["content"][number], number, payload["delta"], inputs)
        case "message_delta":
            message.update(payload["delta"])
            message["usage"] = payload["usage"]


def _extend(block: Payload, number: int, delta: Payload, inputs: dict[int, str]) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "citations_delta":
            block.setdefault("citations", []).append(delta["citation"])
        case _:
            inputs[number] = inputs.get(number, "") + delta["partial_json"]


def _whole(block: Payload, text: str) -> Payload | None:
    """Give a block as a whole; None for a call that the end of the answer has torn."""
    if block["type"] != "tool_use":
        return block
    try:
        value: Any = decode(text or "{}")
    except ValueError:
        return None
    return {**block, "input": value} if isinstance(value, dict) else None
