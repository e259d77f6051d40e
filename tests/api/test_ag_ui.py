"""`/v1/ag-ui` on a real socket."""

import asyncio
from typing import Any

import httpx2
import pytest

from app.dialects.client_format import Frame
from app.testing.upstream import DONE, FINISH, USAGE, Hold, head, send, text
from tests.clock import Clock
from tests.dialects.ag_ui.verify import read_messages as judge
from tests.dialects.ag_ui.verify import sent_of
from tests.serving import cut_off, read_messages, serve_relay, serve_script

RUN = {
    "threadId": "t1",
    "runId": "r1",
    "messages": [{"id": "u1", "role": "user", "content": "hello"}],
    "tools": [],
    "context": [],
    "forwardedProps": {},
}
CLEAN = [head(), send(text("a") + text("b") + FINISH + USAGE + DONE)]


async def sent(response: httpx2.Response) -> list[dict[str, Any]]:
    assert 200 == response.status_code, await response.aread()
    return sent_of([Frame(m.data.encode()) for m in await read_messages(response)])


async def test_run_is_answered_and_can_be_read_again():
    async with serve_script(CLEAN) as (relay, _):
        async with relay.client.stream("POST", "/v1/ag-ui", json=RUN) as response:
            stream = response.headers["stream-id"]
            found = await sent(response)
        (message,) = judge(found)
        assert "ab" == message["content"]
        assert ("t1", "r1") == (found[-1]["threadId"], found[-1]["runId"])
        for cursor in ("", "&after=3"):
            url = f"/v1/streams/{stream}/events?format=ag_ui{cursor}"
            async with relay.client.stream("GET", url) as response:
                assert found == await sent(response)
        url = f"/v1/streams/{stream}/events?format=ag_ui&after=3&suffix"
        async with relay.client.stream("GET", url) as response:
            assert found[3:] == await sent(response)


async def test_run_that_is_cancelled_says_so():
    async with serve_script([head(), send(text("a")), Hold()]) as (relay, _):
        run = {**RUN, "protocolVersion": "1.0"}
        async with relay.client.stream("POST", "/v1/ag-ui", json=run) as response:
            stream = response.headers["stream-id"]
            await relay.client.post(f"/v1/streams/{stream}/cancel")
            found = await sent(response)
        judge(found)

        assert {"type": "cancelled"} == found[-1]["outcome"]


async def test_leaving_stops_the_run_unless_it_says_otherwise(monkeypatch):
    clock = Clock(monkeypatch)
    async with serve_script([head(), send(text("a")), Hold()]) as (relay, upstream):
        for props in ({}, {"on_disconnect": 100}):
            body = {**RUN, "forwardedProps": props}
            async with relay.client.stream("POST", "/v1/ag-ui", json=body) as response:
                async for data in response.aiter_bytes():
                    if b"TEXT_MESSAGE_CONTENT" in data:
                        break
                stream = response.headers["stream-id"]
            call = upstream.calls[-1]
            if props:
                await cut_off(relay, others=0)
                await clock.pass_(50)
                kept = await relay.client.get(f"/v1/streams/{stream}")
                assert "running" == kept.json()["status"]
                assert not call.closed.is_set()
                await clock.pass_(51)
            await asyncio.wait_for(call.closed.wait(), 20)


async def test_failures_are_an_error_of_the_run():
    async with serve_script([head("429 Too Many"), send("{}")]) as (relay, upstream):
        response = await relay.client.post("/v1/ag-ui", json=RUN)
        assert 429 == response.status_code
        assert ("RUN_ERROR", "upstream_rate_limited") == (
            response.json()["type"],
            response.json()["code"],
        )
        upstream.script = [head(), send(text("half"))]
        async with relay.client.stream("POST", "/v1/ag-ui", json=RUN) as response:
            found = await sent(response)
        judge(found)
        assert ("RUN_ERROR", "upstream_truncated") == (found[-1]["type"], found[-1]["code"])


async def test_result_without_streaming_is_the_list_of_events():
    async with serve_script(CLEAN) as (relay, _):
        body = {**RUN, "forwardedProps": {"stream": False}}
        response = await relay.client.post("/v1/ag-ui", json=body)

        assert ["ab"] == [message["content"] for message in judge(response.json())]


@pytest.mark.parametrize("body", [b"{}", b"[1]", b'{"threadId": "x"}', b"\xff", b"[" * 90_000])
async def test_junk_is_refused_in_words(body):
    async with serve_relay() as relay:
        headers = {"content-type": "application/json"}
        response = await relay.client.post("/v1/ag-ui", content=body, headers=headers)

        assert 400 == response.status_code
        assert "invalid_request" == response.json()["code"]
