"""Watches over two replicas: of Redis, or of one SQLite file."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.eventlog.sqlite.database import prepare
from app.testing.upstream import (
    DONE,
    FINISH,
    Hold,
    Step,
    Upstream,
    head,
    send,
    serve_upstream,
    text,
    wait,
)
from tests.api.asking import Asked, serve_asked
from tests.serving import HELLO
from tests.watching import Told, watching

pytestmark = pytest.mark.proving

SLOW: list[Step] = [
    head(),
    *(step for n in "abcdefgh" for step in (send(text(n)), wait(0.03))),
    send(FINISH + DONE),
]


@pytest.fixture(params=["redis", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        url: str = request.getfixturevalue("redis").url
        return url
    prepare(tmp_path / "log.db", now=time.time())
    return f"sqlite:///{tmp_path}/log.db"


@asynccontextmanager
async def replicas(place: str) -> AsyncIterator[tuple[Asked, Asked, Upstream]]:
    async with (
        serve_upstream() as upstream,
        serve_asked(upstream, log=place, workers=2, default_model="openai/m") as first,
        serve_asked(upstream, log=place, workers=2, default_model="openai/m") as second,
    ):
        upstream.script = SLOW
        yield first, second, upstream


async def start(asked: Asked, *, who: str = "ann") -> str:
    headers = {"prefer": "respond-async"}
    reply = await asked.by(who, "POST", "/v1/chat", json=HELLO, headers=headers)
    return str(reply.headers["stream-id"])


async def test_another_replica_tells_within_a_second(place: str):
    async with (
        replicas(place) as (first, second, upstream),
        watching(second.relay.client) as watched,
    ):
        upstream.script = [head(), send(text("a")), Hold()]
        await watched.until("watch.ready")
        for _ in range(4):
            await start(first, who="backend")
            began = time.monotonic()
            stream = await start(first)
            await watched.until("stream.started", stream=stream)
            assert time.monotonic() - began < 1
            began = time.monotonic()
            await first.by("ann", "POST", f"/v1/streams/{stream}/cancel")
            await watched.until("stream.ended", stream=stream)
            assert time.monotonic() - began < 1
        assert {"watch.ready"} == {one["type"] for one in watched.told if "stream" not in one}
        own = {
            one["stream"] for one in (await second.by("ann", "GET", "/v1/streams")).json()["data"]
        }
        assert own == {one["stream"] for one in watched.told if "stream" in one}


async def test_watch_that_goes_from_replica_to_replica_tells_each_event_once(place: str):
    dice = random.Random(56)
    async with replicas(place) as both_and_upstream:
        both = both_and_upstream[:2]
        async with watching(both[0].relay.client, "?events=true") as watched:
            await watched.until("watch.ready")
            at = watched.id

        async def start_some() -> list[str]:
            streams = []
            for number in range(20):
                streams.append(await start(both[number % 2]))
                await asyncio.sleep(0.03)
            return streams

        starting = asyncio.create_task(start_some())
        told: list[Told] = []
        ended = 0
        while not starting.done() or ended < 20:
            client = dice.choice(both).relay.client
            async with watching(client, "?events=true", after=at) as watched:
                for _ in range(dice.choice((2, 5, 40))):
                    if starting.done() and ended == 20:
                        break
                    event = await watched.take()
                    assert event is not None
                    at = watched.id
                    told += [event] if "stream" in event else []
                    ended += event["type"] == "stream.ended"
        for stream in starting.result():
            whole = await both[0].by("ann", "GET", f"/v1/streams/{stream}/events")
            data = [line[6:] for line in whole.text.splitlines() if line.startswith("data: ")]
            expected = [{"stream": stream, **json.loads(one)} for one in data]
            own = [one for one in told if one["stream"] == stream]
            assert "stream.ended" == own.pop()["type"]
            starts = [one for one in own if one["type"] == "stream.started"]
            assert len(starts) <= 1
            assert expected == [one for one in own if one["type"] != "stream.started"]
