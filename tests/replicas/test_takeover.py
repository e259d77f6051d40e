"""Relays that die in the middle of answers, and others that go on with their streams.

The provider's books are those of a fake that stores what it is asked to, as the real one does: an
answer that nobody reads goes on, and costs once.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from app.testing.upstream import (
    LAST_CHUNK,
    Call,
    Step,
    Upstream,
    chunk,
    chunked_head,
    reply,
    serve_upstream,
    wait,
)
from tests.replicas.processes import (
    Reader,
    Replica,
    browser,
    children,
    holds_connection,
    start,
)
from tests.waiting import until

pytestmark = pytest.mark.proving

Json = dict[str, Any]
LEASE_S = 1.0
PIECES = [f"{number} " for number in range(60)]
TEXT = "".join(PIECES)
STORED = '[upstream.u]\ndialect = "openai_responses"\nresume = true\nmodels = ["m-1"]\n'
PLAIN = '[upstream.u]\ndialect = "openai_chat"\nmodels = ["m-1"]\n'
ROUTE = '[[route]]\nname = "r"\ntargets = ["u/m-1"]\ntakeover = true\n'
RESCUED = f"{ROUTE}rescue = true\n"
USAGE = {"input_tokens": 7, "output_tokens": 61, "total_tokens": 68}


def stored_answer() -> list[bytes]:
    """Return the events of an answer of the Responses API."""
    about = {"id": "resp_1", "object": "response", "model": "m-1"}
    item = {"type": "message", "id": "m1", "role": "assistant", "content": []}
    place = {"output_index": 0, "content_index": 0}
    events: list[Json] = [
        {"type": "response.created", "response": {**about, "status": "queued"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({"type": "response.output_text.delta", **place, "delta": piece} for piece in PIECES),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {
            "type": "response.completed",
            "response": {**about, "status": "completed", "output": [], "usage": USAGE},
        },
    ]
    return [
        b"event: %b\ndata: %b\n\n"
        % (event["type"].encode(), json.dumps({**event, "sequence_number": at}).encode())
        for at, event in enumerate(events)
    ]


class Storing:
    """A provider that stores its answers: one at a time, and each goes on without a reader."""

    def __init__(self, upstream: Upstream, *, keeps: bool = True) -> None:
        self.events = stored_answer()
        self.posts = 0
        self.reads: list[dict[str, str]] = []
        self.cancelled = 0
        self._keeps = keeps
        upstream.choose, upstream.choose_models = self._post, self._get

    def was_read(self, times: int) -> bool:
        return len(self.reads) == times

    def _post(self, call: Call) -> Sequence[Step]:
        if call.path.endswith("/cancel"):
            self.cancelled += 1
            return reply("200 OK", "{}")
        assert call.json["background"]
        self.posts += 1
        return self._play(0)

    def _get(self, call: Call) -> Sequence[Step]:
        query = dict(parse_qsl(urlsplit(call.path).query))
        self.reads.append(query)
        if not self._keeps:
            return reply("404 Not Found", '{"error": {"message": "no such response"}}')
        return self._play(int(query.get("starting_after", -1)) + 1)

    def _play(self, at: int) -> list[Step]:
        steps: list[Step] = [chunked_head()]
        for event in self.events[at:]:
            steps += [chunk(event), wait(0.04)]
        return [*steps, LAST_CHUNK]


class Talking:
    """A provider of Chat Completions that goes on with the last turn, and keeps its books."""

    def __init__(self, upstream: Upstream) -> None:
        self.asked: list[Json] = []
        upstream.choose = self._post

    def _post(self, call: Call) -> Sequence[Step]:
        body = call.json
        self.asked.append(body)
        said = "".join(m["content"] for m in body["messages"] if m["role"] == "assistant")
        left = PIECES[len(said.split()) :]
        steps: list[Step] = [chunked_head()]
        for piece in left:
            steps += [chunk(_delta(piece)), wait(0.04)]
        usage = {"prompt_tokens": 7, "completion_tokens": len(left), "total_tokens": 7 + len(left)}
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
        return [*steps, chunk(_data(last)), chunk("data: [DONE]\n\n"), LAST_CHUNK]


def _delta(content: str) -> str:
    return _data({"choices": [{"index": 0, "delta": {"content": content}}]})


def _data(body: Json) -> str:
    return f"data: {json.dumps({'id': 'c1', 'model': 'm-1', **body})}\n\n"


@asynccontextmanager
async def replicas_of(
    count: int, folder: Path, log: str, *tables: str, **settings: object
) -> AsyncIterator[tuple[list[Replica], Upstream]]:
    async with serve_upstream() as upstream:
        config = folder / "seseragi.toml"
        base_url = f'base_url = "{upstream.base_url}"\n'
        config.write_text("".join(tables).replace("dialect =", f"{base_url}dialect ="))
        settings = {"config": config, "auth": "none", "drain_s": 0.3, **settings}
        replicas = [Replica(folder, log, **settings) for _ in range(count)]
        try:
            await asyncio.gather(*(replica.start() for replica in replicas))
            yield replicas, upstream
        finally:
            await asyncio.gather(*(replica.kill() for replica in replicas))
        for replica in replicas:
            assert not [line for line in replica.said if "Traceback" in line], replica.said


def text_of(reader: Reader) -> str:
    events = [json.loads(message.data) for message in reader.seen]
    return "".join(one["text"] for one in events if one["type"] == "text.delta")


def notices(reader: Reader) -> list[str]:
    events = [json.loads(message.data) for message in reader.seen]
    return [one["code"] for one in events if one["type"] == "notice"]


def has_no_gap(reader: Reader) -> bool:
    ids = [message.id for message in reader.seen]
    return ids == [f"{reader.stream}.{number}" for number in range(1, len(ids) + 1)]


async def read_some(reader: Reader, replica: Replica, count: int) -> asyncio.Task[None]:
    reading = asyncio.create_task(reader.read(replica))
    await reader.has_seen(count)
    return reading


async def test_a_stored_answer_goes_on_at_another_replica(redis, tmp_path):
    log = f"{redis.url}?lease_s={LEASE_S}"
    async with (
        replicas_of(2, tmp_path, log, STORED, ROUTE) as ((one, other), upstream),
        browser() as client,
    ):
        provider = Storing(upstream)
        stream = await start(client, one, "r")
        reader, beside = Reader(client, stream), Reader(client, stream)
        reading = await read_some(reader, one, 20)
        looking = await read_some(beside, other, 20)
        await one.kill()
        await reading
        await reader.read_all([other])
        await looking
        await beside.read_all([other])

    assert TEXT == text_of(reader) == text_of(beside)
    assert ["takeover"] == notices(reader)
    assert "completed" == reader.end["status"]
    assert 61 == reader.end["usage"]["output_tokens"]
    assert has_no_gap(reader)
    assert [one.data for one in reader.seen] == [one.data for one in beside.seen]
    assert (1, 0) == (provider.posts, provider.cancelled)
    assert "starting_after" not in provider.reads[0]


async def test_plain_text_is_continued_at_another_replica(redis, tmp_path):
    log = f"{redis.url}?lease_s={LEASE_S}"
    async with (
        replicas_of(2, tmp_path, log, PLAIN, RESCUED) as ((one, other), upstream),
        browser() as client,
    ):
        provider = Talking(upstream)
        stream = await start(client, one, "r")
        reader = Reader(client, stream)
        reading = await read_some(reader, one, 20)
        await one.kill()
        await reading
        await reader.read_all([other])

    assert TEXT == text_of(reader)
    assert ["takeover"] == notices(reader)
    assert "completed" == reader.end["status"]
    assert reader.end["rescued"]
    assert has_no_gap(reader)
    assert 2 == len(provider.asked)


async def test_a_relay_that_slept_through_its_lease_leaves_the_stream_alone(redis, tmp_path):
    log = f"{redis.url}?lease_s={LEASE_S}"
    async with (
        replicas_of(2, tmp_path, log, STORED, ROUTE) as ((one, other), upstream),
        browser() as client,
    ):
        provider = Storing(upstream)
        stream = await start(client, one, "r")
        reader = Reader(client, stream)
        reading = await read_some(reader, other, 20)
        one.signal(signal.SIGSTOP)
        await until(lambda: bool(provider.reads), limit_s=20)
        one.signal(signal.SIGCONT)
        await reading
        await reader.read_all([other, one])

    assert TEXT == text_of(reader)
    assert "completed" == reader.end["status"]
    assert has_no_gap(reader)
    assert (1, 1, 0) == (provider.posts, len(provider.reads), provider.cancelled)


async def test_an_answer_outlives_the_only_relay_over_sqlite(tmp_path):
    log = f"sqlite:///{tmp_path}/log.db"
    async with (
        replicas_of(1, tmp_path, log, STORED, ROUTE) as ((one,), upstream),
        browser() as client,
    ):
        provider = Storing(upstream)
        stream = await start(client, one, "r")
        reader = Reader(client, stream)
        reading = await read_some(reader, one, 20)
        await one.kill()
        await reading
        await one.start()
        await reader.read_all([one])

    assert TEXT == text_of(reader)
    assert ["takeover"] == notices(reader)
    assert "completed" == reader.end["status"]
    assert has_no_gap(reader)
    assert (1, 0) == (provider.posts, provider.cancelled)


async def test_an_answer_that_is_not_handed_out_again_is_continued(redis, tmp_path):
    log = f"{redis.url}?lease_s={LEASE_S}"
    tables = (STORED, RESCUED)
    async with (
        replicas_of(2, tmp_path, log, *tables) as ((one, other), upstream),
        browser() as client,
    ):
        provider = Storing(upstream, keeps=False)
        stream = await start(client, one, "r")
        reader = Reader(client, stream)
        reading = await read_some(reader, one, 20)
        await one.kill()
        await reading
        provider.events = stored_answer()[-3:]
        await reader.read_all([other])

    assert ["takeover", "rescue"] == notices(reader)
    assert "completed" == reader.end["status"]
    assert TEXT.startswith(text_of(reader)[:40])
    assert (2, 1) == (provider.posts, len(provider.reads))


async def test_an_answer_is_continued_once(redis, tmp_path):
    """The second death ends it: a third call was not reserved."""
    log = f"{redis.url}?lease_s={LEASE_S}"
    async with (
        replicas_of(3, tmp_path, log, PLAIN, RESCUED) as ((one, *others), upstream),
        browser() as client,
    ):
        provider = Talking(upstream)
        stream = await start(client, one, "r")
        reader = Reader(client, stream)
        reading = await read_some(reader, one, 10)
        await one.kill()
        await reading
        await until(lambda: len(provider.asked) == 2, limit_s=20)
        (second,) = [each for each in others if holds_connection(each.pid, upstream.port)]
        (third,) = [each for each in others if each is not second]
        reading = await read_some(reader, third, len(reader.seen) + 8)
        await second.kill()
        await reading
        await reader.read_all([third])

    assert TEXT.startswith(text_of(reader))
    assert ["takeover"] == notices(reader)
    assert "interrupted" == reader.end["status"]
    assert 2 == len(provider.asked)


async def test_an_answer_that_nobody_hands_out_again_fails(redis, tmp_path):
    log = f"{redis.url}?lease_s={LEASE_S}"
    async with (
        replicas_of(2, tmp_path, log, STORED, ROUTE) as ((one, other), upstream),
        browser() as client,
    ):
        provider = Storing(upstream, keeps=False)
        stream = await start(client, one, "r")
        reader = Reader(client, stream)
        reading = await read_some(reader, one, 20)
        await one.kill()
        await reading
        await reader.read_all([other])

    assert ["takeover"] == notices(reader)
    assert ("failed", "upstream_unavailable") == (reader.end["status"], reader.end["error"]["code"])
    assert "text.end" == json.loads(reader.seen[-2].data)["type"]
    assert has_no_gap(reader)
    assert 1 == provider.posts


async def test_a_stream_whose_relays_die_again_and_again_ends(tmp_path):
    """Over SQLite, by the relay that is started again: its request may be what kills relays."""
    log = f"sqlite:///{tmp_path}/log.db"
    async with (
        replicas_of(1, tmp_path, log, STORED, ROUTE) as ((one,), upstream),
        browser() as client,
    ):
        provider = Storing(upstream)
        stream = await start(client, one, "r")
        reader = Reader(client, stream)
        for number in range(1, 5):
            reading = await read_some(reader, one, len(reader.seen) + 4)
            await until(partial(provider.was_read, number - 1))
            await one.kill()
            await reading
            await one.start()
        await reader.read_all([one])

    assert ["takeover"] * 3 == notices(reader)
    assert ("interrupted", "producer_lost") == (
        reader.end["status"],
        reader.end["error"]["code"],
    )
    assert 3 == len(provider.reads)


async def test_a_worker_goes_on_with_the_streams_of_another(tmp_path):
    log = f"sqlite:///{tmp_path}/log.db"
    async with (
        replicas_of(1, tmp_path, log, STORED, ROUTE, workers=2) as ((one,), upstream),
        browser() as client,
    ):
        provider = Storing(upstream)
        stream = await start(client, one, "r")
        await until(lambda: provider.posts == 1)
        (owner,) = [pid for pid in children(one.pid) if holds_connection(pid, upstream.port)]
        reader = Reader(client, stream)
        reading = asyncio.create_task(reader.read_all([one]))
        await reader.has_seen(20)
        os.kill(owner, signal.SIGKILL)
        await reading

    assert TEXT == text_of(reader)
    assert ["takeover"] == notices(reader)
    assert "completed" == reader.end["status"]
    assert has_no_gap(reader)
    assert 1 == provider.posts


async def test_a_stream_that_is_stopped_is_not_taken_over(redis, tmp_path):
    log = f"{redis.url}?lease_s={LEASE_S}"
    async with (
        replicas_of(2, tmp_path, log, STORED, ROUTE) as ((one, other), upstream),
        browser() as client,
    ):
        provider = Storing(upstream)
        stream = await start(client, one, "r")
        reader = Reader(client, stream)
        reading = await read_some(reader, one, 20)
        await one.kill()
        await reading
        await client.post(f"{other.url}/v1/streams/{stream}/cancel")
        await reader.read_all([other])

    assert "interrupted" == reader.end["status"]
    assert [] == provider.reads


async def test_readers_wait_for_a_redis_that_is_away_and_lose_nothing(redis, tmp_path):
    """What Redis has lost is written again by the relay that lives; nobody else may go on."""
    log = f"{redis.url}?lease_s={4 * LEASE_S}"
    async with (
        replicas_of(2, tmp_path, log, STORED, ROUTE) as ((one, other), upstream),
        browser() as client,
    ):
        provider = Storing(upstream)
        stream = await start(client, one, "r")
        reader = Reader(client, stream)
        reading = await read_some(reader, one, 10)
        redis.kill()
        seen = len(reader.seen)
        await asyncio.sleep(0.5)
        assert len(reader.seen) <= seen + 2  # what was on its way
        redis.start()
        await reading
        await reader.read_all([one, other])

    assert TEXT == text_of(reader)
    assert ([], "completed") == (notices(reader), reader.end["status"])
    assert has_no_gap(reader)
    assert (1, []) == (provider.posts, provider.reads)


async def test_a_relay_that_is_stopped_hands_its_streams_over(redis, tmp_path):
    log = f"{redis.url}?lease_s={10 * LEASE_S}"
    async with (
        replicas_of(2, tmp_path, log, STORED, ROUTE) as ((one, other), upstream),
        browser() as client,
    ):
        provider = Storing(upstream)
        stream = await start(client, one, "r")
        reader = Reader(client, stream)
        reading = await read_some(reader, one, 20)
        one.signal(signal.SIGTERM)
        await reading
        assert not reader.ended
        await reader.read_all([other])
        await one.stopped()

    assert TEXT == text_of(reader)
    assert ["takeover"] == notices(reader)
    assert "completed" == reader.end["status"]
    assert has_no_gap(reader)
    assert (1, 1, 0) == (provider.posts, len(provider.reads), provider.cancelled)


async def test_an_answer_outlives_a_restart_over_sqlite(tmp_path):
    log = f"sqlite:///{tmp_path}/log.db"
    async with (
        replicas_of(1, tmp_path, log, PLAIN, RESCUED) as ((one,), upstream),
        browser() as client,
    ):
        provider = Talking(upstream)
        stream = await start(client, one, "r")
        reader = Reader(client, stream)
        reading = await read_some(reader, one, 20)
        one.signal(signal.SIGTERM)
        await reading
        await one.stopped()
        await one.start()
        await reader.read_all([one])

    assert TEXT == text_of(reader)
    assert ["takeover"] == notices(reader)
    assert "completed" == reader.end["status"]
    assert has_no_gap(reader)
    assert 2 == len(provider.asked)
