"""A tool call's id, from every provider to every client and back to the provider."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.testing.upstream import Call, Step, head, send, serve_upstream
from tests.dialects.gemini_interactions import written as interactions
from tests.framing import frames
from tests.serving import Relay, serve_relay

IDS = [
    "call_67055809",
    "call_0",
    "functions.get_weather:0",
    "get_weather:0",
    "toolu_01T1x1fJ34qAmk2tNTrN7Up6",
    "tooluse_kZJMlvQmRJ6eAyJE5GIl7Q",
    "chatcmpl-tool-4fcb0d0c1a6f4b6e8f2a0c1d2e3f4a5b",
    "D681PevKs",
    "0f8fad5b-d9cb-469f-a165-70867728950e",
    "function-call-7418529630741852963",
    "é b",
]
CLAUDES = ("anthropic", "vertex_anthropic", "bedrock_anthropic")
TAKES = dict.fromkeys(CLAUDES, r"[a-zA-Z0-9_-]+") | {
    "bedrock_converse": r"[a-zA-Z0-9_.:-]{1,64}",
    "openai_responses": r".{1,64}",
}
KEYS = ("id", "tool_call_id", "call_id", "toolUseId", "tool_use_id")


def lines(*payloads: dict[str, Any]) -> str:
    return "".join(
        f"event: {payload.get('type', 'message')}\ndata: {json.dumps(payload)}\n\n"
        for payload in payloads
    )


def claude(id: str) -> list[dict[str, Any]]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    use = {"type": "tool_use", "id": id, "name": "f", "input": {}}
    return [
        {"type": "message_start", "message": {"id": "m", "model": "c", "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": use},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage},
        {"type": "message_stop"},
    ]


def answer(dialect: str, id: str) -> bytes | str:
    """Return the body of an answer that calls a tool, in the provider's words."""
    function = {"name": "f", "arguments": "{}"}
    start: dict[str, Any]
    call: dict[str, Any]
    one: dict[str, Any]
    done: dict[str, Any]
    match dialect:
        case "openai_chat":
            call = {"index": 0, "id": id, "type": "function", "function": function}
            choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
            return f"data: {json.dumps({'id': 'u', 'choices': [choice]})}\n\ndata: [DONE]\n\n"
        case "openai_responses":
            item = {"type": "function_call", "id": "fc_1", "call_id": id, **function}
            done = {"id": "r", "status": "completed", "output": [item]}
            return lines(
                {"type": "response.output_item.added", "output_index": 0, "item": item},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": done},
            )
        case "anthropic" | "vertex_anthropic":
            return lines(*claude(id))
        case "bedrock_anthropic":
            return b"".join(
                frames.event("chunk", {"bytes": b64encode(json.dumps(one).encode()).decode()})
                for one in claude(id)
            )
        case "bedrock_converse":
            start = {"toolUse": {"toolUseId": id, "name": "f"}}
            return (
                frames.event("messageStart", {"role": "assistant"})
                + frames.event("contentBlockStart", {"contentBlockIndex": 0, "start": start})
                + frames.event("contentBlockStop", {"contentBlockIndex": 0})
                + frames.event("messageStop", {"stopReason": "tool_use"})
            )
        case "gemini":
            part = {"functionCall": {"name": "f", "args": {}, "id": id}}
            one = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
            return f"data: {json.dumps({'candidates': [one]})}\r\n\r\n"
        case "gemini_interactions":
            return interactions.sse(
                *interactions.asked(0, "{}", id=id), interactions.end("requires_action")
            )
        case "cohere":
            call = {"id": id, "type": "function", "function": function}
            start = {"message": {"tool_calls": call}}
            return lines(
                {"type": "message-start", "id": "m", "delta": {"message": {"role": "assistant"}}},
                {"type": "tool-call-start", "index": 0, "delta": start},
                {"type": "tool-call-end", "index": 0},
                {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL"}},
            )
        case _:
            call = {"id": id, "function": {"name": "f", "arguments": {}}}
            message = {"role": "assistant", "content": "", "tool_calls": [call]}
            done = {"message": message, "done": True, "done_reason": "stop"}
            return json.dumps({"model": "m", **done}) + "\n"


def script(dialect: str, id: str) -> list[Step]:
    kind = "text/event-stream"
    if dialect.startswith("bedrock"):
        kind = "application/vnd.amazon.eventstream"
    elif dialect == "ollama":
        kind = "application/x-ndjson"
    return [head(content_type=kind), send(answer(dialect, id))]


ASK = {"role": "user", "content": "ask"}
TOOL = {"name": "f", "parameters": {"type": "object", "properties": {}}}
MODEL = "openai/gemini-3.6-flash"


async def post(relay: Relay, path: str, body: dict[str, Any]) -> Any:
    reply = await relay.client.post(path, json={"model": MODEL, **body})
    assert reply.status_code == 200, reply.text
    return reply


async def ask_chat(relay: Relay, path: str = "/v1/chat/completions") -> str:
    tools = [{"type": "function", "function": TOOL}]
    body = {"tools": tools, "stream": False, "messages": [ASK]}
    message = (await post(relay, path, body)).json()["choices"][0]["message"]
    (call,) = message["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": "r"}
    await post(relay, path, {**body, "messages": [ASK, message, result]})
    return str(call["id"])


async def ask_native(relay: Relay) -> str:
    body = {"tools": [{"function": TOOL}], "messages": [ASK]}
    events = (await post(relay, "/v1/chat", body)).text
    (shown,) = [
        event["id"]
        for event in map(json.loads, re.findall(r"data: (.*)", events))
        if event["type"] == "tool_call.start"
    ]
    call = {"id": shown, "function": {"name": "f", "arguments": "{}"}}
    made = {"role": "assistant", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": shown, "content": "r"}
    await post(relay, "/v1/chat", {**body, "messages": [ASK, made, result]})
    return str(shown)


async def ask_responses(relay: Relay) -> str:
    body = {"tools": [{"type": "function", **TOOL}], "input": [ASK]}
    output = (await post(relay, "/v1/responses", body)).json()["output"]
    (call,) = [item for item in output if item["type"] == "function_call"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "r"}
    await post(relay, "/v1/responses", {**body, "input": [ASK, *output, result]})
    return str(call["call_id"])


async def ask_anthropic(relay: Relay) -> str:
    tool = {"name": "f", "input_schema": TOOL["parameters"]}
    body = {"tools": [tool], "max_tokens": 100, "messages": [ASK]}
    content = (await post(relay, "/v1/messages", body)).json()["content"]
    (use,) = [block for block in content if block["type"] == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": "r"}
    turns = [ASK, {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    await post(relay, "/v1/messages", {**body, "messages": turns})
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", use["id"])
    return str(use["id"])


async def ask_ui(relay: Relay) -> str:
    user = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "ask"}]}
    told = (await post(relay, "/v1/ui/chat", {"id": "c", "messages": [user]})).text
    (shown, *_) = [json.loads(one) for one in re.findall(r'"toolCallId":("[^"]*")', told)]
    part = {"type": "tool-f", "toolCallId": shown, "state": "output-available", "input": {}}
    made = {"id": "a", "role": "assistant", "parts": [{**part, "output": "r"}]}
    await post(relay, "/v1/ui/chat", {"id": "d", "messages": [user, made]})
    return str(shown)


async def ask_ag_ui(relay: Relay) -> str:
    body = {"threadId": "t", "runId": "r", "state": {}, "tools": [], "context": []}
    body |= {"forwardedProps": {"model": MODEL}}
    user = {"id": "u", **ASK}
    told = (await relay.client.post("/v1/ag-ui", json={**body, "messages": [user]})).text
    (shown, *_) = [json.loads(one) for one in re.findall(r'"toolCallId":("[^"]*")', told)]
    call = {"id": shown, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    made = {"id": "a", "role": "assistant", "toolCalls": [call]}
    result = {"id": "t", "role": "tool", "toolCallId": shown, "content": "r"}
    again = {**body, "runId": "s", "messages": [user, made, result]}
    reply = await relay.client.post("/v1/ag-ui", json=again)
    assert reply.status_code == 200, reply.text
    return str(shown)


CLIENTS = {
    "native": ask_native,
    "openai_chat": ask_chat,
    "openai_responses": ask_responses,
    "anthropic": ask_anthropic,
    "ui": ask_ui,
    "ag_ui": ask_ag_ui,
}


def told(value: Any) -> Iterator[str]:
    """Yield the ids of calls and of results in a body, in their order."""
    if isinstance(value, list):
        for item in value:
            yield from told(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in KEYS and isinstance(item, str) and not item.startswith("fc_"):
                yield item
            yield from told(item)


ODD = ["call_0", "functions.get_weather:0", "é b"]
"""One that all take, one that some refuse, and one that most do."""


@pytest.mark.parametrize(
    "ids",
    [ODD, pytest.param([one for one in IDS if one not in ODD], marks=pytest.mark.proving)],
    ids=["odd", "others"],
)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("dialect", UPSTREAM_FORMATS)
async def test_an_id_comes_to_the_client_and_goes_back_as_it_was(
    dialect: str, client: str, ids: list[str]
) -> None:
    asked: list[Call] = []
    async with serve_upstream() as upstream, serve_relay(upstream, dialect=dialect) as relay:
        for given in ids:
            upstream.choose = lambda call, given=given: script(dialect, given)
            upstream.calls.clear()
            shown = await CLIENTS[client](relay)
            asked = upstream.calls
            call, result = told(asked[1].json)

            assert call == result
            if client != "anthropic" or re.fullmatch(r"[\w-]+", given, re.ASCII):
                assert shown == given
            if re.fullmatch(TAKES.get(dialect, ".*"), given):
                assert call == given
            else:
                assert re.fullmatch(TAKES[dialect], call)


@pytest.mark.parametrize("client", CLIENTS)
async def test_calls_without_ids_have_one_of_their_own_in_every_turn(client: str) -> None:
    async with serve_upstream() as upstream, serve_relay(upstream, dialect="gemini") as relay:
        upstream.choose = lambda call: script("gemini", "")
        first, second = [await CLIENTS[client](relay) for _ in range(2)]

    # Gemini, which gave none, is told none.
    assert list(told(upstream.calls[1].json)) == []
    assert (first == second) == (client == "native")


async def test_an_id_that_the_conversation_has_already_is_none_for_a_new_call() -> None:
    # As hosts give that count their calls from 0 in every answer.
    call = {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    again = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0", "content": "1"},
    ]
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.choose = lambda _: script("openai_chat", "call_0")
        reply = await relay.client.post(
            "/v1/chat/completions", json={"model": "openai/m", "messages": again}
        )
    shown = reply.json()["choices"][0]["message"]["tool_calls"][0]["id"]

    assert re.fullmatch(r"seseragi_[\w-]{22}_\d+", shown)
