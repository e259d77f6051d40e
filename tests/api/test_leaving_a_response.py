"""Leaving a response stops its provider, as at OpenAI, unless it runs in the background."""

import asyncio

import pytest

from app.testing.upstream import Hold, head, send, serve_upstream, text
from tests.serving import serve_relay

BODY = {"model": "openai/gpt-6-luna", "input": "hello", "stream": True}


@pytest.mark.parametrize("background", [None, False])
async def test_leaving_a_response_stops_its_provider(background: bool | None):
    async with serve_upstream() as upstream, serve_relay(upstream, linger_s=600) as relay:
        upstream.script = [head(), send(text("Hi")), Hold()]
        body = BODY if background is None else {**BODY, "background": background}
        async with relay.client.stream("POST", "/v1/responses", json=body) as answer:
            await anext(answer.aiter_bytes())

        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)


@pytest.mark.parametrize("wish", [{"background": True}, {"on_disconnect": "continue"}])
async def test_one_that_is_to_go_on_goes_on(wish: dict[str, object]):
    async with serve_upstream() as upstream, serve_relay(upstream, linger_s=600) as relay:
        upstream.script = [head(), send(text("Hi")), Hold()]
        async with relay.client.stream("POST", "/v1/responses", json={**BODY, **wish}) as answer:
            await anext(answer.aiter_bytes())
            path = f"/v1/streams/{answer.headers['stream-id']}"

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(upstream.calls[0].closed.wait(), 0.3)
        assert "running" == (await relay.client.get(path)).json()["status"]
