"""What clients have the relay keep is bounded, and a full log still serves what it has."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from app.dialects.openai_responses.client.request import MAX_ECHO
from app.eventlog import read_all
from app.events import StreamStart
from app.testing.upstream import DONE, FINISH, Hold, Step, head, send, serve_upstream, text
from tests.redis_server import redis_server
from tests.serving import HELLO, serve_relay, serve_script
from tests.waiting import until

RUN: dict[str, Any] = {
    "threadId": "t",
    "runId": "r",
    "messages": [{"id": "m", "role": "user", "content": "hi"}],
    "forwardedProps": {"model": "demo", "max_tokens": 2},
}
CHAT: dict[str, Any] = {
    "id": "c",
    "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "hi"}]}],
}


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("/v1/ag-ui", {**RUN, "threadId": "x" * 256}, "threadId"),
        ("/v1/ag-ui", {**RUN, "runId": "x" * 256}, "runId"),
        ("/v1/ag-ui", {**RUN, "parentRunId": "x" * 256}, "parentRunId"),
        ("/v1/ui/chat", {**CHAT, "id": "x" * 256}, "id"),
        ("/v1/ui/chat", {**CHAT, "messageId": "x" * 256}, "messageId"),
        ("/v1/ui/chat", {**CHAT, "messages": [{**CHAT["messages"][0], "id": "x" * 256}]}, "messages[0].id")
    ]
)  # fmt: skip
async def test_ids_have_255_characters_at_most(path, body, place):
    async with serve_relay() as relay:
        refused = await relay.client.post(path, json=body)

        assert 400 == refused.status_code
        assert f"{place}: expected `str` of length <= 255" in refused.text


async def test_an_id_of_255_characters_is_told_again():
    async with serve_relay() as relay:
        reply = await relay.client.post("/v1/ag-ui", json={**RUN, "threadId": "x" * 255})

        assert 200 == reply.status_code
        assert "x" * 255 in reply.text


async def kept_bytes(relay: Any, reply: Any) -> int:
    events = await read_all(relay.log, reply.headers["stream-id"])
    start = events[0]
    assert isinstance(start, StreamStart)
    return len(json.dumps(start.labels or {}))


async def test_a_response_says_again_what_is_not_too_much():
    metadata = {f"{i:064}": "v" * 512 for i in range(16)}  # the most that OpenAI takes
    async with serve_relay() as relay:
        body = {"model": "demo", "input": "hi", "max_output_tokens": 16}
        reply = await relay.client.post("/v1/responses", json={**body, "metadata": metadata})

        assert metadata == reply.json()["metadata"]


@pytest.mark.parametrize(
    "large",
    [
        {"metadata": {"a": "x" * 2_000_000}},
        {"metadata": {str(i): "x" for i in range(50_000)}},
        {"user": "x" * 2_000_000},
        {"reasoning": {"effort": "x" * 2_000_000}},
        {"tools": [{"type": "function", "name": "f", "description": "x" * 2_000_000}]},
        {"instructions": "x" * 2_000_000},
    ],
)
async def test_a_response_leaves_out_what_would_be_too_much(large):
    async with serve_relay() as relay:
        body = {"model": "demo", "input": "hi", "max_output_tokens": 16, "temperature": 0.5}
        reply = await relay.client.post("/v1/responses", json={**body, **large})
        said = reply.json()

        assert 200 == reply.status_code
        assert said["status"] in ("completed", "incomplete")
        assert (16, 0.5, {}, []) == (
            said["max_output_tokens"], said["temperature"], said["metadata"], said["tools"]
        )  # fmt: skip
        assert MAX_ECHO + 1000 > await kept_bytes(relay, reply)


@pytest.mark.parametrize(
    "body",
    [
        {"model": "demo-tools", "tools": [{"name": "x" * 500_000}]},
        {"model": "demo-tools", "tools": [{"name": "f", "parameters": {"properties": {"a": {"default": "x" * 500_000}}}}]},
        {"model": "demo", "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"const": {"a": "x" * 500_000}}}}},
        {"model": "demo", "tool_choice": {"type": "function", "function": {"name": "x" * 500_000}}},
        {"model": "x" * 2000}
    ]
)  # fmt: skip
async def test_what_a_demo_says_is_not_as_long_as_what_it_was_told(body):
    if "tools" in body:
        body = {**body, "tools": [{"type": "function", "function": t} for t in body["tools"]]}
    async with serve_relay() as relay:
        reply = await relay.client.post("/v1/chat", json={**HELLO, "stream": False, **body})
        stream = reply.headers.get("stream-id")
        kept = await relay.client.get(f"/v1/streams/{stream}") if stream else reply

        assert len(reply.text) < 100_000
        assert len(kept.text) < 100_000


async def test_a_field_that_is_quoted_in_an_error_is_cut():
    async with serve_script([head(), send(text("a") + FINISH + DONE)]) as (relay, _):
        body = {**HELLO, "model": "openai/m", "max_tokens": 5, "x" * 500_000: 1}
        reply = await relay.client.post("/v1/messages", json=body)
        unknown = await relay.client.post("/v1/chat", json={**HELLO, "x" * 500_000: 1})
        told = await relay.client.get(f"/v1/streams/{reply.headers['stream-id']}/events")

        assert (200, 400) == (reply.status_code, unknown.status_code)
        assert "field_ignored" in told.text
        assert len(told.text) < 5000
        assert len(unknown.text) < 5000


async def test_a_few_posts_with_all_that_is_kept_evict_nobody():
    kept = {"v1": {str(i): "v" * 512 for i in range(500)}, "v2": {"a": "x" * 500_000}}
    async with serve_relay(max_log_bytes=2**20) as relay:
        own = await relay.client.post("/v1/chat", json={**HELLO, "model": "demo", "max_tokens": 2})
        for number in range(16):  # which say eight times what the log holds
            body = {"model": "demo", "input": "hi", "max_output_tokens": 1}
            body["metadata"] = kept["v1" if number % 2 else "v2"]
            posted = await relay.client.post("/v1/responses", json=body)
            assert 200 == posted.status_code
        again = await relay.client.get(f"/v1/streams/{own.headers['stream-id']}")

    assert 200 == again.status_code


TEXT = b"x" * 1000
LONG: list[Step] = [head(), *[send(text(TEXT.decode()))] * 40, Hold()]


async def read(pieces: AsyncIterator[bytes], until: bytes, *, times: int = 1) -> bytes:
    shown = b""
    while shown.count(until) < times:
        shown += await anext(pieces)
    return shown


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_full_log_refuses_streams_and_serves_those_that_it_has(kind, tmp_path: Path):
    log = "memory" if kind == "memory" else f"sqlite:///{tmp_path}/a.db"
    async with (
        serve_script(LONG, log=log, max_log_bytes=30_000) as (relay, _),
        relay.client.stream("POST", "/v1/chat", json=HELLO) as reply,
        aclosing(reply.aiter_bytes()) as pieces,
    ):
        await read(pieces, TEXT, times=40)
        refused = await relay.client.post("/v1/chat", json=HELLO)
        async with (
            relay.client.stream("GET", reply.headers["content-location"]) as again,
            aclosing(again.aiter_bytes()) as whole,
        ):
            assert b"stream.start" in await anext(whole)
        ready = await relay.client.get("/readyz")

    assert (503, "overloaded") == (refused.status_code, refused.json()["code"])
    assert 0 < int(refused.headers["retry-after"]) <= 5
    assert 200 == ready.status_code


@pytest.mark.proving
async def test_a_full_redis_refuses_streams_and_serves_those_that_it_has(tmp_path: Path):
    with redis_server(tmp_path) as server:
        async with (
            serve_upstream() as upstream,
            serve_relay(upstream, log=server.url) as relay,
            serve_relay(upstream, log=server.url) as other,
        ):
            upstream.script = LONG
            async with (
                relay.client.stream("POST", "/v1/chat", json=HELLO) as reply,
                aclosing(reply.aiter_bytes()) as pieces,
            ):
                url = reply.headers["content-location"]
                await read(pieces, TEXT, times=40)
                server.ask("CONFIG", "SET", "maxmemory", "1")
                await relay.client.post("/v1/chat", json=HELLO)
                refused = await relay.client.post("/v1/chat", json=HELLO)
                for one in (relay, other):
                    async with (
                        one.client.stream("GET", url) as again,
                        aclosing(again.aiter_bytes()) as whole,
                    ):
                        assert b"stream.start" in await anext(whole)
                stopped = await relay.client.post(url.replace("events", "cancel"))
                assert 202 == stopped.status_code
                await read(pieces, b"stream.end")
                for one in (relay, other):
                    assert 200 == (await one.client.get("/readyz")).status_code
            server.ask("CONFIG", "SET", "maxmemory", "0")
            upstream.script = [head(), send(text("a") + FINISH + DONE)]

            async def takes_streams() -> bool:
                return (await relay.client.post("/v1/chat", json=HELLO)).status_code == 200

            await until(takes_streams)

    assert (503, "overloaded") == (refused.status_code, refused.json()["code"])
    assert 0 < int(refused.headers["retry-after"]) <= 5
