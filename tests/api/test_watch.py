"""`GET /v1/streams/watch`: what happens to one owner's streams, told once, and read on by an id."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

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
)
from tests.api.asking import Asked, serve_asked
from tests.serving import HELLO
from tests.waiting import until
from tests.watching import Told, watching

ENDS: list[Step] = [head(), send(text("a")), send(text("b") + FINISH + DONE)]
GOES_ON: list[Step] = [head(), send(text("a")), Hold()]


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with serve_upstream() as upstream:
        upstream.script = GOES_ON
        yield upstream


@pytest.fixture
async def asked(upstream: Upstream) -> AsyncIterator[Asked]:
    async with serve_asked(upstream, default_model="openai/m") as asked:
        yield asked


async def start(asked: Asked, *, who: str = "ann", **fields: Any) -> str:
    headers = {"prefer": "respond-async"}
    reply = await asked.by(who, "POST", "/v1/chat", json={**HELLO, **fields}, headers=headers)
    assert 202 == reply.status_code, reply.text
    return str(reply.headers["stream-id"])


async def cancel(asked: Asked, stream: str) -> None:
    await asked.by("ann", "POST", f"/v1/streams/{stream}/cancel")


def told_of(told: list[Told]) -> list[tuple[str, str]]:
    return [(one["type"], one["stream"]) for one in told if one["type"] != "watch.ready"]


async def test_starts_and_ends_are_told_as_the_list_has_them(asked: Asked):
    first = await start(asked, metadata={"topic": "tea"})
    async with watching(asked.relay.client) as watched:
        reply = watched.reply
        assert "no-store, no-transform" == reply.headers["cache-control"]
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert {"type": "watch.ready", "running": [first]} == await watched.until("watch.ready")
        second = await start(asked)
        await start(asked, who="backend")
        await watched.until("stream.started", stream=second)
        await cancel(asked, first)
        await watched.until("stream.ended")
        assert [
            ("stream.started", first),
            ("stream.started", second),
            ("stream.ended", first),
        ] == told_of(watched.told)
        listed = {
            one["stream"]: one
            for one in (await asked.by("ann", "GET", "/v1/streams")).json()["data"]
        }
        for one in (watched.told[-2], watched.told[-1]):
            assert {k: v for k, v in one.items() if k != "type"} == listed[one["stream"]]
        assert {"topic": "tea"} == watched.told[0]["metadata"]
        assert ("running", "cancelled") == (watched.told[0]["status"], watched.told[-1]["status"])


async def test_starts_are_told_at_once(asked: Asked, monkeypatch: pytest.MonkeyPatch):
    """Not by the next poll: those are for other processes."""
    monkeypatch.setattr("app.generation.watching.POLL_S", 60)
    async with watching(asked.relay.client) as watched:
        await watched.until("watch.ready")
        stream = await start(asked)
        await watched.until("stream.started", stream=stream)
        await cancel(asked, stream)
        await watched.until("stream.ended", stream=stream)


async def test_metadata_selects(asked: Asked):
    async with watching(asked.relay.client, "?metadata=topic:tea") as watched:
        await watched.until("watch.ready")
        other, tea = (
            await start(asked, metadata={"topic": "no"}),
            await start(asked, metadata={"topic": "tea"}),
        )
        for stream in (other, tea):
            await cancel(asked, stream)
        await watched.until("stream.ended", stream=tea)
        assert [("stream.started", tea), ("stream.ended", tea)] == told_of(watched.told)


async def test_stream_that_is_deleted_is_told_as_gone(asked: Asked):
    stream = await start(asked)
    async with watching(asked.relay.client) as watched:
        await watched.until("watch.ready")
        await asked.by("ann", "DELETE", f"/v1/streams/{stream}")
        while (await watched.take() or {})["type"] not in ("stream.removed", "stream.ended"):
            pass
    async with watching(asked.relay.client) as watched:
        assert {"type": "watch.ready", "running": []} == await watched.take()


async def test_what_happened_meanwhile_is_told_by_its_end(asked: Asked, upstream: Upstream):
    first = await start(asked)
    async with watching(asked.relay.client) as watched:
        await watched.until("watch.ready")
        at = watched.id
    await cancel(asked, first)
    upstream.script = ENDS
    second = await start(asked)

    async def has_ended() -> bool:
        page = (await asked.by("ann", "GET", "/v1/streams?status=ended")).json()
        return len(page["data"]) == 2

    await until(has_ended)
    upstream.script = GOES_ON
    third = await start(asked)
    async with watching(asked.relay.client, after=at) as watched:
        assert [third] == (await watched.until("watch.ready"))["running"]
        assert [
            ("stream.started", third),
            ("stream.ended", first),
            ("stream.ended", second),
        ] == told_of(watched.told)
        at = watched.id
    async with watching(asked.relay.client, f"?lastEventId={at}") as watched:
        await watched.until("watch.ready")
        assert [] == told_of(watched.told)


async def told_with_cuts(asked: Asked, query: str, at: str, *, most: int, ends: int) -> list[Told]:
    """Watch by connections that are cut after so many events, up to so many ends."""
    told: list[Told] = []
    while sum(one["type"] == "stream.ended" for one in told) < ends:
        async with watching(asked.relay.client, query, after=at) as watched:
            for _ in range(most):
                if sum(one["type"] == "stream.ended" for one in told) == ends:
                    break
                event = await watched.take()
                assert event is not None
                at = watched.id
                if event["type"] != "watch.ready":
                    told.append(event)
                else:
                    most = max(most, 2)  # a connection has to come further than this
    return told


@pytest.mark.parametrize("most", [1, 2, 3, 5])
async def test_watch_that_is_cut_at_any_event_tells_each_once(
    asked: Asked, upstream: Upstream, most: int
):
    async with watching(asked.relay.client, "?events=true") as watched:
        await watched.until("watch.ready")
        at = watched.id
    go_on = asyncio.Event()
    upstream.script = [head(), send(text("a")), Until(go_on), send(text("b") + FINISH + DONE)]
    streams = [await start(asked) for _ in range(3)]
    asyncio.get_running_loop().call_later(0.3, go_on.set)
    told = await told_with_cuts(asked, "?events=true", at, most=most, ends=3)

    for stream in streams:
        whole = await asked.by("ann", "GET", f"/v1/streams/{stream}/events")
        data = [line[6:] for line in whole.text.splitlines() if line.startswith("data: ")]
        expected = [{"stream": stream, **json.loads(one)} for one in data]
        own = [one for one in told if one["stream"] == stream]
        assert "stream.ended" == own[-1]["type"]
        changes = [one["type"] for one in own if one["type"] in ("stream.started", "stream.ended")]
        assert changes in (["stream.started", "stream.ended"], ["stream.ended"])
        events = [one for one in own if one["type"] not in ("stream.started", "stream.ended")]
        assert expected == events
