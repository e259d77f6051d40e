"""Responses that are not valid HTTP, or whose end is ambiguous, at each kind of call."""

from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from app.testing.upstream import DONE, FINISH, chunk, send, serve_upstream, text
from tests.serving import Relay, serve_relay

MODEL = "openai/m-1"
HELLO = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
CALLS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "stream": ("/v1/chat/completions", {**HELLO, "stream": True}),
    "JSON": ("/v1/chat/completions", HELLO),
    "own JSON": ("/v1/chat", {**HELLO, "stream": False}),
    "embeddings": ("/v1/embeddings", {"model": MODEL, "input": "hi"}),
    "forwarded": ("/v1/audio/speech", {"model": MODEL, "input": "hi", "voice": "alloy"}),
}


async def ask(relay: Relay, name: str) -> httpx2.Response:
    path, body = CALLS[name]
    return await relay.client.post(path, json=body)


@pytest.mark.parametrize("status", ["000 No", "099 No", "600 No", "999 No"])
@pytest.mark.parametrize("name", CALLS)
async def test_status_that_does_not_exist_is_an_invalid_response(
    name: str, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [send(f"HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}")]
        reply = await ask(relay, name)

        assert 502 == reply.status_code
        assert "upstream_invalid_response" in reply.text
        assert "did not answer in valid HTTP; check its base URL" in reply.text
        assert [] == [record for record in caplog.records if record.exc_info]


SPLIT = (
    "transfer-encoding: identity\r\ntransfer-encoding: chunked",
    "transfer-encoding: gzip\r\ntransfer-encoding: chunked",
    "transfer-encoding: chunked, gzip",
    "transfer-encoding : chunked",
    "content-length : 9999",
)


@pytest.mark.parametrize("framing", SPLIT)
@pytest.mark.parametrize("name", CALLS)
async def test_body_that_is_cut_is_never_taken_for_whole(name: str, framing: str) -> None:
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        body = b'{"data":[{"embedding":[1.0],"index":0}]}' if name == "embeddings" else text("a")
        piece = body.encode() if isinstance(body, str) else body
        sent = piece if "length" in framing else chunk(piece).data + b"9\r\nab"
        media_type = "application/json" if name == "embeddings" else "text/event-stream"
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\n{framing}\r\n\r\n"
        upstream.script = [send(head.encode() + sent)]
        try:
            reply = await ask(relay, name)
        except httpx2.RemoteProtocolError:
            return  # a forwarded body that has begun is broken off
        if reply.status_code == 200:
            assert '"error"' in reply.text, reply.text
        else:
            assert 502 == reply.status_code


async def test_body_of_an_interim_response_is_not_part_of_the_answer() -> None:
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        stray = text("stray")
        upstream.script = [
            send(f"HTTP/1.1 104 Interim\r\ncontent-length: {len(stray)}\r\n\r\n{stray}"),
            send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"),
            send(text("answer") + FINISH + DONE),
        ]
        reply = await ask(relay, "own JSON")

        assert (502, "upstream_invalid_response") == (reply.status_code, reply.json()["code"])
