"""`Prefer: respond-async`: where the stream is, once it is sure to be there."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from app.errors import RequestError, ServiceError
from app.eventlog import EventLog
from tests.serving import HELLO, serve_relay

ASYNC = {"prefer": "respond-async"}


class Appending:
    """An event log that appends as the test says."""

    def __init__(self, log: EventLog, append: Callable[..., Awaitable[None]]) -> None:
        self.log, self.append = log, append

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)


def appending(append: Callable[..., Awaitable[None]]) -> Any:
    """Return what wraps a log so that `append` is called with the log's own, and what it is given."""
    return lambda log: Appending(log, partial(append, log.append))


async def test_id_is_told_once_the_log_has_the_first_event():
    """A log that dies before that lets go of the stream: who was told its id finds nothing."""
    asked, room = asyncio.Event(), asyncio.Event()

    async def wait(real: Any, *arguments: Any) -> None:
        asked.set()
        await room.wait()
        await real(*arguments)

    async with serve_relay(wrap_log=appending(wait)) as relay:
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
async def test_stream_that_cannot_begin_is_refused(error, told):
    async def fail(*_: Any) -> None:
        raise error

    async with serve_relay(wrap_log=appending(fail)) as relay:
        reply = await relay.client.post("/v1/chat", json=HELLO, headers=ASYNC)

        assert told == (reply.status_code, reply.json()["code"])


@pytest.mark.parametrize("key", [None, "one"])
async def test_stream_is_found_where_it_was_said_to_be(key):
    headers = ASYNC if key is None else {**ASYNC, "idempotency-key": key}
    async with serve_relay(demo_pace=0) as relay:
        reply = await relay.client.post("/v1/chat", json=HELLO, headers=headers)
        events = await relay.client.get(reply.json()["events_url"])

        assert reply.headers["stream-id"] == reply.json()["id"]
        assert "event: stream.end" in events.text
