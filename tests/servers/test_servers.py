"""The same requests under every ASGI server: what is promised does not depend on which.

What needs the same settings is asked of one server, part by part: each takes a second to start.
"""

import asyncio
import contextlib
import json
import re
import socket
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx2
import pytest
import websockets

from app.testing.upstream import (
    LAST_CHUNK,
    Hold,
    Step,
    Upstream,
    chunk,
    chunked_head,
    head,
    send,
    serve_upstream,
    wait,
)
from tests.servers.programs import SERVERS, Served, serve
from tests.serving import HELLO
from tests.waiting import until

pytestmark = pytest.mark.proving

LONG = {**HELLO, "model": "demo-long"}
SHORT = {**LONG, "max_tokens": 20}
"""A tenth of a second; a whole answer takes the demo five, which types as people read."""

DELTA = 'data: {{"choices":[{{"delta":{{"content":"{}"}}}}]}}\n\n'

PAUSE_S = 0.02
"""Between two looks: hypercorn ends a connection of HTTP/2 after a thousand requests."""

every_server = pytest.mark.parametrize("name", SERVERS)


async def read_frames(response: httpx2.Response, *, most: int = 10**9) -> bytes:
    """Read whole frames, at least so many unless it ends; heartbeats are left out."""
    read = b""
    async for piece in response.aiter_raw():
        read += piece
        if read.count(b"\n\n") >= most:
            break
    return read.replace(b": hb\n", b"")


def last_id(frames: bytes) -> str:
    return re.findall(rb"^id: (.*)$", frames, re.MULTILINE)[-1].decode()


async def is_cancelled(client: httpx2.AsyncClient, stream: str) -> bool:
    found: dict[str, Any] = (await client.get(f"/v1/streams/{stream}")).json()
    return found["status"] == "cancelled"


@every_server
async def test_streams_are_served_and_nothing_is_logged_as_a_fault(name, tmp_path):
    async with serve(name, tmp_path, retention_s=60, attempts=1) as served:
        await check_stream_is_resumed_stopped_and_looked_at(name, served)
        await check_answer_before_the_body_leaves_the_connection(served)
        await check_what_cannot_be_completed_is_cut_off(served)
        await check_failed_chat_completion_does_not_look_whole(name, served)
        if not SERVERS[name].http2:
            await check_websocket_handshake_is_answered_by_http(name, served)
            await check_responses_over_websocket(served)
        await served.client.aclose()  # hypercorn waits for its connections of HTTP/2
        out = await served.stop()
    assert b"Traceback" not in out, out.decode()
    assert b"KeyError" not in out, out.decode()


async def check_websocket_handshake_is_answered_by_http(name: str, served: Served) -> None:
    handshake = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    began = time.monotonic()
    answer = await served.client.get("/v1/chat", headers=handshake)
    assert (426, "upgrade_required") == (answer.status_code, answer.json()["code"])
    assert answer.headers["upgrade"].endswith("HTTP/1.1")
    assert time.monotonic() - began < 1


async def check_responses_over_websocket(served: Served) -> None:
    url = f"ws://127.0.0.1:{served.port}/v1/responses"
    async with websockets.connect(url, proxy=None) as connection:
        for _ in range(2):
            request = {"type": "response.create", "model": "demo", "input": "hello"}
            await connection.send(json.dumps(request))
            kind = ""
            async with asyncio.timeout(20):
                while kind != "response.completed":
                    kind = json.loads(await connection.recv())["type"]


async def check_stream_is_resumed_stopped_and_looked_at(name: str, served: Served) -> None:
    client = served.client
    # A whole one, with the frames that any server gives.
    async with client.stream("POST", "/v1/chat", json=SHORT) as response:
        stream = response.headers["stream-id"]
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["content-location"] == f"/v1/streams/{stream}/events"
        assert response.headers["cache-control"] == "no-store, no-transform"
        assert ("HTTP/2" if SERVERS[name].http2 else "HTTP/1.1") == response.http_version
        whole = await read_frames(response)
    assert b'"status":"completed"' in whole
    assert b"\r" not in whole

    # The same by GET, in two parts, and nothing after the end.
    async with client.stream("GET", f"/v1/streams/{stream}/events") as response:
        first = await read_frames(response, most=3)
    first = first[: first.rindex(b"\n\n") + 2]
    async with client.stream(
        "GET", f"/v1/streams/{stream}/events", headers={"last-event-id": last_id(first)}
    ) as response:
        rest = await read_frames(response)
    retry = re.compile(rb"retry: \d+\n")
    assert retry.sub(b"", whole) == retry.sub(b"", first + rest)
    after_all = await client.get(
        f"/v1/streams/{stream}/events", headers={"last-event-id": last_id(whole)}
    )
    assert 204 == after_all.status_code

    # A stop, which the reader sees.
    async with client.stream("POST", "/v1/chat", json=LONG) as response:
        pieces = response.aiter_raw()
        await anext(pieces)
        cancel = f"/v1/streams/{response.headers['stream-id']}/cancel"
        assert 202 == (await client.post(cancel)).status_code
        stopped = b"".join([piece async for piece in pieces])
    assert b'"status":"cancelled"' in stopped

    # HEAD, an answer as JSON, an error.
    looked = await client.head(f"/v1/streams/{stream}/events")
    assert (200, b"") == (looked.status_code, looked.content)
    answer = await client.post("/v1/chat", json={**SHORT, "stream": False})
    assert "completed" == answer.json()["status"]
    failed = await client.post("/v1/chat", json={**HELLO, "model": "demo-error"})
    assert 503 == failed.status_code
    assert "upstream_overloaded" == failed.json()["code"]


async def check_answer_before_the_body_leaves_the_connection(served: Served) -> None:
    """One that is stopped, or refused by its head, while a stream goes on over the connection."""
    async with served.client.stream("POST", "/v1/chat", json=LONG) as response:
        for _ in range(20):
            gone = await served.client.post("/v1/streams/st_0123456789abcdef012345/cancel")
            assert 404 == gone.status_code
            refused = await served.client.post("/v1/chat", content=_slowly(b"{}" * 500))
            assert 415 == refused.status_code
        stream = response.headers["stream-id"]
        assert 202 == (await served.client.post(f"/v1/streams/{stream}/cancel")).status_code
        assert b'"status":"cancelled"' in await read_frames(response)


async def _slowly(body: bytes) -> AsyncIterator[bytes]:
    """Send a body in two parts, the second after the server has seen the first."""
    yield body[:100]
    await asyncio.sleep(0.02)
    yield body[100:]


async def check_what_cannot_be_completed_is_cut_off(served: Served) -> None:
    async with served.client.stream("POST", "/v1/chat", json=LONG) as response:
        pieces = response.aiter_raw()
        read = await anext(pieces)
        stream = response.headers["stream-id"]
        assert 204 == (await served.client.delete(f"/v1/streams/{stream}")).status_code
        with contextlib.suppress(httpx2.RemoteProtocolError):
            async for piece in pieces:
                read += piece
            if b"stream.end" not in read:
                pytest.fail("the answer ended as if it were whole")
    # The end of what was stopped may have been read before it was removed.
    assert b'"status":"completed"' not in read


async def check_failed_chat_completion_does_not_look_whole(name: str, served: Served) -> None:
    body = {**HELLO, "model": "demo-drop", "stream": True}
    url = "/v1/chat/completions"
    for agent, cut in {"OpenAI/JS 7.1.0": False, "litellm/1.105.0": True}.items():
        headers = {"user-agent": agent}
        async with served.client.stream("POST", url, json=body, headers=headers) as response:
            read, lost = await _read_to_loss(response)
        assert lost is cut or SERVERS[name].http2
        assert b'{"error":{' in read
        assert b"[DONE]" not in read


@every_server
async def test_silence_is_filled_and_those_who_leave_or_are_left_are_told_the_truth(name, tmp_path):
    async with (
        serve_upstream() as upstream,
        serve(
            name,
            tmp_path,
            upstream=upstream.base_url,
            heartbeat_s=0.6,
            status_wait_s=0.5,
            send_timeout_s=1,
            max_stream_bytes=10**8,
            drain_s=0.5,
            linger_s=0.5,  # after a repeat that came between its client's leaving and the end
        ) as served,
    ):
        await check_heartbeats_are_lines_of_ours(upstream, served)
        http2 = SERVERS[name].http2
        await check_forwarded_answer_is_passed_on_or_broken_off(upstream, served, http2=http2)
        await check_slow_json_is_announced_or_broken_off(upstream, served, http2=http2)
        if not http2:  # there the socket is its TLS layer's
            await check_client_that_takes_nothing_is_cut_off(upstream, served)
        await check_client_that_leaves_is_noticed(served)
        if SERVERS[name].waits:
            await check_server_that_waits_lets_streams_run_to_their_ends(served)
        else:
            await check_shutdown_never_looks_like_an_end(name, served)


async def check_heartbeats_are_lines_of_ours(upstream: Upstream, served: Served) -> None:
    upstream.script = [head(), send(DELTA.format("a")), Hold()]
    request = {**HELLO, "model": "openai/m", "on_disconnect": "cancel"}
    for accept, end, beat in (
        ("text/event-stream", b"\n\n", b": hb\n"),
        ("application/x-ndjson", b"\n", b" "),
    ):
        headers = {"accept": accept}
        async with served.client.stream(
            "POST", "/v1/chat", json=request, headers=headers
        ) as response:
            assert response.headers["content-type"].startswith(accept)
            read = beats = b""
            async with asyncio.timeout(20):
                async for piece in response.aiter_raw():
                    read += piece
                    beats = read.rpartition(end)[2]
                    if beats.count(beat) >= 3:
                        break
        assert (beat * len(beats)).startswith(beats)


async def check_forwarded_answer_is_passed_on_or_broken_off(
    upstream: Upstream, served: Served, *, http2: bool
) -> None:
    sound = chunked_head(content_type="audio/wav"), chunk(b"RIFF")

    async def speak(client: httpx2.AsyncClient) -> tuple[bytes, bool]:
        """Return the bytes of an answer, and whether it was complete."""
        body, read = {"model": "openai/m", "input": "hello", "voice": "v"}, b""
        async with client.stream("POST", "/v1/audio/speech", json=body, timeout=5) as response:
            try:
                async for piece in response.aiter_raw():
                    read += piece
            except httpx2.RemoteProtocolError:
                return read, False
        return read, True

    upstream.script = [*sound, LAST_CHUNK]
    assert (b"RIFF", True) == await speak(served.client)
    if not http2:  # hypercorn (0.18) leaves a broken answer of HTTP/2 open, until it is killed
        upstream.script = [*sound, wait(0.1)]
        assert (b"RIFF", False) == await speak(served.client)
    upstream.reset(*sound, Hold())
    async with served.connect() as leaving:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(speak(leaving), 0.5)
    await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)


async def check_slow_json_is_announced_or_broken_off(
    upstream: Upstream, served: Served, *, http2: bool
) -> None:
    body = {**HELLO, "model": "openai/m", "stream": False}
    begun: list[Step] = [chunked_head(), chunk(DELTA.format("a")), wait(0.8)]
    for last, says in (
        (chunk("data: [DONE]\n\n"), b'"text":"a"'),
        (LAST_CHUNK, b"upstream_truncated"),
    ):
        upstream.script = [*begun, last]
        read, lost = b"", False
        async with served.client.stream("POST", "/v1/chat", json=body) as response:
            assert response.status_code == 200
            try:
                async for piece in response.aiter_raw():
                    read += piece
            except httpx2.RemoteProtocolError:
                lost = True
        assert read.startswith(b" ")
        assert says in read
        assert lost == (says == b"upstream_truncated" and not http2)


async def check_client_that_takes_nothing_is_cut_off(upstream: Upstream, served: Served) -> None:
    """The answer is more than all buffers on the way take: 15 MB."""
    upstream.script = [head(), *[send(DELTA.format("x" * 50_000))] * 300, Hold()]
    before = len(upstream.calls)
    body = json.dumps({**HELLO, "model": "openai/m", "on_disconnect": "cancel"})
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", served.port))
        reader.sendall(
            b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body.encode())
        )
        await until(lambda: len(upstream.calls) > before)
        async with asyncio.timeout(60):
            await upstream.calls[before].closed.wait()


async def check_client_that_leaves_is_noticed(served: Served) -> None:
    request = {**LONG, "on_disconnect": "cancel"}
    async with (
        served.connect() as leaving,
        leaving.stream("POST", "/v1/chat", json=request) as response,
    ):
        stream = response.headers["stream-id"]
        await read_frames(response, most=3)
    await until(lambda: is_cancelled(served.client, stream))

    # Also one that waits for the whole, or for the first event.
    for fields in ({"stream": False}, {"stream": True, "model": "demo-slow"}):
        before = await started(served.client)
        key = {"idempotency-key": "one"}
        async with served.connect() as leaving:
            asking = asyncio.create_task(
                leaving.post("/v1/chat", json={**request, **fields}, headers=key)
            )
            while await started(served.client) == before:
                assert not asking.done()
                await asyncio.sleep(PAUSE_S)
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking
        async with asyncio.timeout(20):
            while True:  # until it is known by its key
                again = await served.client.post(
                    "/v1/chat",
                    json={**request, **fields},
                    headers={**key, "prefer": "respond-async"},
                )
                if "stream-id" in again.headers:
                    break
                await asyncio.sleep(PAUSE_S)
        stream = again.headers["stream-id"]
        await until(partial(is_cancelled, served.client, stream))
        await served.client.delete(f"/v1/streams/{stream}")


async def started(client: httpx2.AsyncClient) -> float:
    """Return how many streams have been started."""
    lines = (await client.get("/metrics")).text.splitlines()
    mine = [line for line in lines if line.startswith("seseragi_streams_started_total")]
    return sum(float(line.rpartition(" ")[2]) for line in mine)


async def check_shutdown_never_looks_like_an_end(name: str, served: Served) -> None:
    async with served.client.stream("POST", "/v1/chat", json=LONG) as response:
        began = time.monotonic()
        stopping = asyncio.create_task(served.stop())
        read, lost = await _read_to_loss(response)
        await served.client.aclose()
        await stopping
    assert time.monotonic() - began < 25
    assert b'"status":"completed"' not in read
    if SERVERS[name].drains:
        assert b'"status":"interrupted"' in read
    else:
        assert lost or b'"status":"interrupted"' in read


async def check_server_that_waits_lets_streams_run_to_their_ends(served: Served) -> None:
    async with served.client.stream(
        "POST", "/v1/chat", json={**LONG, "max_tokens": 300}
    ) as response:
        stopping = asyncio.create_task(served.stop())
        read, _ = await _read_to_loss(response)
    await served.client.aclose()  # connections that are kept alive too
    await stopping
    assert b'"status":"completed"' in read


async def _read_to_loss(response: httpx2.Response) -> tuple[bytes, bool]:
    read = b""
    try:
        async for piece in response.aiter_raw():
            read += piece
    except httpx2.TransportError:
        return read, True
    return read, False
