"""What Anthropic's stream may look like, and the message that its clients make of it."""

import json
from collections.abc import Iterable
from typing import Any

from app.dialects.anthropic.client.renderer import Renderer
from app.dialects.client_format import Frame
from app.events import Event

STARTS = {"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "compaction"}
DELTAS = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use server_tool_use mcp_tool_use",
    "compaction_delta": "compaction",
}
REASONS = {
    *("end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal"),
    *("model_context_window_exceeded", "compaction"),
}


def frames_of(events: Iterable[Event], stream: str = "st_T") -> list[Frame]:
    renderer = Renderer(stream)
    return [frame for event in events for frame in renderer.feed(event)]


def payloads_of(events: Iterable[Event], stream: str = "st_T") -> list[dict[str, Any]]:
    """Return what the frames say, each named by its type."""
    frames = frames_of(events, stream)
    payloads = [json.loads(frame.data) for frame in frames]
    assert [frame.event for frame in frames] == [payload["type"] for payload in payloads]
    assert not any(b"\n" in frame.data for frame in frames)
    return payloads


def accumulate(payloads: list[dict[str, Any]]) -> dict[str, Any]:
    """Check a stream event by event; give its message, and under "error" its failure.

    What is null since nobody knows it is left out, and who calls, which is always the model.
    """
    assert payloads[0]["type"] == "message_start"
    message: dict[str, Any] = payloads[0]["message"]
    assert message["id"].startswith("msg_")
    assert message["content"] == []
    assert {*known(message["usage"])} == {"input_tokens", "output_tokens"}
    content = message["content"]
    inputs: dict[int, str] = {}
    opened: dict[str, Any] | None = None
    for number, payload in enumerate(payloads[1:], 1):
        match payload["type"]:
            case "content_block_start":
                assert opened is None
                assert payload["index"] == len(content)
                opened = payload["content_block"]
                assert not opened.get("input")
                assert opened["type"] in STARTS or opened["type"].endswith("_tool_result")
                content.append(opened)
            case "content_block_delta":
                assert opened is not None
                assert payload["index"] == len(content) - 1
                delta = payload["delta"]
                assert opened["type"] in DELTAS[delta["type"]].split()
                _extend(opened, delta, inputs, len(content) - 1)
            case "content_block_stop":
                assert opened is not None
                assert payload["index"] == len(content) - 1
                opened = None
            case "message_delta":
                reason = payload["delta"]["stop_reason"]
                # A call that the limit has cut is not stopped: clients would run it.
                is_cut = opened is not None and opened["type"] == "tool_use"
                assert opened is None or (is_cut and reason == "max_tokens")
                assert payload["delta"]["stop_reason"] in REASONS
                assert payload["usage"]["output_tokens"] >= 0
                message |= {**payload["delta"], "usage": known(payload["usage"])}
                assert payloads[number + 1 :] == [{"type": "message_stop"}]
            case "error":
                assert number == len(payloads) - 1
                assert payload["error"]["message"]
                message["error"] = payload["error"]
            case kind:
                assert kind == "message_stop"
    assert payloads[-1]["type"] in ("message_stop", "error")
    for index, text in inputs.items():
        content[index]["input"] = text
    return without_unknown(message)


def without_unknown(message: dict[str, Any]) -> dict[str, Any]:
    """Leave out of a message what `accumulate` does."""
    unknown = ("container", "context_management", "diagnostics", "stop_details")
    found = {k: v for k, v in message.items() if k not in unknown or v is not None}
    found["usage"] = known(message["usage"])
    found["content"] = [dict(block) for block in message["content"]]
    for block in found["content"]:
        assert block.pop("caller", {"type": "direct"}) == {"type": "direct"}
        if block.get("citations") is None:
            block.pop("citations", None)
    return found


def known(value: dict[str, Any]) -> dict[str, Any]:
    return {name: member for name, member in value.items() if member is not None}


def _extend(
    block: dict[str, Any], delta: dict[str, Any], inputs: dict[int, str], number: int
) -> None:
    match delta["type"]:
        case "input_json_delta":
            inputs[number] = inputs.get(number, "") + delta["partial_json"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "citations_delta":
            block["citations"] = [*block.get("citations", ()), delta["citation"]]
        case "compaction_delta":
            block |= {name: value for name, value in delta.items() if name != "type"}
        case kind:
            field = kind.removesuffix("_delta")
            block[field] += delta[field]
