"""`Prefer: respond-async`: where the stream is, once it is sure to be there."""

import asyncio
from typing import Any

import pytest

from app.errors import RequestError, ServiceError
from tests.api.asking import altering
from tests.serving import HELLO, serve_relay

ASYNC = {"prefer": "respond-async"}


async def test_id_is_told_once_the_log_has_the_first_event():
    """A log that dies before that lets go of the stream: who was told its id finds nothing."""
    asked, room = asyncio.Event(), asyncio.Event()

    async def wait(real: Any, *arguments: Any) -> None:
        asked.set()
        await room.wait()
        await real(*arguments)

    async with serve_relay(wrap_log=altering(append=wait)) as relay:
        posting = asyncio.create_task(relay.client.post("/v1/chat", json=HELLO, headers=ASYNC))
        await asked.wait()
        _, pending = await asyncio.wait({posting}, timeout=0.1)
        assert {posting} == pending
        room.set()
        reply = await posting

        assert 202 == reply.status_code
        assert 200 == (await relay.client.get(reply.headers["location"])).status_code


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ServiceError("internal", "the disk is full"), (500, "internal")),
        # Another replica has ended it, while this one slept.
        (RequestError("stream_expired", "it is gone"), (503, "overloaded")),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("headers", [ASYNC, {}])
async def test_stream_that_cannot_begin_is_refused(error, told, stream, headers):
    async def fail(*_: Any) -> None:
        raise error

    async with serve_relay(wrap_log=altering(append=fail)) as relay:
        body = {**HELLO, "stream": stream}
        reply = await relay.client.post("/v1/chat", json=body, headers=headers)

        assert told == (reply.status_code, reply.json()["code"])


@pytest.mark.parametrize("key", [None, "one"])
async def test_stream_is_found_where_it_was_said_to_be(key):
    headers = ASYNC if key is None else {**ASYNC, "idempotency-key": key}
    async with serve_relay(demo_pace=0) as relay:
        reply = await relay.client.post("/v1/chat", json=HELLO, headers=headers)
        events = await relay.client.get(reply.json()["events_url"])

        assert reply.headers["stream-id"] == reply.json()["id"]
        assert "event: stream.end" in events.text
