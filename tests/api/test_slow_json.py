"""Answers as JSON that take long: white space keeps their connections, and failures stay visible."""

import json
from typing import Any

import httpx2
import pytest

from app.testing.upstream import (
    DONE,
    FINISH,
    LAST_CHUNK,
    Step,
    chunk,
    chunked_head,
    reply,
    text,
    wait,
)
from tests.serving import HELLO, serve_script

BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat": {**HELLO, "stream": False},
    "/v1/chat/completions": {**HELLO, "model": "openai/m"},
    "/v1/completions": {"prompt": "hello", "model": "openai/m"},
    "/v1/responses": {"input": "hello", "model": "openai/m"},
    "/v1/messages": {**HELLO, "model": "openai/m", "max_tokens": 9},
}
BEAT_S = 0.1
HEAD: list[Step] = [chunked_head(), chunk(text("hel"))]
SLOW: list[Step] = [*HEAD, wait(3 * BEAT_S), chunk(text("lo") + FINISH + DONE), LAST_CHUNK]
CUT: list[Step] = [*HEAD, wait(3 * BEAT_S)]


@pytest.mark.parametrize("path", BODIES)
async def test_white_space_comes_before_a_slow_answer(path: str) -> None:
    async with (
        serve_script(SLOW, heartbeat_s=BEAT_S) as (relay, _),
        relay.client.stream("POST", path, json=BODIES[path]) as response,
    ):
        pieces = [piece async for piece in response.aiter_raw()]

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert "content-length" not in response.headers
    assert pieces[0] == b" "
    body = b"".join(pieces)
    assert 2 <= len(body) - len(body.lstrip()) <= 4
    assert "hello" in json.dumps(json.loads(body))


@pytest.mark.parametrize("path", BODIES)
async def test_an_error_after_the_head_breaks_the_body_off(path: str) -> None:
    pieces: list[bytes] = []

    async def read(response: httpx2.Response) -> None:
        async for piece in response.aiter_raw():
            pieces.append(piece)

    async with (
        serve_script(CUT, heartbeat_s=BEAT_S) as (relay, _),
        relay.client.stream("POST", path, json=BODIES[path]) as response,
    ):
        with pytest.raises(httpx2.RemoteProtocolError):
            await read(response)

    assert response.status_code == 200
    assert "closed the connection" in json.dumps(json.loads(b"".join(pieces)))


async def test_an_early_error_keeps_its_status() -> None:
    refusal = reply("400 Bad Request", '{"error":{"message":"no"}}')
    async with serve_script([wait(0.05), *refusal], heartbeat_s=1) as (relay, _):
        response = await relay.client.post("/v1/chat/completions", json={**HELLO, "model": "m"})

    assert response.status_code == 400


async def test_a_client_that_leaves_a_slow_answer_ends_it() -> None:
    script: list[Step] = [*HEAD, wait(20)]
    async with serve_script(script, heartbeat_s=BEAT_S) as (relay, upstream):
        path = "/v1/chat/completions"
        async with relay.client.stream("POST", path, json=BODIES[path]) as response:
            async for _ in response.aiter_raw():
                break
        await upstream.calls[0].closed.wait()
