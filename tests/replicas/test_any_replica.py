"""Two replicas over one Redis, or one SQLite file: whatever a client asks, either will do."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Response

from app.eventlog.sqlite.database import prepare
from app.events import Event
from app.framing.sse import Decoder, Message
from app.testing.upstream import (
    DONE,
    FINISH,
    Hold,
    Step,
    Until,
    Upstream,
    head,
    send,
    serve_upstream,
    text,
    wait,
)
from tests.serving import (
    HELLO,
    Relay,
    events_of,
    read_messages,
    serve_relay,
    text_of,
    text_so_far,
    until,
)

pytestmark = pytest.mark.proving

SLOW: list[Step] = [
    head(),
    *(step for n in "abcdefgh" for step in (send(text(n)), wait(0.05))),
    send(FINISH + DONE),
]
HELD: list[Step] = [head(), send(text("a")), send(text("b")), Hold()]


@pytest.fixture(params=["redis", "sqlite"])
def place(request, tmp_path: Path) -> str:
    """The URL of a log that is empty and can be shared."""
    if request.param == "redis":
        url: str = request.getfixturevalue("redis").url
        return url
    prepare(tmp_path / "log.db", now=time.time())
    return f"sqlite:///{tmp_path}/log.db"


@asynccontextmanager
async def replicas(
    place: str, script: list[Step], *, lease_s: float = 15, **settings: Any
) -> AsyncIterator[tuple[Relay, Relay, Upstream]]:
    log = f"{place}?lease_s={lease_s}" if place.startswith("redis") else place
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, log=log, workers=2, **settings) as first,
        serve_relay(upstream, log=log, workers=2, **settings) as second,
    ):
        upstream.script = script
        yield first, second, upstream


async def start(relay: Relay, **fields: Any) -> str:
    reply = await relay.client.post(
        "/v1/chat", json={**HELLO, **fields}, headers={"prefer": "respond-async"}
    )
    stream: str = reply.json()["id"]
    return stream


async def read(
    relay: Relay, stream: str, after: str | None = None, *, caught_up: asyncio.Event | None = None
) -> list[Message]:
    """Read to the end; `caught_up` is set once the text of `HELD` has come."""
    headers = {"last-event-id": after} if after else {}
    async with relay.client.stream("GET", f"/v1/streams/{stream}/events", headers=headers) as reply:
        assert reply.status_code == 200, await reply.aread()
        decoder, messages = Decoder(), []
        async for chunk in reply.aiter_bytes():
            messages += decoder.feed(chunk)
            if caught_up is not None and text_of(events_of(messages)) == "ab":
                caught_up.set()
        assert decoder.close() is None
        return messages


async def test_reader_that_moves_to_and_fro_sees_every_event_once(place):
    async with replicas(place, SLOW) as (first, second, _):
        stream = await start(first)
        seen: list[Message] = []
        for turn in range(20):
            relay = (second, first)[turn % 2]
            headers = {"last-event-id": seen[-1].id} if seen else {}
            decoder = Decoder()
            async with relay.client.stream(
                "GET", f"/v1/streams/{stream}/events", headers=headers
            ) as reply:
                before = len(seen)
                async for chunk in reply.aiter_bytes():
                    seen += decoder.feed(chunk)
                    if len(seen) > before:
                        break
            if seen[-1].event == "stream.end":
                break
        whole = await read(second, stream)

        assert whole == seen
        assert [f"{stream}.{n + 1}" for n in range(len(whole))] == [m.id for m in whole]


@pytest.mark.parametrize("how", ["cancel", "delete"])
async def test_stop_on_another_replica_closes_the_upstream(place, how):
    async with replicas(place, HELD) as (first, second, upstream):
        stream = await start(first)
        caught_up = asyncio.Event()  # a reader that lags behind a DELETE is cut off
        reading = asyncio.create_task(read(second, stream, caught_up=caught_up))
        await asyncio.wait_for(caught_up.wait(), 20)
        if how == "cancel":
            reply = await second.client.post(f"/v1/streams/{stream}/cancel")
            assert (202, "cancelled") == (reply.status_code, reply.json()["status"])
        else:
            reply = await second.client.delete(f"/v1/streams/{stream}")
            assert 204 == reply.status_code
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)

        assert "cancelled" == events_of(await reading)[-1]["status"]
        if how == "delete":
            assert 410 == (await second.client.get(f"/v1/streams/{stream}")).status_code
            await until(first, stream, lambda reply: reply.status_code == 410)


async def test_one_of_many_requests_with_a_key_starts_a_generation(place):
    async with replicas(place, SLOW) as (first, second, upstream):

        async def post(relay: Relay) -> tuple[str, list[Message]]:
            async with relay.client.stream(
                "POST", "/v1/chat", json=HELLO, headers={"idempotency-key": "k"}
            ) as reply:
                assert reply.status_code == 200, await reply.aread()
                return reply.headers["stream-id"], await read_messages(reply)

        answers = await asyncio.gather(*(post(relay) for relay in (first, second) * 10))

        assert all(answer == answers[0] for answer in answers)
        assert 1 == len(upstream.calls)
        other = {**HELLO, "temperature": 1}
        reply = await second.client.post("/v1/chat", json=other, headers={"idempotency-key": "k"})
        assert 422 == reply.status_code


def told_of_reads(relay: Relay) -> asyncio.Event:
    """Return what is set when the relay has read events in its log."""
    log, done = relay.log, asyncio.Event()
    read = log.read

    async def telling(*arguments: Any, **options: Any) -> Sequence[Event]:
        events = await read(*arguments, **options)
        if events:
            done.set()
        return events

    log.read = telling  # type: ignore[method-assign]
    return done


async def test_failure_of_a_stream_elsewhere_is_an_http_status(place):
    """It fails when the other has found it by its key; before, that would be free again."""
    over = Until()
    refused: list[Step] = [over, head("500 Oops", "application/json"), send("{}")]
    async with replicas(place, refused) as (first, second, upstream):

        def post(relay: Relay) -> "asyncio.Task[Response]":
            headers = {"idempotency-key": "k"}
            return asyncio.create_task(relay.client.post("/v1/chat", json=HELLO, headers=headers))

        here = post(first)
        await asyncio.wait_for(upstream.called.wait(), 20)
        found = told_of_reads(second)
        there = post(second)
        await asyncio.wait_for(found.wait(), 20)
        over.told.set()
        replies = [await here, await there]

        assert [502, 502] == [reply.status_code for reply in replies]
        assert replies[0].headers["stream-id"] == replies[1].headers["stream-id"]


async def test_post_sent_again_to_another_replica_reads_on(place):
    async with replicas(place, SLOW) as (first, second, upstream):
        stream = await start(first)
        whole = await read(first, stream)
        async with second.client.stream(
            "POST", "/v1/chat", json=HELLO, headers={"last-event-id": whole[3].id}
        ) as reply:
            assert whole[4:] == await read_messages(reply)
        assert 1 == len(upstream.calls)


async def test_chat_is_found_and_stopped_on_another_replica(place):
    message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    chat = "/v1/ui/chat/a%20chat"
    async with (
        replicas(place, HELD) as (first, second, upstream),
        first.client.stream(
            "POST", "/v1/ui/chat", json={"id": "a chat", "messages": [message]}
        ) as reply,
        second.client.stream("GET", f"{chat}/stream") as again,
    ):
        assert (200, 200) == (reply.status_code, again.status_code)
        assert 204 == (await second.client.post(f"{chat}/stop")).status_code
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)

        assert await reply.aread() == await again.aread()


async def test_one_of_many_refused_requests_runs_over_all_replicas(place):
    async with replicas(place, HELD) as (first, second, upstream):

        async def post(relay: Relay, overlap: str) -> Response:
            body = {**HELLO, "chat": "a chat", "overlap": overlap}
            headers = {"prefer": "respond-async"}
            return await relay.client.post("/v1/chat", json=body, headers=headers)

        relays = (first, second) * 10
        replies = await asyncio.gather(*(post(relay, "refuse") for relay in relays))

        (stream,) = [reply.json()["id"] for reply in replies if reply.status_code == 202]
        busy = [reply for reply in replies if reply.status_code == 409]
        assert (19, {stream}) == (len(busy), {reply.json()["stream"] for reply in busy})
        await text_so_far(first, stream, "ab")
        assert 1 == len(upstream.calls)

        replies = await asyncio.gather(*(post(relay, "replace") for relay in relays))
        assert [202] * 20 == [reply.status_code for reply in replies]
        streams = [stream, *(reply.json()["id"] for reply in replies)]
        found = [(await second.client.get(f"/v1/streams/{one}")).json() for one in streams]
        assert ["cancelled"] * 20 + ["running"] == sorted(one["status"] for one in found)


async def test_replaced_stream_of_another_replica_ends_before_the_next_begins(place):
    async with replicas(place, HELD) as (first, second, upstream):
        stream = await start(first, chat="a chat")
        await text_so_far(first, stream, "ab")
        body = {**HELLO, "chat": "a chat", "overlap": "replace"}
        async with second.client.stream("POST", "/v1/chat", json=body):
            found = (await second.client.get(f"/v1/streams/{stream}")).json()
        assert ("cancelled", "user", "ab") == (found["status"], found["ended_by"], found["text"])
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)


async def test_reader_elsewhere_keeps_a_stream_alive(place):
    # Readers are believed to be there for as long as a lease.
    async with replicas(place, HELD, lease_s=3, linger_s=0.5) as (first, second, upstream):
        async with first.client.stream("POST", "/v1/chat", json=HELLO) as reply:
            stream = reply.headers["stream-id"]
            reading = asyncio.create_task(read(second, stream))
            await text_so_far(second, stream, "ab")
        await asyncio.sleep(4)  # the POST's reader has gone
        assert not upstream.calls[0].closed.is_set()
        reading.cancel()

        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)
        await until(second, stream, lambda reply: reply.json()["status"] == "cancelled")


async def test_two_replicas_tell_of_a_stream_alike(place):
    async with replicas(place, SLOW) as (first, second, _):
        stream = await start(first)
        await asyncio.gather(read(first, stream), read(second, stream))
        for path in (f"/v1/streams/{stream}", f"/v1/streams/{stream}/events?format=openai_chat"):
            here, there = [await relay.client.get(path) for relay in (first, second)]

            assert here.content == there.content
        for relay in (first, second):
            for unknown in ("st_unknown", "{}", "a%0Ab", "%F0%9F%90%A2"):
                reply = await relay.client.get(f"/v1/streams/{unknown}")
                assert (404, "not_found") == (reply.status_code, json.loads(reply.content)["code"])
