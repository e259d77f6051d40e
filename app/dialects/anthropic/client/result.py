"""Result of a whole answer as one Anthropic message, folded from its stream."""

from collections.abc import Iterable
from typing import Final

from ....events import Event, StreamEnd
from ...reading.json_values import compact_object, string
from .renderer import Payload, Payloads

_STAYS: Final = ("id", "type", "role", "model", "content", "usage", "delta")
"""What the end of a message does not replace."""
_MEMBERS: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
}
"""The member that a delta adds; one of another type adds all."""


def render_result(stream: str, events: Iterable[Event]) -> Payload:
    """Fold the events of a stream into a message.

    Raises:
        RelayError: it did not complete, or called a tool with invalid arguments.
    """
    payloads = Payloads(stream)
    message: Payload = {}
    pieces: list[dict[str, list[str]]] = []
    """The texts that deltas add to each block, by their member."""
    for event in events:
        if isinstance(event, StreamEnd) and (failed := payloads.failed(event)) is not None:
            raise failed
        for payload in payloads.feed(event):
            _add(message, payload, pieces)
    found = [_whole(*pair) for pair in zip(message["content"], pieces, strict=True)]
    return {**message, "content": [block for block in found if block is not None]}


def _add(message: Payload, payload: Payload, pieces: list[dict[str, list[str]]]) -> None:
    match payload["type"]:
        case "message_start":
            message.update(payload["message"])
            message["usage"] = dict(message["usage"])
        case "content_block_start":
            message["content"].append(dict(payload["content_block"]))
            pieces.append({})
        case "content_block_delta":
            number = payload["index"]
            _extend(message["content"][number], payload["delta"], pieces[number])
        case "message_delta":
            _merge(message["usage"], payload["usage"])
            for fields in (payload["delta"], payload):
                _merge(message, {k: v for k, v in fields.items() if k not in _STAYS})


def _merge(fields: Payload, latest: Payload) -> None:
    """Replace members by those that are known."""
    fields.update((k, v) for k, v in latest.items() if v is not None or k not in fields)


def _extend(block: Payload, delta: Payload, pieces: dict[str, list[str]]) -> None:
    """Add a delta to its block: texts are pieces, and other values replace the earlier."""
    match delta["type"]:
        case "citations_delta":
            if not isinstance(block.get("citations"), list):
                block["citations"] = []
            block["citations"].append(delta.get("citation"))
        case "signature_delta":
            block["signature"] = delta.get("signature")
        case kind:
            for name in (_MEMBERS[kind],) if kind in _MEMBERS else delta.keys() - {"type"}:
                if isinstance(value := delta.get(name), str):
                    pieces.setdefault(name, []).append(value)
                elif value is not None or name not in block:
                    block[name] = value


def _whole(block: Payload, pieces: dict[str, list[str]]) -> Payload | None:
    """Return a complete block; None for a truncated call."""
    texts = {name: "".join(found) for name, found in pieces.items()}
    written = texts.pop("partial_json", "")
    whole = block | {name: string(block.get(name)) + text for name, text in texts.items()}
    if (value := compact_object(written)) is not None:
        return {**whole, "input": value}
    return None if written and block["type"] == "tool_use" else whole
