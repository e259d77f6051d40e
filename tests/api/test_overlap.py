"""Requests that name their chat: what a second one does while the first runs."""

import asyncio
from typing import Any

import pytest

from app.generation.runs import Runs
from app.testing.upstream import (
    DONE,
    FINISH,
    Hold,
    Step,
    head,
    send,
    serve_upstream,
    text,
)
from tests.api.asking import serve_asked
from tests.serving import HELLO, Relay, events_of, read_messages, serve_relay, text_so_far
from tests.waiting import until

HELD: list[Step] = [head(), send(text("a")), Hold()]
WHOLE: list[Step] = [head(), send(text("a") + FINISH + DONE)]
PART = {"type": "text", "text": "hello"}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat": HELLO,
    "/v1/chat/completions": {"model": "openai/m", "stream": True, **HELLO},
    "/v1/completions": {"model": "openai/m", "prompt": "hello", "stream": True},
    "/v1/responses": {"model": "openai/m", "input": "hello", "stream": True},
    "/v1/messages": {"model": "openai/m", "max_tokens": 9, "stream": True, **HELLO},
    "/v1/ui/chat": {"id": "c", "messages": [{"id": "u", "role": "user", "parts": [PART]}]},
    "/v1/ag-ui": {
        "threadId": "c",
        "runId": "r",
        "messages": [{"id": "u", "role": "user", "content": "hello"}],
    },
}


async def post(relay: Relay, path: str = "/v1/chat", **fields: Any) -> Any:
    headers = {"prefer": "respond-async", **fields.pop("headers", {})}
    return await relay.client.post(path, json={**BODIES[path], **fields}, headers=headers)


async def start(relay: Relay, path: str = "/v1/chat", **fields: Any) -> str:
    reply = await post(relay, path, **fields)
    assert 202 == reply.status_code, reply.text
    stream: str = reply.json()["id"]
    return stream


async def show(relay: Relay, stream: str) -> dict[str, Any]:
    found: dict[str, Any] = (await relay.client.get(f"/v1/streams/{stream}")).json()
    return found


async def test_second_request_runs_beside_the_first_by_default(log):
    async with serve_upstream() as upstream, serve_relay(upstream, log=log) as relay:
        upstream.script = HELD
        first = await start(relay, chat="c")
        for overlap in ({}, {"overlap": "allow"}):
            await start(relay, chat="c", **overlap)
        assert "running" == (await show(relay, first))["status"]
        assert 3 == relay.hub.load().streams


async def test_refused_request_names_the_running_stream(log):
    async with serve_upstream() as upstream, serve_relay(upstream, log=log) as relay:
        upstream.script = HELD
        first = await start(relay, chat="c")
        reply = await post(relay, chat="c", overlap="refuse")

        assert 409 == reply.status_code
        assert ("conflict", first) == (reply.json()["code"], reply.json()["stream"])
        assert first == reply.headers["stream-id"]
        assert first in reply.json()["detail"]
        await until(lambda: len(upstream.calls) == 1)
        await start(relay, chat="another", overlap="refuse")
        await relay.client.post(f"/v1/streams/{first}/cancel")
        await start(relay, chat="c", overlap="refuse")


async def test_one_of_many_refused_requests_runs(log):
    async with serve_upstream() as upstream, serve_relay(upstream, log=log) as relay:
        upstream.script = HELD
        replies = await asyncio.gather(
            *(post(relay, chat="c", overlap="refuse") for _ in range(20))
        )

        (started,) = [reply.json()["id"] for reply in replies if reply.status_code == 202]
        assert {started} == {r.json()["stream"] for r in replies if r.status_code == 409}
        await until(lambda: len(upstream.calls) == 1)
        assert 1 == relay.hub.load().streams


async def test_replaced_stream_is_cancelled_before_the_next_begins(log):
    async with serve_upstream() as upstream, serve_relay(upstream, log=log) as relay:
        upstream.script = HELD
        first = await start(relay, chat="c")
        await text_so_far(relay, first, "a")
        await start(relay, chat="c")
        upstream.script = WHOLE
        body = {**HELLO, "chat": "c", "overlap": "replace"}
        async with relay.client.stream("POST", "/v1/chat", json=body) as reply:
            found = await show(relay, first)
            last = events_of(await read_messages(reply))[-1]

        assert ("cancelled", "user", "a") == (found["status"], found["ended_by"], found["text"])
        assert "completed" == last["status"]
        assert 0 == relay.hub.load().streams


async def test_of_many_requests_that_replace_one_is_left(log):
    async with serve_upstream() as upstream, serve_relay(upstream, log=log) as relay:
        upstream.script = HELD
        streams = await asyncio.gather(
            *(start(relay, chat="c", overlap="replace") for _ in range(20))
        )

        found = [await show(relay, stream) for stream in streams]
        assert ["cancelled"] * 19 + ["running"] == sorted(one["status"] for one in found)


async def test_stream_that_does_not_end_is_not_replaced(monkeypatch):
    async def does_nothing(*_: object) -> bool:
        return True

    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = HELD
        first = await start(relay, chat="c")
        monkeypatch.setattr(Runs, "cancel", does_nothing)
        reply = await post(relay, chat="c", overlap="replace")
        assert (409, first) == (reply.status_code, reply.json()["stream"])
        assert 1 == relay.hub.load().streams
        monkeypatch.undo()


async def test_request_with_the_same_key_is_no_second_one():
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = HELD
        for overlap in ("refuse", "replace"):
            key = {"idempotency-key": overlap}
            one = await start(relay, chat=overlap, overlap=overlap, headers=key)
            assert one == await start(relay, chat=overlap, overlap=overlap, headers=key)
            assert "running" == (await show(relay, one))["status"]


@pytest.mark.parametrize("path", BODIES)
async def test_every_format_takes_the_wish_in_headers(path):
    own = path in ("/v1/ui/chat", "/v1/ag-ui")
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = HELD
        first = await start(relay, chat="c")
        chat = {} if own else {"seseragi-chat": "c"}
        reply = await post(relay, path, headers={**chat, "seseragi-overlap": "refuse"})
        # The SDKs of OpenAI and Anthropic retry a 409.
        status = 409 if own or path == "/v1/chat" else 400
        assert (status, True) == (reply.status_code, first in reply.text)
        assert first == reply.headers["stream-id"]
        second = await start(relay, path, headers={**chat, "seseragi-overlap": "replace"})
        assert "cancelled" == (await show(relay, first))["status"]

        assert 204 == (await relay.client.post("/v1/ui/chat/c/stop")).status_code
        assert "cancelled" == (await show(relay, second))["status"]


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        ("/v1/chat/completions", {"chat": "c", "overlap": "refuse"}, 400),
        ("/v1/ui/chat", {"overlap": "refuse"}, 409),
        ("/v1/ag-ui", {"forwardedProps": {"overlap": "refuse"}}, 409),
    ],
)
async def test_formats_with_our_fields_take_it_in_the_body(path, fields, status):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = HELD
        first = await start(relay, path, **fields)
        reply = await post(relay, path, **fields)
        assert (status, first) == (reply.status_code, reply.headers["stream-id"])
        await until(lambda: len(upstream.calls) == 1)
        assert not {"chat", "overlap"} & upstream.calls[0].json.keys()


@pytest.mark.parametrize(
    ("path", "fields", "headers", "reason"),
    [
        ("/v1/chat", {"overlap": "refuse"}, {}, "overlap: the request names no `chat`"),
        ("/v1/chat", {"chat": "c", "overlap": "stop"}, {}, "overlap: invalid enum value 'stop'"),
        ("/v1/chat", {"chat": ""}, {}, "chat: expected `str` of length >= 1"),
        ("/v1/chat", {}, {"seseragi-chat": "c" * 256}, "chat: expected `str` of length <= 255"),
        ("/v1/messages", {}, {"seseragi-overlap": "replace"}, "overlap: the request names no"),
        ("/v1/ui/chat", {"chat": "d"}, {}, "chat: the request names another"),
    ],
)
async def test_wish_that_cannot_be_kept_is_refused(path, fields, headers, reason):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        reply = await post(relay, path, headers=headers, **fields)
        assert 400 == reply.status_code
        assert reason in reply.text
        assert not upstream.calls


async def test_chat_belongs_to_its_owner_and_is_in_the_list_of_streams():
    async with (
        serve_upstream() as upstream,
        serve_asked(upstream, default_model="openai/m") as asked,
    ):
        upstream.script = HELD
        body = {**HELLO, "chat": "c", "overlap": "refuse"}
        headers = {"prefer": "respond-async"}
        for who, status in (("ann", 202), ("backend", 202), ("ann", 409)):
            reply = await asked.by(who, "POST", "/v1/chat", json=body, headers=headers)
            assert status == reply.status_code, reply.text

        page = (await asked.by("ann", "GET", "/v1/streams?metadata=chat:c")).json()
        assert [{"chat": "c"}] == [one["metadata"] for one in page["data"]]
