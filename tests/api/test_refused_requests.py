"""Requests that a provider would refuse for good, and what the relay sends instead."""

import re
from json import dumps, loads
from typing import Any

import pytest

from app.dialects.openai_chat.upstream.rules import NAMES as OPENAI_NAMES
from app.dialects.writing.request_rules import find_short_names
from app.requests import parse_chat_request
from app.testing.upstream import Call, Step, head, reply, serve_upstream
from app.testing.upstream import send as send_bytes
from tests.dialects.openai_chat.written import DONE, chunk, sse, tool
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


LONG = "mcp__a-server-with-a-very-long-name__and.a.tool-with-a-long-name-too_2"
NAMES = ["look", "files.read", LONG, "9 lives/é"]
FORMATS = {
    "openai_chat": r"[a-zA-Z0-9_-]{1,64}",
    "openai_responses": r"[a-zA-Z0-9_-]{1,64}",
    "bedrock_converse": r"[a-zA-Z0-9_-]{1,64}",
    "anthropic": r"[a-zA-Z0-9_-]{1,128}",
    "gemini": r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}",
}


def names_in(value: Any) -> list[str]:
    """Return the names of functions in a body, in any format."""
    if isinstance(value, list):
        return [name for item in value for name in names_in(item)]
    if not isinstance(value, dict):
        return []
    own = [value["name"]] if isinstance(value.get("name"), str) else []
    return own + [name for item in value.values() for name in names_in(item)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dialect", FORMATS)
async def test_names_of_tools_are_those_that_a_provider_allows(dialect: str, name: str):
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": "{}"}}
    body = {
        "messages": [Q, {"role": "assistant", "tool_calls": [call]}, RESULT],
        "tools": [{"type": "function", "function": {"name": name, "parameters": SCHEMA}}],
        "tool_choice": {"type": "function", "function": {"name": name}},
    }
    sent = await send("/v1/chat", body, dialect)
    found = set(names_in(sent))
    (only,) = found - {"q"}

    assert re.fullmatch(FORMATS[dialect], only)
    assert (only == name) == bool(re.fullmatch(FORMATS[dialect], name))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "path", ["/v1/chat", "/v1/chat/completions", "/v1/messages", "/v1/responses"]
)
async def test_an_answer_has_the_clients_names_of_tools(path: str, name: str):
    def answer(call: Call) -> list[Step]:
        (called,) = {one for one in names_in(call.json["tools"]) if one != "q"}
        chunks = [chunk(tool(0, "i", called, "{}")), chunk({}, "tool_calls")]
        return [head(), send_bytes(sse(*chunks) + DONE)]

    tools = {
        "/v1/messages": [{"name": name, "input_schema": SCHEMA}],
        "/v1/responses": [{"type": "function", "name": name, "parameters": SCHEMA}],
    }
    own = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}}]
    body = {"input": "Hi"} if path == "/v1/responses" else {"messages": [Q], "max_tokens": 99}
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.choose = answer
        json = {"model": M, **body, "stream": True, "tools": tools.get(path, own)}
        reply = await relay.client.post(path, json=json)
    events = [loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
    shown = [event for event in events if event.get("type") != "notice"]

    assert name in names_in(shown)
    if name != "look" and path == "/v1/chat":
        (notice,) = [event["message"] for event in events if event["type"] == "notice"]
        assert repr(name)[:80] in notice


def test_short_names_differ_and_stay():
    chat = parse_chat_request(
        dumps(
            {
                "messages": [Q],
                "tools": [
                    {"type": "function", "function": {"name": name}}
                    for name in (LONG, f"{LONG}x", "a.b", "a/b", "a_b")
                ],
            }
        ).encode()
    )
    names = find_short_names(chat, OPENAI_NAMES)

    assert len({*names.values()}) == 4
    assert names == find_short_names(chat, OPENAI_NAMES)
    assert names["a.b"].startswith("a_b_")
