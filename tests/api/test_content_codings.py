"""Compressed requests of clients, and compressed answers of providers, also unasked."""

import gzip
import json
import zlib
from typing import Any

import pytest

from app.framing.content_coding import CODINGS
from app.testing.upstream import DONE, FINISH, Hold, Step, answer, head, reply, send, text
from tests.coding import ENCODERS
from tests.serving import HELLO, serve_relay, serve_script

JSON = {"content-type": "application/json"}
SHORT = {**HELLO, "stream": False}
PATHS = {
    "/v1/chat": SHORT,
    "/v1/chat/completions": {**HELLO, "model": "openai/m"},
    "/v1/responses": {"model": "openai/m", "input": "hello"},
    "/v1/messages": {**HELLO, "model": "openai/m", "max_tokens": 9},
    "/v1/embeddings": {"model": "openai/m", "input": "hello"},
}


def coded(coding: str) -> dict[str, str]:
    return {**JSON, "content-encoding": coding}


# Requests


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("size", [10, 200_000])
async def test_compressed_request_is_read(name, size):
    coding, encode = ENCODERS[name]
    said = {"messages": [{"role": "user", "content": json.dumps([*range(size // 6)])}]}
    async with serve_script(answer("fine")) as (relay, upstream):
        body = encode(json.dumps({**said, "stream": False}).encode())
        response = await relay.client.post("/v1/chat", content=body, headers=coded(coding))

        assert 200 == response.status_code
        assert said["messages"] == upstream.calls[0].json["messages"]
        assert 0 == relay.hub.admission.bytes


@pytest.mark.parametrize("path", PATHS)
async def test_coding_that_is_not_known_is_refused_with_those_that_are(path):
    async with serve_script(answer("x")) as (relay, upstream):
        body = json.dumps(PATHS[path]).encode()
        response = await relay.client.post(path, content=body, headers=coded("compress"))
        other = await relay.client.post(path, content=body, headers={"content-type": "text/plain"})

        assert (415, ", ".join(CODINGS)) == (
            response.status_code,
            response.headers["accept-encoding"],
        )
        assert "the content coding 'compress' is not supported" in response.text
        assert (415, None) == (other.status_code, other.headers.get("accept-encoding"))
        assert not upstream.calls


@pytest.mark.parametrize("value", ["identity", "none", "utf-8", ""])
async def test_names_of_no_coding_are_no_coding(value):
    async with serve_script(answer("x")) as (relay, _):
        response = await relay.client.post("/v1/chat", json=SHORT, headers=coded(value))

        assert 200 == response.status_code


REFUSED: list[tuple[bytes, int, str]] = [
    (gzip.compress(b" " * 3_000_000), 413, "max_request_bytes"),
    (gzip.compress(b" " * 1_900_000), 400, "more than 200 times its size"),
    (gzip.compress(json.dumps(HELLO).encode())[:-9], 400, "incomplete"),
    (json.dumps(HELLO).encode(), 400, "not gzip"),
]


@pytest.mark.parametrize(("body", "status", "says"), REFUSED, ids=[one[2] for one in REFUSED])
async def test_compressed_request_is_bounded(body, status, says):
    async with serve_relay(max_request_bytes=1_000_000 if status == 413 else 2_000_000) as relay:
        response = await relay.client.post("/v1/chat", content=body, headers=coded("gzip"))

        assert (status, True) == (response.status_code, says in response.text)
        assert 0 == relay.hub.admission.bytes


async def test_what_is_decoded_takes_of_the_memory_for_requests():
    body = gzip.compress(json.dumps({**HELLO, "provider_options": {"a": "ab" * 80_000}}).encode())
    async with serve_relay(max_request_memory_bytes=100_000) as relay:
        response = await relay.client.post("/v1/chat", content=body, headers=coded("gzip"))

        assert (413, True) == (response.status_code, "max_request_memory_bytes" in response.text)


# Answers


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("stream", [True, False])
async def test_compressed_answer_that_nobody_asked_for_is_read(name, stream):
    coding, encode = ENCODERS[name]
    data = encode((text("one ") + text("two") + FINISH + DONE).encode())
    script = [head(content_encoding=coding), send(data[:20]), send(data[20:])]
    async with serve_script(script) as (relay, _):
        response = await relay.client.post(
            "/v1/chat/completions", json={**HELLO, "model": "openai/m", "stream": stream}
        )

        assert 200 == response.status_code
        assert "two" in response.text
        assert '"finish_reason":"stop"' in response.text


async def test_compressed_stream_arrives_event_by_event():
    encoder = zlib.compressobj(wbits=31)
    flushed = encoder.compress(text("first").encode()) + encoder.flush(zlib.Z_SYNC_FLUSH)
    script: list[Step] = [head(content_encoding="gzip"), send(flushed), Hold()]
    async with (
        serve_script(script) as (relay, _),
        relay.client.stream("POST", "/v1/chat", json=HELLO) as response,
    ):
        async for line in response.aiter_lines():
            if "first" in line:
                return
    raise AssertionError("the event did not arrive while the stream was open")


@pytest.mark.parametrize("value", ["none", "identity", "utf-8", "UTF-8"])
async def test_providers_names_of_no_coding_are_no_coding(value):
    script = [head(content_encoding=value), send(text("fine") + FINISH + DONE)]
    async with serve_script(script) as (relay, _):
        response = await relay.client.post("/v1/chat", json=SHORT)

        assert (200, True) == (response.status_code, "fine" in response.text)


async def test_compressed_document_is_read():
    vector = {"object": "list", "data": [{"index": 0, "embedding": [0.5]}], "model": "m"}
    said: Any = gzip.compress(json.dumps({**vector, "usage": {"prompt_tokens": 1}}).encode())
    async with serve_script(reply("200 OK", said, content_encoding="gzip")) as (relay, _):
        response = await relay.client.post("/v1/embeddings", json=PATHS["/v1/embeddings"])

        assert (200, True) == (response.status_code, "0.5" in response.text)
