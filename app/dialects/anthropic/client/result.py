"""Result of a whole answer as one Anthropic message, folded from its stream."""

from collections.abc import Iterable

from ....events import Event, StreamEnd
from ...writing.conversation import parse_object
from .renderer import Payload, Payloads


def render_result(stream: str, events: Iterable[Event]) -> Payload:
    """Fold the events of a stream into a message.

    Raises:
        RelayError: it did not complete, or called a tool with invalid arguments.
    """
    payloads = Payloads(stream)
    message: Payload = {}
    pieces: list[list[str]] = []
    """The text, thinking or input of each block."""
    for event in events:
        if isinstance(event, StreamEnd) and (failed := payloads.failed(event)) is not None:
            raise failed
        for payload in payloads.feed(event):
            _add(message, payload, pieces)
    pairs = zip(message["content"], map("".join, pieces), strict=True)
    found = [_whole(block, text) for block, text in pairs]
    return {**message, "content": [block for block in found if block is not None]}


def _add(message: Payload, payload: Payload, pieces: list[list[str]]) -> None:
    match payload["type"]:
        case "message_start":
            message.update(payload["message"])
            message["usage"] = dict(message["usage"])
        case "content_block_start":
            message["content"].append(dict(payload["content_block"]))
            pieces.append([])
        case "content_block_delta":
            number = payload["index"]
            _extend(message["content"][number], payload["delta"], pieces[number])
        case "message_delta":
            message.update(payload["delta"])
            message["usage"] |= payload["usage"]


def _extend(block: Payload, delta: Payload, pieces: list[str]) -> None:
    match delta["type"]:
        case "text_delta":
            pieces.append(delta["text"])
        case "thinking_delta":
            pieces.append(delta["thinking"])
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "citations_delta":
            block.setdefault("citations", []).append(delta["citation"])
        case _:
            pieces.append(delta["partial_json"])


def _whole(block: Payload, text: str) -> Payload | None:
    """Return a complete block; None for a truncated call."""
    match block["type"]:
        case "text" | "thinking" as field:
            return {**block, field: block.get(field, "") + text}
        case "tool_use":
            value = parse_object(text or "{}")
            return None if value is None else {**block, "input": value}
        case _:
            return block
