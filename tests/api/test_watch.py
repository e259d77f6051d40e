"""`GET /v1/streams/watch`: what happens to one owner's streams, told once, and read on by an id."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from app.errors import ServiceError
from app.eventlog.listing import ListedStream
from app.generation.watching import WatchReady
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
from tests.api.asking import Asked, altering, serve_asked
from tests.serving import HELLO, serve_relay
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
        assert {tea} == {one["stream"] for one in watched.told if "stream" in one}


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


async def test_stream_that_went_while_the_watcher_was_away_is_told_as_removed(asked: Asked):
    stream = await start(asked)
    async with watching(asked.relay.client, "?events=true") as watched:
        await watched.until("text.delta")
        at = watched.id
    assert f"~{stream}." in at
    await asked.by("ann", "DELETE", f"/v1/streams/{stream}")
    async with watching(asked.relay.client, "?events=true", after=at) as watched:
        await watched.until("watch.ready", running=[])
        assert [("stream.removed", stream)] == told_of(watched.told)
        assert stream not in watched.id


async def test_more_streams_than_are_read_at_once_are_all_told(
    asked: Asked, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("app.generation.watching.MAX_READ", 2)
    streams = [await start(asked) for _ in range(5)]
    await until(lambda: len(upstream.calls) == 5)
    async with watching(asked.relay.client, "?events=true") as watched:
        await watched.until("watch.ready")
        await until_told(watched, "text.delta", streams[:2])
        assert watched.id.count("~") == 2
        await cancel(asked, streams[4])  # it had no place
        await watched.until("stream.ended", stream=streams[4])
        await cancel(asked, streams[0])
        await watched.until("stream.ended", stream=streams[0])
        await until_told(watched, "text.delta", streams[:3])
        told = watched.told
    assert ["stream.started", "stream.start"] == [
        one["type"] for one in told if one.get("stream") == streams[4]
    ][:2]
    assert {*streams[:3], streams[4]} == {
        one["stream"] for one in told if one["type"] == "text.delta"
    }


async def until_told(watched: Any, type: str, streams: list[str]) -> None:
    while not set(streams) <= {one["stream"] for one in watched.told if one["type"] == type}:
        assert await watched.take() is not None


@pytest.mark.parametrize("query", ["", "?events=true"])
async def test_watch_with_events_keeps_a_stream_running(upstream: Upstream, query: str):
    async with (
        serve_asked(upstream, default_model="openai/m", linger_s=0.1) as asked,
        watching(asked.relay.client, query) as watched,
    ):
        headers = {"authorization": "Bearer ann"}
        async with asked.relay.client.stream("POST", "/v1/chat", json=HELLO, headers=headers):
            started = await watched.until("stream.started")
            await until(lambda: asked.relay.hub.load().readers == (2 if query else 1))
        if not query:
            await watched.until("stream.ended", stream=started["stream"], status="cancelled")
            return
        await asyncio.sleep(0.3)  # longer than it would linger
        assert asked.relay.hub.load().readers == 1
        assert started["stream"] in asked.relay.log.running()


async def test_thousand_watchers_cost_one_poll(upstream: Upstream):
    listed: list[str] = []

    async def list_streams(log_own: Any, owner: str, *arguments: Any, **options: Any) -> Any:
        listed.append(owner)
        return await log_own(owner, *arguments, **options)

    async with serve_asked(
        upstream,
        default_model="openai/m",
        wrap_log=altering(list_streams=list_streams),
        max_readers=1000,
        max_readers_per_address=1000,
    ) as asked:
        streams = asked.relay.hub.streams_of(asked.keys["ann"])
        watchers = [await streams.watch(None, "address", events=False) for _ in range(1000)]
        for watcher in watchers:
            assert isinstance(await watcher.next(), WatchReady)
        with pytest.raises(ServiceError, match="1000 watchers"):
            await streams.watch(None, "another", events=False)
        polls = len(listed)
        stream = await start(asked)
        for watcher in watchers:
            change = await watcher.next()
            assert isinstance(change, ListedStream)
            assert (stream, None) == (change.stream, change.status)
        assert len(listed) - polls <= 20, "each poll reads two parts"
        for watcher in watchers:
            watcher.leave()
        polls = len(listed)
        await asyncio.sleep(0.05)
        await start(asked)
        assert polls == len(listed)


async def test_watcher_that_takes_nothing_holds_up_nobody(asked: Asked, upstream: Upstream):
    streams = asked.relay.hub.streams_of(asked.keys["ann"])
    slow = await streams.watch(None, "address", events=True)
    async with watching(asked.relay.client, "?events=true") as watched:
        await watched.until("watch.ready")
        upstream.script = ENDS
        for _ in range(30):
            stream = await start(asked)
            await watched.until("stream.ended", stream=stream)
    assert len(slow._readers) <= 16
    slow.leave()


async def test_watcher_too_far_behind_has_to_come_back(
    asked: Asked, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("app.generation.watching.MAX_CHANGES", 12)
    upstream.script = ENDS
    streams = asked.relay.hub.streams_of(asked.keys["ann"])
    slow = await streams.watch(None, "address", events=False)
    ids = []
    async with watching(asked.relay.client) as watched:
        for _ in range(16):  # a start and an end may be one change
            ids.append(await start(asked))
            await watched.until("stream.ended", stream=ids[-1])
    ended: list[str] = []
    async with asyncio.timeout(20):
        while (item := await slow.next()) is not None:
            ended += [item.stream] if isinstance(item, ListedStream) and item.status else []
    slow.leave()
    assert len(ended) < 16
    async with watching(asked.relay.client, after=str(slow.cursor)) as watched:
        await watched.until("watch.ready")
        ended += [one["stream"] for one in watched.told if one["type"] == "stream.ended"]
    assert ids == ended


async def test_shutdown_ends_a_watch_whole_and_at_once(asked: Asked):
    async with watching(asked.relay.client) as watched:
        await watched.until("watch.ready")
        stopping = asyncio.create_task(asked.relay.hub.drain(20))
        assert await watched.take(within_s=1) is None
        assert watched.over
        reply = await asked.by(
            "ann", "GET", "/v1/streams/watch", headers={"accept": "text/event-stream"}
        )
        assert 200 == reply.status_code  # or EventSource would give up
        assert reply.text.startswith("retry: ")
        assert 503 == (await asked.by("ann", "GET", "/v1/streams/watch")).status_code
        stopping.cancel()


@pytest.mark.parametrize("by", ["credential", "bound"])
async def test_watch_ends_whole_with_its_credential_and_after_a_while(
    asked: Asked, by: str, monkeypatch: pytest.MonkeyPatch
):
    """A key may be revoked meanwhile: whoever comes back is asked again."""
    if by == "credential":
        expires_at = time.time() + 0.3
        asked.keys["ann"] = msgspec.structs.replace(asked.keys["ann"], expires_at=expires_at)
    else:
        monkeypatch.setattr("app.api.stream_watch.LONGEST_S", 0.3)
    async with watching(asked.relay.client) as watched:
        await watched.until("watch.ready")
        assert await watched.take(within_s=10) is None
        assert watched.over


async def test_json_lines(asked: Asked):
    stream = await start(asked)
    headers = {"authorization": "Bearer ann", "accept": "application/x-ndjson"}
    async with asked.relay.client.stream(
        "GET", "/v1/streams/watch?events=true", headers=headers
    ) as reply:
        assert "application/x-ndjson" == reply.headers["content-type"]
        lines = reply.aiter_lines()
        told: list[Told] = []
        while not {"watch.ready", "stream.start"} <= {one["type"] for one in told}:
            told.append(json.loads(await anext(lines)))
    assert ["stream.started", stream] == [told[0]["type"], told[0]["stream"]]
    assert all(one["event_id"].startswith("r") for one in told)


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("?after=st_1.5", "'st_1.5' is not the id of an event of a watch"),
        ("?after=r1e", "'r1e' is not"),
        ("?after=r1e2~st_1", "is not the id"),
        ("?after=r1e1" + "~st_1.1" * 33, "is not the id"),
        ("?events=1", "events: use 'true'"),
        ("?metadata=topic", "metadata: use"),
        ("?events=true&events=true", "events: the query has it 2 times"),
    ],
)
async def test_query_that_means_nothing_is_refused(asked: Asked, query: str, detail: str):
    reply = await asked.by("ann", "GET", f"/v1/streams/watch{query}")
    assert 400 == reply.status_code
    assert detail in reply.json()["detail"]


async def test_cursor_of_another_time_waits_for_nothing(asked: Asked):
    """As one of before a restart whose clock was ahead, or one that somebody has made up."""
    at = "r99999999999.0e99999999999.0~st_none.7"
    async with watching(asked.relay.client, "?events=true", after=at) as watched:
        await watched.until("watch.ready")
        assert [("stream.removed", "st_none")] == told_of(watched.told)
        assert "99999999999" not in watched.id
        stream = await start(asked)
        await watched.until("stream.started", stream=stream)


async def test_share_links_and_clients_without_an_owner_watch_nothing(asked: Asked):
    stream = await start(asked)
    reply = await asked.by("ann", "POST", f"/v1/streams/{stream}/share", json={})
    token = reply.json()["token"]
    assert 403 == (await asked.by("", "GET", f"/v1/streams/watch?token={token}")).status_code
    assert 403 == (await asked.by(token, "GET", "/v1/streams/watch")).status_code
    async with serve_relay(auth="none") as relay:
        refused = await relay.client.get("/v1/streams/watch")
        assert (403, "forbidden") == (refused.status_code, refused.json()["code"])
        assert "set [auth]" in refused.json()["detail"]


async def test_watches_count_among_the_readers_of_an_address(upstream: Upstream):
    async with (
        serve_asked(upstream, max_readers_per_address=2) as asked,
        watching(asked.relay.client),
        watching(asked.relay.client),
    ):
        reply = await asked.by("ann", "GET", "/v1/streams/watch")
        assert (429, "rate_limited") == (reply.status_code, reply.json()["code"])


async def test_log_that_cannot_be_read_for_a_while_delays_what_is_told(upstream: Upstream):
    fails = False

    async def list_streams(log_own: Any, *arguments: Any, **options: Any) -> Any:
        if fails:
            raise ServiceError("internal", "the event log could not be read")
        return await log_own(*arguments, **options)

    wrapped = altering(list_streams=list_streams)
    async with (
        serve_asked(upstream, default_model="openai/m", wrap_log=wrapped) as asked,
        watching(asked.relay.client) as watched,
    ):
        await watched.until("watch.ready")
        fails = True
        stream = await start(asked)
        assert 500 == (await asked.by("backend", "GET", "/v1/streams/watch")).status_code
        fails = False
        await watched.until("stream.started", stream=stream)


@pytest.mark.parametrize("tells", [True, False])
async def test_idle_watches_are_woken_by_one_look_of_the_process(upstream, monkeypatch, tells):
    """Lists are read for the owners that a log names, and for all where it cannot tell."""
    monkeypatch.setattr("app.generation.watching.POLL_S", 0.01)
    listed: list[str] = []
    looks = 0
    found: list[str] | tuple[()] | None = ()

    async def list_streams(log_own: Any, owner: str, *arguments: Any, **options: Any) -> Any:
        listed.append(owner)
        return await log_own(owner, *arguments, **options)

    async def changed_owners(_: Any, mark: float) -> Any:
        nonlocal looks, found
        looks += 1
        owners, found = found, ()
        return mark, owners

    wrapped = altering(list_streams=list_streams, changed_owners=changed_owners)
    async with serve_asked(upstream, default_model="openai/m", wrap_log=wrapped) as asked:
        watchers = []
        for name in ("ann", "plain", "narrow"):
            streams = asked.relay.hub.streams_of(asked.keys[name])
            watchers.append(await streams.watch(None, name, events=False))
            assert isinstance(await watchers[-1].next(), WatchReady)
        everybody = {*listed}
        listed.clear()
        looks, found = 0, [min(everybody)] if tells else None
        await until(lambda: looks > 10)
        expected = {min(everybody)} if tells else everybody
        assert sorted([*expected] * 2) == sorted(listed), "each poll reads two parts"
        for watcher in watchers:
            watcher.leave()
        looks = 0
        await asyncio.sleep(0.05)
        assert 0 == looks
