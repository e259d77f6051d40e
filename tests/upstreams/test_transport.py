"""Connections to upstreams: kept, many at once, and never to where a redirect leads."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from tests.serving import HELLO, serve_relay
from tests.upstream import DONE, FINISH, reply, serve_upstream, text

KEY = "sk-redirect-0123456789"
BODY = (text("fine") + FINISH + DONE).encode()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect_is_not_followed(status):
    async with serve_upstream() as upstream, serve_upstream() as target:
        location = f"http://127.0.0.1:{target.port}/v1/chat/completions"
        upstream.script = reply(f"{status} Elsewhere", "", location=location)
        async with serve_relay(upstream, key=KEY) as relay:
            body = {**HELLO, "model": "openai/m"}
            answer = (await relay.client.post("/v1/chat", json=body)).json()

    assert "upstream_invalid_response" == answer["code"]
    assert f"status {status}" in answer["detail"]
    assert "check its base URL" in answer["detail"]
    assert 1 == len(upstream.calls)
    assert [] == target.calls


@dataclass
class Keeping:
    """A server that keeps its connections, and answers only when told to."""

    port: int = 0
    connections: int = 0
    waiting: int = 0
    full: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    wanted: int = 1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
                await reader.readexactly(length)
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                    b"transfer-encoding: chunked\r\n\r\n"
                )
                self.waiting += 1
                if self.waiting >= self.wanted:
                    self.full.set()
                await self.go.wait()
                writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY))
        writer.close()


@contextlib.asynccontextmanager
async def keeping(wanted: int = 1) -> AsyncIterator[Keeping]:
    server = Keeping(wanted=wanted)
    running = await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=1000)
    server.port = running.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        running.close()


async def test_two_requests_in_a_row_use_one_connection():
    async with keeping() as server:
        server.go.set()
        environ = {"OPENAI_BASE_URL": f"http://127.0.0.1:{server.port}/v1"}
        async with serve_relay(environ=environ) as relay:
            for _ in range(2):
                body = {**HELLO, "model": "openai/m", "stream": False}
                answer = (await relay.client.post("/v1/chat", json=body)).json()
                assert "fine" == answer["text"]

    assert 1 == server.connections


async def test_300_streams_run_at_once():
    async with keeping(wanted=300) as server:
        environ = {"OPENAI_BASE_URL": f"http://127.0.0.1:{server.port}/v1"}
        async with serve_relay(environ=environ) as relay:
            body = {**HELLO, "model": "openai/m"}
            headers = {"prefer": "respond-async"}
            for _ in range(300):
                reply = await relay.client.post("/v1/chat", json=body, headers=headers)
                assert 202 == reply.status_code
            await asyncio.wait_for(server.full.wait(), 20)
            server.go.set()
            done = await relay.client.get(reply.json()["events_url"])

    assert '"status":"completed"' in done.text
    assert 300 == server.connections
