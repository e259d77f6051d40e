"""Upstreams of other dialects through the running relay: what is asked, left out, refused."""

import json
from typing import Any

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.testing.upstream import Hold, Step, head, reply, send, serve_upstream
from tests.serving import HELLO, chat, read_messages, serve_relay, serve_script, text_of


def sse(*payloads: dict[str, Any]) -> Step:
    return send("".join(f"event: {p['type']}\ndata: {json.dumps(p)}\n\n" for p in payloads))


ANTHROPIC = [
    head(),
    sse(
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "model": "claude-x",
                "usage": {"input_tokens": 3, "output_tokens": 1},
            },
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Hi 🌊"},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 4},
        },
        {"type": "message_stop"},
    ),
]


async def test_an_upstream_of_another_dialect_answers():
    async with serve_script(ANTHROPIC, dialect="anthropic") as (relay, upstream):
        events = await chat(relay, model="openai/claude-x")

    (call,) = upstream.calls
    assert call.path.endswith("/v1/messages")
    assert "2023-06-01" == call.headers["anthropic-version"]
    assert {"model": "claude-x", "stream": True}.items() <= call.json.items()
    assert "Hi 🌊" == text_of(events)
    assert ("completed", "stop") == (events[-1]["status"], events[-1]["finish_reason"])
    assert {"input_tokens": 3, "output_tokens": 4}.items() <= events[-1]["usage"].items()
    assert "msg_1" == events[1]["upstream_id"]


async def test_what_would_be_refused_is_left_out_and_told():
    async with serve_script(ANTHROPIC, dialect="anthropic") as (relay, upstream):
        events = await chat(
            relay,
            model="openai/claude-sonnet-4-5",
            reasoning_effort="high",
            temperature=0.2,
            top_p=0.5,
            tools=[{"type": "function", "function": {"name": "f"}}],
            tool_choice="required",
        )

    notices = [event for event in events if event["type"] == "notice"]
    said = " ".join(notice["message"] for notice in notices)
    assert {"field_ignored"} == {notice["code"] for notice in notices}
    assert all(field in said for field in ("temperature", "top_p", "tool_choice"))
    (call,) = upstream.calls
    assert "enabled" == call.json["thinking"]["type"]
    assert not {"temperature", "top_p"} & call.json.keys()
    assert {"type": "auto"} == call.json["tool_choice"]
    assert "completed" == events[-1]["status"]


async def test_what_cannot_be_said_is_refused_with_its_place():
    async with serve_upstream() as upstream, serve_relay(upstream, dialect="anthropic") as relay:
        sound = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
        body = {"messages": [{"role": "user", "content": [sound]}]}
        response = await relay.client.post("/v1/chat", json=body)

    assert (400, "invalid_request") == (response.status_code, response.json()["code"])
    assert "messages[0].content[0]" in response.json()["detail"]
    assert not upstream.calls


async def test_an_error_of_another_dialect_is_a_status():
    async with serve_upstream() as upstream, serve_relay(upstream, dialect="anthropic") as relay:
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        upstream.script = reply("529 Overloaded", json.dumps(error))
        response = await relay.client.post("/v1/chat", json=HELLO)
        assert (503, "upstream_overloaded") == (response.status_code, response.json()["code"])
        upstream.script = [head(), sse(error), Hold()]
        response = await relay.client.post("/v1/chat", json=HELLO)
        assert (503, "upstream_overloaded") == (response.status_code, response.json()["code"])


AGENTS = {
    "AsyncOpenAI/Python 3.2.0": False,
    "ai/7.0.1 ai-sdk/openai/4.0.118": False,
    "litellm/1.106.0": False,
    "litellm/2.1.0": False,
    "": False,
    "litellm/1.105.7": True,
    "litellm/1.99.0.dev1": True,
}
"""By the user agent: whether it would take a clean end after an error for that of the answer."""


@pytest.mark.parametrize("name", CLIENT_FORMATS)
async def test_told_failure_ends_cleanly_but_for_clients_that_ignore_it(name):
    async with serve_relay(demo_pace=0) as relay:
        stream = (await chat(relay, model="demo-drop"))[0]["stream"]
        url = f"/v1/streams/{stream}/events?format={name}"
        for agent, ignores in AGENTS.items():
            cut = ignores and name in ("openai_chat", "openai_completions")
            headers = {"user-agent": agent}
            async with relay.client.stream("GET", url, headers=headers) as response:
                messages = await read_messages(response, cut=cut)

            assert "connection lost" in messages[-1].data or not CLIENT_FORMATS[name].client_retries
            assert "[DONE]" != messages[-1].data or name == "ui"
