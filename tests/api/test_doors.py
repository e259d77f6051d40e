"""A provider with two APIs: requests take the one of their client's dialect, at the same target."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.testing.upstream import Call, Step, Upstream, answer, head, reply, send, serve_upstream
from tests.api.test_dialects import sse
from tests.api.test_responses_socket import connect, read
from tests.serving import HELLO, Relay, serve_relay

TABLE = """
[upstream.openai]
base_url = "{url}"
dialect = ["openai_chat", "openai_responses"]
options = ["safe", "tools.web_search", "tools.mcp"]
models = ["m"]
[upstream.b]
base_url = "{b}"
[[route]]
name = "both"
targets = ["openai/m", "b/m"]
"""
ASK: dict[str, Any] = {"model": "openai/m", "input": "hello"}
TOOL = {"type": "function", "name": "now", "parameters": {"type": "object", "properties": {}}}
PART: dict[str, Any] = {"type": "output_text", "text": "from responses", "annotations": []}
ITEM: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "content": [PART]}
USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
BODY: dict[str, Any] = {"id": "resp_1", "model": "m", "output": [ITEM], "usage": USAGE}
DONE: dict[str, Any] = {**BODY, "status": "completed"}
BEGUN = {"type": "response.created", "response": {**BODY, "status": "in_progress", "output": []}}
RESPONSE = [
    head(),
    sse(
        BEGUN,
        {"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "content": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
        {"type": "response.completed", "response": DONE},
    ),
]
BUSY = reply("503 Busy", '{"error": {"message": "busy"}}')


def by_path(call: Call) -> list[Step]:
    return RESPONSE if call.path.endswith("/responses") else answer("from chat")


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., Any]:
    @asynccontextmanager
    async def serve(**settings: Any) -> AsyncIterator[tuple[Relay, Upstream, Upstream]]:
        async with serve_upstream() as upstream, serve_upstream() as b:
            upstream.choose, b.script = by_path, answer("from b")
            (tmp_path / "r.toml").write_text(TABLE.format(url=upstream.base_url, b=b.base_url))
            async with serve_relay(config=tmp_path / "r.toml", **settings) as relay:
                yield relay, upstream, b

    return serve


CHAT: dict[str, Any] = {**HELLO, "model": "openai/m"}
FUNCTIONS = {"tools": [{"type": "function", "function": {"name": "now", "parameters": {}}}]}
LUNA = {"model": "openai/gpt-6-luna"}
TAKEN = [
    ("responses", "/v1/responses", ASK, "/v1/responses"),
    ("responses as JSON", "/v1/responses", {**ASK, "stream": False}, "/v1/responses"),
    ("chat", "/v1/chat/completions", CHAT, "/v1/chat/completions"),
    ("native", "/v1/chat", CHAT, "/v1/chat/completions"),
    ("messages", "/v1/messages", {**CHAT, "max_tokens": 9}, "/v1/chat/completions"),
    ("model of responses alone", "/v1/chat", {**HELLO, "model": "openai/gpt-5.1-codex"}, "/v1/responses"),
    ("functions and reasoning", "/v1/chat/completions", {**CHAT, **LUNA, **FUNCTIONS}, "/v1/responses"),
    ("functions without reasoning", "/v1/chat/completions", {**CHAT, **LUNA, **FUNCTIONS, "reasoning_effort": "none"}, "/v1/chat/completions"),
    ("functions of an older model", "/v1/chat/completions", {**CHAT, **FUNCTIONS}, "/v1/chat/completions"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "door"), [row[1:] for row in TAKEN], ids=[row[0] for row in TAKEN])  # fmt: skip
async def test_a_request_takes_the_api_of_its_client(path, body, door, serve):
    async with serve() as (relay, upstream, _):
        answered = await relay.client.post(path, json=body)

        assert 200 == answered.status_code, answered.text
        assert [door] == [call.path for call in upstream.calls]
        assert ("from responses" if door.endswith("responses") else "from chat") in answered.text


async def test_hosted_tools_and_proofs_reach_the_provider_also_over_websocket(serve):
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    asked: list[Any] = [reasoning, {"role": "user", "content": "and now?"}]
    hosted = [{"type": "web_search"}, {"type": "mcp", "server_label": "s", "server_url": "https://s.example"}]  # fmt: skip
    body = {**ASK, "input": asked, "tools": hosted}
    async with serve() as (relay, upstream, _), connect(relay) as connection:
        await relay.client.post("/v1/responses", json=body)
        await connection.send(json.dumps({"type": "response.create", **body}))
        await read(connection)

    for call in upstream.calls:
        assert hosted == call.json["tools"]
        assert "gAAAA" == call.json["input"][0]["encrypted_content"]
    assert ["/v1/responses"] * 2 == [call.path for call in upstream.calls]


async def test_both_apis_are_one_target_with_one_breaker_and_one_list_entry(serve):
    async with serve(attempts=1, breaker_window_s=60) as (relay, upstream, b):
        upstream.choose, upstream.script = None, BUSY
        for _ in range(5):
            answered = await relay.client.post("/v1/responses", json={**ASK, "model": "both"})
            assert "from b" in answered.text
        calls = len(upstream.calls)
        await relay.client.post("/v1/chat/completions", json={**CHAT, "model": "both"})
        ready = await relay.client.get("/readyz?verbose", headers=relay.operator)
        models = (await relay.client.get("/v1/models")).json()["data"]

        assert calls == len(upstream.calls)  # the breaker that Responses opened
        assert {"/v1/responses"} == {call.path for call in upstream.calls}
        assert {"/v1/chat/completions"} == {call.path for call in b.calls}
        assert 1 == sum(one["target"] == "openai/m" for one in ready.json()["targets"])
        assert 1 == sum(one["id"] == "openai/m" for one in models)


async def test_tokens_are_counted_where_the_answer_would_come_from(serve):
    async with serve() as (relay, upstream, _):
        upstream.choose, upstream.script = None, reply("200 OK", '{"input_tokens": 41}')
        counted = await relay.client.post("/v1/responses/input_tokens", json=ASK)

        assert 41 == counted.json()["input_tokens"]
        assert ["/v1/responses/input_tokens"] == [call.path for call in upstream.calls]


async def test_an_answer_that_breaks_is_continued_by_another_target(tmp_path, serve):
    async with serve() as (relay, upstream, b):
        upstream.choose, upstream.script = None, [head(), sse(BEGUN), send("data: {")]
        answered = await relay.client.post("/v1/responses", json={**ASK, "model": "both"})

        assert "from b" in answered.text
        assert ["/v1/responses"] == [call.path for call in upstream.calls]
        assert ["/v1/chat/completions"] == [call.path for call in b.calls]


async def test_forwarded_calls_take_the_main_api(serve):
    async with serve() as (relay, upstream, _):
        upstream.choose, upstream.script = None, reply("200 OK", '{"id": "modr-1", "results": []}')
        body = {"model": "openai/m", "input": "x"}
        answered = await relay.client.post("/v1/moderations", json=body)

        assert 200 == answered.status_code
        assert ["/v1/moderations"] == [call.path for call in upstream.calls]
