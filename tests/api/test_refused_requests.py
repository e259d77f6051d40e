"""Requests that a provider would refuse for good, and what the relay sends instead."""

from typing import Any

import pytest

from app.testing.upstream import reply, serve_upstream
from tests.serving import serve_relay

M = "openai/m"
Q = {"role": "user", "content": "Hi"}
ARGUMENTS = {"name": "look", "arguments": "{}"}
CALLS = [{"id": "c1", "type": "function", "function": ARGUMENTS}]
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "found"}
HISTORY = [Q, {"role": "assistant", "content": None, "tool_calls": CALLS}, RESULT, Q]
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
NO_TOOLS = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "Hi"},
    {"type": "function_call", "call_id": "c1", **ARGUMENTS},
    {"type": "function_call_output", "call_id": "c1", "output": "found"},
]
BLOCKS: list[dict[str, Any]] = [
    Q,
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "found"}],
    },
]
CLAUDES = {"name": "look", "input_schema": SCHEMA}
OPENAIS = {"type": "function", "name": "look", "parameters": SCHEMA}
PARTS = [
    {
        "type": "tool-look",
        "toolCallId": "c1",
        "state": "output-available",
        "input": {},
        "output": "found",
    }
]
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "native": ("/v1/chat", {"messages": HISTORY}),
    "native, none": ("/v1/chat", {"messages": HISTORY, "tools": [TOOL], "tool_choice": "none"}),
    "chat": ("/v1/chat/completions", {"messages": HISTORY}),
    "chat, no tools": ("/v1/chat/completions", {"messages": HISTORY, "tools": []}),
    "chat, none": (
        "/v1/chat/completions",
        {"messages": HISTORY, "tools": [TOOL], "tool_choice": "none"},
    ),
    "chat, none allowed": (
        "/v1/chat/completions",
        {"messages": HISTORY, "tools": [TOOL], "tool_choice": NO_TOOLS},
    ),
    "responses": ("/v1/responses", {"input": ITEMS}),
    "responses, none": (
        "/v1/responses",
        {"input": ITEMS, "tools": [OPENAIS], "tool_choice": "none"},
    ),
    "responses, none allowed": (
        "/v1/responses",
        {
            "input": ITEMS,
            "tools": [OPENAIS],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []},
        },
    ),
    "messages": ("/v1/messages", {"messages": BLOCKS, "max_tokens": 99}),
    "messages, none": (
        "/v1/messages",
        {"messages": BLOCKS, "max_tokens": 99, "tools": [CLAUDES], "tool_choice": {"type": "none"}},
    ),
    "ui": (
        "/v1/ui/chat",
        {
            "id": "chat",
            "messages": [
                {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]},
                {"id": "a1", "role": "assistant", "parts": PARTS},
                {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "Hi"}]},
            ],
        },
    ),
    "ag_ui": (
        "/v1/ag-ui",
        {
            **{"threadId": "t", "runId": "r", "state": {}, "context": [], "tools": []},
            "messages": [
                {"id": "u1", **Q},
                {"id": "a1", "role": "assistant", "toolCalls": CALLS},
                {"id": "a2", "role": "tool", "toolCallId": "c1", "content": "found"},
                {"id": "u2", **Q},
            ],
            "forwardedProps": {"model": M},
        },
    ),
}


async def send(path: str, body: dict[str, Any], dialect: str, **settings: Any) -> Any:
    """Return the body that a provider receives; it refuses all."""
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, dialect=dialect, **settings) as relay,
    ):
        upstream.script = reply("418 I'm a teapot", '{"message": "no"}')
        answered = await relay.client.post(
            path, json=body if "runId" in body else {"model": M, **body}
        )
    assert len(upstream.calls) == 1, answered.text
    return upstream.calls[0].json


@pytest.mark.parametrize(("path", "body"), REQUESTS.values(), ids=REQUESTS)
async def test_converse_gets_the_tools_of_earlier_calls(path: str, body: dict[str, Any]):
    sent = await send(path, body, "bedrock_converse")

    assert any("toolUse" in block for turn in sent["messages"] for block in turn["content"])
    assert [tool["toolSpec"]["name"] for tool in sent["toolConfig"]["tools"]] == ["look"]
    assert sent["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"]["type"] == "object"
