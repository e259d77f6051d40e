"""`POST /v1/chat` as a client meets it: the wire, bad requests, leaving, stopping."""

import asyncio
import json
import re

import pytest

from app.framing.sse import Decoder
from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Hold,
    Step,
    Until,
    head,
    send,
    serve_upstream,
    text,
)
from tests import waiting
from tests.api.test_faults import check_form
from tests.clock import Clock
from tests.serving import (
    HELLO,
    Relay,
    chat,
    cut_off,
    events_of,
    read_messages,
    serve_relay,
    serve_script,
    text_of,
    until,
)

CLEAN = [head(), send(text("a") + text("b") + FINISH + USAGE + DONE)]


async def test_stream_has_the_headers_and_frames_of_the_protocol():
    async with serve_script(CLEAN, retry_ms=1500) as (relay, _):
        async with relay.client.stream("POST", "/v1/chat", json=HELLO) as response:
            raw = await response.aread()
        stream = response.headers["stream-id"]

        assert "text/event-stream; charset=utf-8" == response.headers["content-type"]
        assert "no-store, no-transform" == response.headers["cache-control"]
        assert "no" == response.headers["x-accel-buffering"]
        assert "nosniff" == response.headers["x-content-type-options"]
        assert f"/v1/streams/{stream}/events" == response.headers["content-location"]
        assert response.headers["x-request-id"]
        assert not {"content-length", "content-encoding"} & set(response.headers)

        assert b"\r" not in raw
        frames = raw.split(b"\n\n")
        assert b"" == frames.pop()
        for number, frame in enumerate(frames, 1):
            lines = frame.decode().split("\n")
            if number == 1:
                assert "retry: 1500" == lines.pop(0)
            name, data, identity = lines
            event = json.loads(data.removeprefix("data: "))
            assert f"id: {stream}.{number}" == identity
            assert f"event: {event['type']}" == name
            assert "type" == next(iter(event))
        events = events_of(Decoder().feed(raw))
        check_form(events)
        assert {
            "type": "stream.start",
            "stream": stream,
            "model": "openai/gpt-6-luna",
            "created": events[0]["created"],
        } == events[0]
        assert {
            "type": "stream.target",
            "upstream": "openai",
            "model": "m-1",
            "attempt": 1,
            "upstream_id": "up-1",
            "usage": {"input_tokens": 3},
        } == events[1]
        usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
        assert {"type": "usage", **usage} == events[-2]
        assert {
            "type": "stream.end",
            "status": "completed",
            "finish_reason": "stop",
            "usage": usage,
        } == events[-1]


async def test_demo_serves_without_a_key():
    async with serve_relay() as relay:
        hello = await chat(relay, max_tokens=20)
        japanese = await chat(
            relay, max_tokens=20, messages=[{"role": "user", "content": "こんにちは"}]
        )

        check_form(hello)
        assert "completed" == hello[-1]["status"]
        assert "demo" == hello[0]["model"]
        assert any("ぁ" <= character <= "ん" for character in text_of(japanese))


async def test_result_without_streaming():
    async with serve_script(CLEAN) as (relay, _):
        response = await relay.client.post("/v1/chat", json={**HELLO, "stream": False})
        result = response.json()

        assert 200 == response.status_code
        assert "ab" == result["text"]
        assert [{"type": "text", "block": 0, "text": "ab"}] == result["blocks"]
        assert "completed" == result["status"]
        assert "stop" == result["finish_reason"]
        assert 5 == result["usage"]["total_tokens"]
        assert response.headers["stream-id"] == result["stream"]


async def test_result_of_a_cut_answer_is_an_error():
    async with serve_script([head(), send(text("half"))]) as (relay, _):
        response = await relay.client.post("/v1/chat", json={**HELLO, "stream": False})

        assert 502 == response.status_code
        assert "upstream_truncated" == response.json()["code"]
        kept = await relay.client.get(f"/v1/streams/{response.headers['stream-id']}")
        assert "half" == kept.json()["text"]


async def test_gate_opens_after_its_time_and_heartbeats_keep_the_line(monkeypatch):
    clock, loop, beaten = Clock(monkeypatch), asyncio.get_running_loop(), Until()
    script: list[Step] = [head(), beaten, *CLEAN[1:]]
    async with serve_script(script, status_wait_s=4, heartbeat_s=2) as (relay, _), clock.hurrying():
        started = loop.time()
        async with relay.client.stream("POST", "/v1/chat", json=HELLO) as response:
            waited = loop.time() - started
            raw = b""
            async for data in response.aiter_bytes():
                raw += data
                if raw.count(b": hb\n") >= 2:
                    beaten.told.set()
            took = loop.time() - started

        assert 3 < waited  # and not until the event: there were heartbeats before it
        start, rest = raw.split(b"\n\n", 1)
        assert b"event: stream.start" in start
        beats, rest = rest.split(b"event: ", 1)
        assert 2 <= beats.count(b": hb\n") <= took / 2 + 1
        assert b"" == beats.replace(b": hb\n", b"")
        assert "ab" == text_of(events_of(Decoder().feed(raw)))


async def test_failure_after_the_gate_is_in_the_stream():
    async with serve_upstream() as upstream, serve_relay(upstream, status_wait_s=0.1) as relay:
        opened = Until()
        upstream.script = [opened, head("429 Too Many"), send("{}")]
        async with relay.client.stream("POST", "/v1/chat", json=HELLO) as response:
            opened.told.set()
            events = events_of(await read_messages(response))

        assert ["stream.start", "stream.end"] == [event["type"] for event in events]
        assert "upstream_rate_limited" == events[-1]["error"]["code"]
        assert True is events[-1]["error"]["retryable"]


async def raw_request(relay: Relay, body: bytes, headers: str = "") -> tuple:
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    writer.write(
        f"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}"
        f"content-length: {len(body)}\r\n\r\n".encode()
        + body
    )
    return reader, writer


MOMENTS: dict[str, list[Step]] = {
    "before the head": [Hold()],
    "in the gate": [head(), Hold()],
    "in the stream": [head(), send(text("a")), Hold()],
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("how", ["close", "reset"])
async def test_leaving_closes_the_upstream(moment, streaming, how):
    """Unless the reader can come back, which the next test is about."""
    body = {**HELLO, "stream": streaming}
    if moment == "in the stream":
        body["on_disconnect"] = "cancel"
    async with serve_script(MOMENTS[moment]) as (relay, upstream):
        _, writer = await raw_request(relay, json.dumps(body).encode())
        await asyncio.wait_for(upstream.called.wait(), 20)
        for _ in range(50):  # until the relay has what the upstream has sent
            await asyncio.sleep(0)
        (call,) = upstream.calls
        assert not call.closed.is_set()
        if how == "close":
            writer.close()
        else:
            writer.transport.abort()
        await asyncio.wait_for(call.closed.wait(), 20)


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_reader_that_can_come_back_is_waited_for(how, monkeypatch):
    clock = Clock(monkeypatch)
    async with serve_script(MOMENTS["in the stream"], linger_s=100) as (relay, upstream):
        reader, writer = await raw_request(relay, json.dumps(HELLO).encode())
        begun = await reader.readuntil(b"text.delta")
        if how == "close":
            writer.close()
        else:
            writer.transport.abort()
        await cut_off(relay, others=0)
        await clock.pass_(50)
        [stream] = re.findall(r"stream-id: (\S+)", begun.decode())
        assert "running" == (await relay.client.get(f"/v1/streams/{stream}")).json()["status"]
        (call,) = upstream.calls
        assert not call.closed.is_set()
        await clock.pass_(51)
        await asyncio.wait_for(call.closed.wait(), 20)


async def test_on_disconnect_continue_reads_on():
    left = Until()
    async with serve_script([head(), send(text("a")), left, *CLEAN[1:]]) as (relay, _):
        body = {**HELLO, "on_disconnect": "continue"}
        async with relay.client.stream("POST", "/v1/chat", json=body) as response:
            stream = response.headers["stream-id"]
        await cut_off(relay, others=0)
        left.told.set()
        await until(relay, stream, lambda reply: reply.json()["status"] != "running")
        kept = (await relay.client.get(f"/v1/streams/{stream}")).json()

        assert ("completed", "aab") == (kept["status"], kept["text"])


BAD_REQUESTS = [
    ("empty body", b"", "body is empty"),
    ("blank body", b"  \n", "body is empty"),
    ("malformed", b'{"messages": [', "not JSON"),
    ("not JSON", b"messages=hi", "not JSON"),
    ("bad UTF-8", b'{"messages":[{"role":"user","content":"\xff"}]}', "not UTF-8"),
    ("array", b"[]", "expected `object`, got `array`"),
    ("no messages", b"{}", "`messages`"),
    ("empty messages", b'{"messages":[]}', "messages: expected `array` of length >= 1"),
    ("messages as text", b'{"messages":"hi"}', "messages: expected `array`, got `str`"),
    ("unknown field", b'{"messages":[{"role":"user","content":"a"}],"foo":1}', "unknown field `foo`"),
    ("unknown field inside", b'{"messages":[{"role":"user","content":"a","bar":1}]}', "messages[0]: unknown field `bar`"),
    ("unknown role", b'{"messages":[{"role":"robot","content":"a"}]}', "messages[0].role: invalid value 'robot'"),
    ("no role", b'{"messages":[{"content":"a"}]}', "messages[0]"),
    ("content as number", b'{"messages":[{"role":"user","content":5}]}', "messages[0].content"),
    ("unknown part", b'{"messages":[{"role":"user","content":[{"type":"x"}]}]}', "messages[0].content[0].type"),
    ("temperature as text", b'{"messages":[{"role":"user","content":"a"}],"temperature":"hot"}', "temperature"),
    ("temperature too high", b'{"messages":[{"role":"user","content":"a"}],"temperature":3}', "temperature"),
    ("n of 0", b'{"messages":[{"role":"user","content":"a"}],"n":0}', "n: expected"),
    ("bad on_disconnect", b'{"messages":[{"role":"user","content":"a"}],"on_disconnect":"x"}', "on_disconnect"),
    ("deep nesting", b'{"messages":[{"role":"user","content":"a"}],"provider_options":{"a":' + b"[" * 50_000, "nested too deeply")
]  # fmt: skip


@pytest.mark.parametrize(("body", "told"), [row[1:] for row in BAD_REQUESTS], ids=[row[0] for row in BAD_REQUESTS])  # fmt: skip
async def test_bad_request_is_named(body, told):
    async with serve_relay() as relay:
        response = await relay.client.post(
            "/v1/chat", content=body, headers={"content-type": "application/json"}
        )

        assert 400 == response.status_code
        assert "invalid_request" == response.json()["code"]
        assert told in response.json()["detail"]


@pytest.mark.parametrize("announced", [True, False])
async def test_large_body_is_refused(announced):
    async with serve_relay() as relay:
        body = json.dumps({"messages": [{"role": "user", "content": "x" * 34_000_000}]}).encode()

        async def pieces():
            for start in range(0, len(body), 65536):
                yield body[start : start + 65536]

        response = await relay.client.post(
            "/v1/chat",
            content=body if announced else pieces(),
            headers={"content-type": "application/json"},
        )

        assert 413 == response.status_code
        assert "request_too_large" == response.json()["code"]
        assert "33554432 bytes" in response.json()["detail"]


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/plain", ""])
async def test_other_content_types_are_refused(content_type):
    async with serve_relay() as relay:
        headers = {"content-type": content_type} if content_type else {}
        response = await relay.client.post("/v1/chat", content=json.dumps(HELLO), headers=headers)

        assert 415 == response.status_code
        assert "application/json" in response.json()["detail"]


async def test_leaving_in_the_body_harms_nobody():
    async with serve_relay() as relay:
        _, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(
            b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: 100\r\n\r\n{"
        )
        await waiting.until(lambda: relay.server.server_state.connections)
        writer.close()
        await cut_off(relay, others=0)

        assert 200 == (await relay.client.get("/healthz")).status_code


async def test_too_many_streams_are_refused():
    async with serve_script([head(), send(text("a")), Hold()], max_streams=1) as (relay, upstream):
        body = {**HELLO, "on_disconnect": "cancel"}
        async with relay.client.stream("POST", "/v1/chat", json=body):
            refused = await relay.client.post("/v1/chat", json=HELLO)

            assert 503 == refused.status_code
            assert "overloaded" == refused.json()["code"]
            assert refused.headers["retry-after"]
        # Its place is free again once the reader has left.
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)
        upstream.script = CLEAN
        assert "ab" == text_of(await chat(relay))


async def test_cors_for_development_servers_only():
    async with serve_relay(cors_origins="https://app.example") as relay:
        for origin, allowed in [
            ("http://localhost:5173", True),
            ("https://app.example", True),
            ("https://evil.example", False),
        ]:
            response = await relay.client.options(
                "/v1/chat",
                headers={
                    "origin": origin,
                    "access-control-request-method": "POST",
                    "access-control-request-headers": "content-type,last-event-id",
                },
            )
            assert allowed is (response.headers.get("access-control-allow-origin") == origin)
        reply = await relay.client.get("/healthz", headers={"origin": "http://localhost:5173"})
        exposed = reply.headers["access-control-expose-headers"].lower().split(", ")
        assert {"stream-id", "retry-after", "x-should-retry"} <= set(exposed)


async def test_request_id_is_kept_or_made():
    async with serve_relay() as relay:
        kept = await relay.client.get("/healthz", headers={"x-request-id": "abc-123"})
        made = await relay.client.get("/healthz", headers={"x-request-id": "no spaces please"})

        assert "abc-123" == kept.headers["x-request-id"]
        assert made.headers["x-request-id"].startswith("req_")


async def test_null_is_the_same_as_not_there():
    async with serve_script(CLEAN) as (relay, upstream):
        events = await chat(relay, stream=None, temperature=None, tools=None, model=None)

        assert "ab" == text_of(events)
        assert {"temperature", "tools"}.isdisjoint(upstream.calls[0].json)


async def test_connection_header_is_sent_once():
    async with serve_script(CLEAN) as (relay, _):
        for value in ("close", "keep-alive"):
            headers = {"connection": value}
            async with relay.client.stream(
                "POST", "/v1/chat", json=HELLO, headers=headers
            ) as reply:
                await reply.aread()
            expected = ["close"] if value == "close" else []

            assert expected == reply.headers.get_list("connection")


async def test_leaving_with_a_request_in_the_pipeline_is_a_leave(caplog):
    async with serve_relay() as relay:
        for _ in range(5):
            body = json.dumps({**HELLO, "on_disconnect": "cancel"}).encode()
            reader, writer = await raw_request(relay, body)
            writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await reader.readuntil(b"text.delta")
            writer.close()
        await cut_off(relay, others=0)
        await waiting.until(lambda: not relay.hub.load().streams)

    assert "Traceback" not in caplog.text
    assert "Exception in ASGI" not in caplog.text
