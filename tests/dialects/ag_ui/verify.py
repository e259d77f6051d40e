"""A judge of AG-UI runs: the rules of order and form, and the messages that come of a run.

Written from the protocol's rules, and without looking at the renderer.
"""

import json
from collections.abc import Sequence
from typing import Any

from app.dialects.client_format import Frame

FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "RUN_STARTED": ({"threadId", "runId"}, {"protocolVersion", "parentRunId"}),
    "RUN_FINISHED": ({"threadId", "runId"}, {"outcome", "usage"}),
    "RUN_ERROR": ({"message"}, {"code", "usage"}),
    "TEXT_MESSAGE_START": ({"messageId"}, {"role"}),
    "TEXT_MESSAGE_CONTENT": ({"messageId", "delta"}, set()),
    "TEXT_MESSAGE_END": ({"messageId"}, set()),
    "TOOL_CALL_START": ({"toolCallId", "toolCallName"}, {"parentMessageId"}),
    "TOOL_CALL_ARGS": ({"toolCallId", "delta"}, set()),
    "TOOL_CALL_END": ({"toolCallId"}, set()),
    "TOOL_CALL_RESULT": ({"messageId", "toolCallId", "role", "content"}, set()),
    "REASONING_START": ({"messageId"}, set()),
    "REASONING_MESSAGE_START": ({"messageId", "role"}, set()),
    "REASONING_MESSAGE_CONTENT": ({"messageId", "delta"}, set()),
    "REASONING_MESSAGE_END": ({"messageId"}, set()),
    "REASONING_END": ({"messageId"}, set()),
    "REASONING_ENCRYPTED_VALUE": ({"subtype", "entityId", "encryptedValue"}, set()),
    "CUSTOM": ({"name", "value"}, set()),
}
USAGE = {"inputTokens", "outputTokens", "totalTokens", "reasoningTokens", "cachedInputTokens", "cacheWriteInputTokens"}  # fmt: skip


def sent_of(frames: Sequence[Frame]) -> list[dict[str, Any]]:
    assert all(frame.event is None and b"\n" not in frame.data for frame in frames)
    return [json.loads(frame.data) for frame in frames]


def is_1_0(sent: Sequence[dict[str, Any]]) -> bool:
    """Whether the client of a run has sent its version, which others refuse the names of."""
    starts = (event["value"] for event in sent if event.get("name") == "seseragi.stream.start")
    return any("protocol_version" in start.get("labels", {}) for start in starts)


def read_messages(sent: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Check a run; give the messages that a client makes of it."""
    messages: dict[str, dict[str, Any]] = {}
    calls: dict[str, dict[str, Any]] = {}
    open_: set[tuple[str, str]] = set()
    answered: set[str] = set()

    def start(kind: str, key: str) -> None:
        assert (kind, key) not in open_
        open_.add((kind, key))

    assert "RUN_STARTED" == sent[0]["type"]
    assert sent[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
    for number, event in enumerate(sent):
        kind = event["type"]
        required, optional = FIELDS[kind]
        assert required <= event.keys() <= required | optional | {"type", "metadata"}, event
        assert None not in event.values(), event
        assert (kind in ("RUN_FINISHED", "RUN_ERROR")) == (number == len(sent) - 1)
        assert (kind == "RUN_STARTED") == (number == 0)
        message, call = event.get("messageId", ""), event.get("toolCallId", "")
        match kind:
            case "TEXT_MESSAGE_START":
                start("text", message)
                known = messages.setdefault(message, {"id": message, "role": "assistant"})
                assert "assistant" == known["role"] == event["role"]
                known.setdefault("content", "")
            case "TEXT_MESSAGE_CONTENT":
                assert ("text", message) in open_
                messages[message]["content"] += event["delta"]
            case "TEXT_MESSAGE_END":
                open_.remove(("text", message))
            case "REASONING_START":
                start("span", message)
            case "REASONING_MESSAGE_START":
                start("reasoning", message)
                assert ("span", message) in open_
                assert "reasoning" == event["role"]
                assert message not in messages
                messages[message] = {"id": message, "role": "reasoning", "content": ""}
            case "REASONING_MESSAGE_CONTENT":
                assert ("reasoning", message) in open_
                messages[message]["content"] += event["delta"]
            case "REASONING_MESSAGE_END":
                open_.remove(("reasoning", message))
            case "REASONING_END":
                assert ("reasoning", message) not in open_
                open_.remove(("span", message))
            case "TOOL_CALL_START":
                start("call", call)
                assert call not in calls
                function = {"name": event["toolCallName"], "arguments": ""}
                calls[call] = {"id": call, "type": "function", "function": function}
                parent = event["parentMessageId"]
                owner = messages.setdefault(parent, {"id": parent, "role": "assistant"})
                owner.setdefault("toolCalls", []).append(calls[call])
            case "TOOL_CALL_ARGS":
                assert ("call", call) in open_
                calls[call]["function"]["arguments"] += event["delta"]
            case "TOOL_CALL_END":
                open_.remove(("call", call))
            case "TOOL_CALL_RESULT":
                assert ("call", call) not in open_
                assert "tool" == event["role"]
                assert message not in messages
                content = event["content"]
                messages[message] = {"id": message, "role": "tool", "content": content}
                messages[message]["toolCallId"] = call
                answered.add(call)
            case "REASONING_ENCRYPTED_VALUE":
                assert event["subtype"] in ("tool-call", "message")
                held = calls if event["subtype"] == "tool-call" else messages
                held[event["entityId"]]["encryptedValue"] = event["encryptedValue"]
            case "RUN_FINISHED":
                assert not open_
                assert event["outcome"]["type"] in ("success", "cancelled")
                outcome, open_calls = event["outcome"], [c for c in calls if c not in answered]
                if outcome["type"] == "success":
                    named = is_1_0(sent) and open_calls
                    assert (named or None) == outcome.get("pendingToolCallIds")
        for usage in event.get("usage", ()):
            assert usage.keys() <= USAGE | {"provider", "model"}
            assert None not in usage.values()
    return list(messages.values())
