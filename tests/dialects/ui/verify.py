"""A judge of UI message streams: what version 6 of the SDK takes, and what it makes of it.

Written from the SDK's documents and types, and without looking at the renderer.
"""

import json
from collections.abc import Sequence
from typing import Any

from app.dialects.client_format import Frame

REQUIRED: dict[str, dict[str, type | tuple[type, ...]]] = {
    "start": {},
    "start-step": {},
    "finish-step": {},
    "text-start": {"id": str},
    "text-delta": {"id": str, "delta": str},
    "text-end": {"id": str},
    "reasoning-start": {"id": str},
    "reasoning-delta": {"id": str, "delta": str},
    "reasoning-end": {"id": str},
    "tool-input-start": {"toolCallId": str, "toolName": str},
    "tool-input-delta": {"toolCallId": str, "inputTextDelta": str},
    "tool-input-available": {"toolCallId": str, "toolName": str, "input": object},
    "tool-input-error": {"toolCallId": str, "toolName": str, "input": object, "errorText": str},
    "tool-output-available": {"toolCallId": str, "output": object},
    "tool-output-error": {"toolCallId": str, "errorText": str},
    "tool-output-denied": {"toolCallId": str},
    "tool-approval-request": {"approvalId": str, "toolCallId": str},
    "source-url": {"sourceId": str, "url": str},
    "source-document": {"sourceId": str, "mediaType": str, "title": str},
    "file": {"url": str, "mediaType": str},
    "message-metadata": {"messageMetadata": dict},
    "data-seseragi": {"data": dict, "transient": bool},
    "error": {"errorText": str},
    "abort": {},
    "finish": {},
}
OPTIONAL: dict[str, type] = {
    "messageId": str,
    "providerMetadata": dict,
    "dynamic": bool,
    "providerExecuted": bool,
    "title": str,
    "reason": str,
    "citations": list,
    "finishReason": str,
    "messageMetadata": dict,
}
REASONS = ("stop", "length", "content-filter", "tool-calls", "error", "other")
LAST = ("finish", "abort", "error")


def chunks_of(frames: Sequence[Frame]) -> list[dict[str, Any]]:
    """Read frames; the last is the end marker."""
    assert b"[DONE]" == frames[-1].data
    assert all(frame.event is None and b"\n" not in frame.data for frame in frames)
    return [json.loads(frame.data, parse_constant=refuse) for frame in frames[:-1]]


def refuse(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def read_message(chunks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Check the order and the form of the chunks; give the message that a client makes."""
    parts: list[dict[str, Any]] = []
    message: dict[str, Any] = {"role": "assistant", "parts": parts, "metadata": {}}
    texts: dict[str, dict[str, Any]] = {}
    tools: dict[str, dict[str, Any]] = {}
    used: set[str] = set()
    step = False
    assert "start" == chunks[0]["type"]
    assert chunks[-1]["type"] in LAST
    for number, chunk in enumerate(chunks):
        kind = chunk["type"]
        required = REQUIRED[kind]
        for name, value in chunk.items():
            if name != "type":
                assert isinstance(value, required.get(name) or OPTIONAL[name]), (kind, name)
        assert required.keys() <= chunk.keys(), chunk
        for one in chunk.get("providerMetadata", {}).values():
            assert isinstance(one, dict)
        assert (kind in LAST) == (number == len(chunks) - 1)
        if kind not in ("start", "data-seseragi", "start-step", "message-metadata", *LAST):
            assert step, f"{kind} outside a step"
        match kind:
            case "start":
                assert number == 0
                message["id"] = chunk["messageId"]
            case "start-step":
                assert not step
                step = True
                parts.append({"type": "step-start"})
            case "finish-step":
                assert step
                step = False
            case "text-start" | "reasoning-start":
                assert chunk["id"] not in used
                used.add(chunk["id"])
                part = {"type": kind.removesuffix("-start"), "text": "", "state": "streaming"}
                texts[chunk["id"]] = part
                parts.append(part)
            case "text-delta" | "reasoning-delta":
                assert kind.startswith(texts[chunk["id"]]["type"])
                texts[chunk["id"]]["text"] += chunk["delta"]
            case "text-end" | "reasoning-end":
                part = texts.pop(chunk["id"])
                assert kind.startswith(part["type"])
                part["state"] = "done"
                if "providerMetadata" in chunk:
                    part["providerMetadata"] = chunk["providerMetadata"]
            case "tool-input-start":
                assert chunk["dynamic"]
                assert chunk["toolCallId"] not in tools
                tools[chunk["toolCallId"]] = tool_part(chunk, "input-streaming")
                parts.append(tools[chunk["toolCallId"]])
            case "tool-input-delta":
                assert "input-streaming" == tools[chunk["toolCallId"]]["state"]
            case "tool-input-available" | "tool-input-error":
                if chunk["toolCallId"] not in tools:
                    assert chunk["providerExecuted"]
                    tools[chunk["toolCallId"]] = tool_part(chunk, "input-streaming")
                    parts.append(tools[chunk["toolCallId"]])
                known = tools[chunk["toolCallId"]]
                assert chunk["toolName"] == known["toolName"]
                known |= {"state": "input-available", "input": chunk["input"]}
                if kind == "tool-input-error":
                    known |= {"state": "output-error", "errorText": chunk["errorText"]}
                if "providerMetadata" in chunk:
                    known["callProviderMetadata"] = chunk["providerMetadata"]
            case "tool-output-available":
                known = tools[chunk["toolCallId"]]
                assert known["state"] in ("input-available", "output-available")
                known |= {"state": "output-available", "output": chunk["output"]}
            case "tool-output-error":
                known = tools[chunk["toolCallId"]]
                assert known["state"] in ("input-available", "output-available")
                known |= {"state": "output-error", "errorText": chunk["errorText"]}
            case "source-url" | "source-document" | "file":
                parts.append(chunk)
            case "message-metadata":
                message["metadata"] |= chunk["messageMetadata"]
            case "finish":
                assert chunk["finishReason"] in REASONS
                assert not step
                assert not texts
                message["metadata"] |= chunk.get("messageMetadata", {})
            case "abort":
                assert not step
                assert not texts
            case "data-seseragi":
                assert chunk["transient"]
    return message


def tool_part(chunk: dict[str, Any], state: str) -> dict[str, Any]:
    part = {
        "type": "dynamic-tool",
        "toolCallId": chunk["toolCallId"],
        "toolName": chunk["toolName"],
        "state": state,
    }
    if "providerExecuted" in chunk:
        part["providerExecuted"] = chunk["providerExecuted"]
    return part
