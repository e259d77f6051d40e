"""Owners that are lost with what only they had: one end for all, and no id that means two things."""

import asyncio
import json
import re
from pathlib import Path

import httpx2
import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.eventlog import STRIDE
from app.eventlog.redis.scripts import meta_key
from app.framing.sse import Decoder, Message
from app.testing.upstream import serve_upstream
from tests.redis_server import RedisServer, redis_server, wire_to
from tests.replicas.processes import DRIPPING, Reader, Replica, browser, running, start
from tests.replicas.test_faults import KEPT_S, check_lost
from tests.waiting import until

pytestmark = pytest.mark.proving

STEADY_S = 6
"""Of an owner that is lost when a test says so, and not as it stands still."""


async def events(
    client: httpx2.AsyncClient, replica: Replica, stream: str, cursor: str = "", **query: str
) -> tuple[int, list[Message]]:
    headers = {"last-event-id": cursor} if cursor else {}
    url = f"{replica.url}/v1/streams/{stream}/events"
    body = b""
    async with client.stream("GET", url, headers=headers, params=query) as reply:
        async for chunk in reply.aiter_bytes():
            body += chunk
    return reply.status_code, Decoder().feed(body)


async def test_ids_of_an_end_for_a_lost_owner_are_its_own(redis, tmp_path: Path):
    """The owner is cut off and shows more: its ids are refused while it is still away."""
    async with (
        serve_upstream() as upstream,
        wire_to(redis.port) as wire,
        running(1, tmp_path, f"{wire.url}?lease_s={KEPT_S}", script=upstream) as (first,),
        running(1, tmp_path, f"{redis.url}?lease_s={KEPT_S}", script=upstream) as (second,),
        browser() as client,
    ):
        upstream.script = DRIPPING
        stream = await start(client, first, "openai/m")
        here, there = Reader(client, stream), Reader(client, stream)
        ahead = asyncio.create_task(here.read(first))
        await here.has_seen(20)
        wire.hang()
        await asyncio.wait_for(there.read_all([second]), 20)
        await here.has_seen(len(there.seen) + 5)
        check_lost(there)
        kept = len([m for m in there.seen if int((m.id or "").rpartition(".")[2]) < STRIDE])
        assert kept < len(there.seen)
        for number in range(kept + 1, len(here.seen) + 1):
            assert (409, []) == await events(client, second, stream, f"{stream}.{number}")
        await check_formats(client, second, stream)

        result = (await client.get(f"{second.url}/v1/streams/{stream}")).json()
        assert there.seen[-1].id == result["last_event_id"]
        _, snapshot = await events(client, second, stream, **{"from": "snapshot"})
        assert there.seen[-1] == snapshot[-1]
        assert len(snapshot) < len(there.seen)
        for message in snapshot[:-1]:
            _, rest = await events(client, second, stream, message.id or "")
            assert rest[-1] == there.seen[-1]
        wire.mend()
        await asyncio.wait_for(ahead, 20)
        assert not here.ended


async def check_formats(client: httpx2.AsyncClient, replica: Replica, stream: str) -> None:
    """In every dialect, a reader that comes back with any id gets the rest, and no id twice."""
    for name in CLIENT_FORMATS:
        query = {"format": name, "suffix": "1"}
        status, whole = await events(client, replica, stream, **query)
        assert 200 == status, name
        ids = [message.id for message in whole]
        assert len(ids) == len(set(ids))
        places = sorted({0, 1, len(ids) // 2, *range(max(0, len(ids) - 8), len(ids))})
        for place in places:
            status, rest = await events(client, replica, stream, ids[place] or "", **query)
            assert [m.data for m in whole[place + 1 :]] == [m.data for m in rest], (name, place)
            assert status == (200 if rest else 204)
        prefix, _, last = (ids[-1] or "").rpartition(".")
        letter = last.rstrip("0123456789")
        plain = int(last.removeprefix(letter)) % STRIDE
        for number in (plain, plain + 1, plain + 1000):  # of the owner, had it shown so many
            status, _ = await events(client, replica, stream, f"{prefix}.{letter}{number}", **query)
            assert 409 == status, (name, number)


def offset(server: RedisServer, name: str) -> int:
    """Return how far a server is."""
    found = re.search(rf"{name}:(\d+)", server.ask("INFO", "replication").decode())
    return int(found[1]) if found else 0


async def read_on(reader: Reader, replica: Replica) -> None:
    """Read to the end, or until a relay that reaches Redis has nothing more to give."""

    async def has_all() -> bool:
        await reader.read(replica)
        return reader.ended or reader.statuses[-1] not in (200, 503)

    await until(has_all, limit_s=60)


async def test_streams_end_the_same_everywhere_when_owner_and_master_are_lost(tmp_path):
    """The replica that takes over lacks the last writes, and readers have seen those."""
    (tmp_path / "replica").mkdir()
    with (
        redis_server(tmp_path) as master,
        redis_server(tmp_path / "replica", "--replicaof", f"127.0.0.1 {master.port}") as copy,
    ):
        async with (
            wire_to(master.port) as wire,
            running(3, tmp_path, f"{wire.url}?lease_s={STEADY_S}") as (first, second, third),
            browser() as client,
        ):
            early = [await start(client, first) for _ in range(6)]
            await until(lambda: b"state=online" in master.ask("INFO", "replication"))
            written = offset(master, "master_repl_offset")
            await until(lambda: offset(copy, "slave_repl_offset") >= written)
            copy.ask("REPLICAOF", "NO", "ONE")
            late = [await start(client, first) for _ in range(2)]  # the replica never hears of
            readers = [Reader(client, name) for name in early + late for _ in range(3)]
            reading = [
                asyncio.create_task(reader.read(replica))
                for reader, replica in zip(readers, (first, second, third) * 8, strict=True)
            ]
            for reader in readers:
                await reader.has_seen(40)
            await first.kill()
            master.kill()
            for name in early:  # the lease of its owner is over
                copy.ask("HSET", meta_key(name), "lease", "0")
            wire.to = copy.port
            wire.cut()
            wire.mend()
            await asyncio.wait_for(asyncio.gather(*reading), 60)

            async with asyncio.timeout(60):
                for reader in readers:
                    if not reader.ended:  # it had seen more than was kept, or is gone
                        await read_on(reader, second)
                        expected = 409 if reader.stream in early else 404
                        assert reader.ended or reader.statuses[-1] == expected
            for name in early:
                one, other = Reader(client, name), Reader(client, name)
                reading_all = asyncio.gather(one.read_all([second]), other.read_all([third]))
                await asyncio.wait_for(reading_all, 60)
                check_lost(one, other)
                ends = [m for r in readers if r.stream == name and r.ended for m in r.seen[-1:]]
                assert all(end == one.seen[-1] for end in ends)
                shown = [json.loads(m.data) for m in one.seen]
                assert "stream.end" == shown[-1]["type"]
