"""Replicas that are killed, stopped and told to stop, over a Redis that fails: docs/replicas.md."""

import asyncio
import contextlib
import signal
import time

import httpx2
import pytest

from app.testing.upstream import DONE, FINISH, Until, head, send, serve_upstream, text
from tests.redis_server import RedisServer, Wire, wire_to
from tests.replicas.processes import DRIPPING, Reader, Replica, browser, running, start
from tests.serving import HELLO, events_of, read_messages
from tests.waiting import until

pytestmark = pytest.mark.proving

LEASE_S = 1.5
KEPT_S = 3
"""Of an owner that has to keep its streams, though a machine may let it do nothing for a while."""


async def accepts(replica: Replica) -> bool:
    address = httpx2.URL(replica.url)
    try:
        _, writer = await asyncio.open_connection(address.host, address.port)
    except ConnectionError:
        return False
    writer.close()
    return True


async def readiness(client: httpx2.AsyncClient, replica: Replica) -> int:
    return (await client.get(f"{replica.url}/readyz")).status_code


async def until_ready(client: httpx2.AsyncClient, replica: Replica, status: int = 200) -> None:
    async def is_so() -> bool:
        return await readiness(client, replica) == status

    await until(is_so)


async def cancel(client: httpx2.AsyncClient, replica: Replica, stream: str) -> None:
    """Stop a stream, as soon as its owner has written it again to a Redis that is back."""

    async def is_taken() -> bool:
        reply = await client.post(f"{replica.url}/v1/streams/{stream}/cancel")
        return reply.status_code == 202

    await until(is_taken)


def check_lost(*readers: Reader) -> None:
    """All have seen the same, and the honest end of a stream whose relay is lost."""
    for reader in readers:
        assert [m.data for m in readers[0].seen] == [m.data for m in reader.seen]
        assert ("interrupted", "producer_lost") == (
            reader.end["status"],
            reader.end["error"]["code"],
        )


async def test_owner_that_is_stopped_or_killed_is_noticed_by_everyone_soon(redis, tmp_path):
    log = f"{redis.url}?lease_s={LEASE_S}"
    async with running(2, tmp_path, log) as (first, second), browser() as client:
        await check_stopped(client, first, second)
        await check_killed(client, first, second)


async def check_stopped(client: httpx2.AsyncClient, first: Replica, second: Replica) -> None:
    """When it wakes up it writes nothing more."""
    stream = await start(client, first)
    here, there = Reader(client, stream), Reader(client, stream)
    await here.read(first, most=5)
    staying = asyncio.create_task(here.read_all([first, second]))
    first.signal(signal.SIGSTOP)
    await there.read_all([second])
    before = await client.get(f"{second.url}/v1/streams/{stream}")
    first.signal(signal.SIGCONT)
    await asyncio.wait_for(staying, 20)
    await until_ready(client, first)

    check_lost(here, there)
    for replica in (first, second):
        again = await client.get(f"{replica.url}/v1/streams/{stream}")
        assert before.content == again.content


async def check_killed(client: httpx2.AsyncClient, first: Replica, second: Replica) -> None:
    stream = await start(client, first)
    readers = [Reader(client, stream) for _ in range(4)]
    for reader in readers[1:]:
        await reader.read(first, most=20)
    reading = [
        asyncio.create_task(reader.read_all([replica, second]))
        for reader, replica in zip(readers, (second, second, first, first), strict=True)
    ]
    for reader in readers:
        await reader.has_seen(22)
    started = time.monotonic()
    await first.kill()
    await asyncio.gather(*reading)

    assert time.monotonic() - started < 13  # with a lease as by default it takes 15
    check_lost(*readers)
    late = Reader(client, stream)
    await late.read_all([second])
    check_lost(readers[0], late)


async def test_owner_that_is_told_to_stop_ends_its_streams_at_once(redis, tmp_path):
    async with running(2, tmp_path, redis.url, drain_s=0.3) as (first, second), browser() as client:
        stream = await start(client, first)
        other = await start(client, second)
        here, there, elsewhere = (Reader(client, name) for name in (stream, stream, other))
        reading = [
            asyncio.create_task(here.read_all([first])),
            asyncio.create_task(there.read_all([second])),
            asyncio.create_task(elsewhere.read(first)),
        ]
        for reader in (here, there, elsewhere):
            await reader.has_seen(1)
        first.signal(signal.SIGTERM)
        assert 0 == await first.stopped()
        await asyncio.wait_for(asyncio.gather(*reading), 20)

        check_lost(here, there)
        # A stream of the other goes on: its reader is cut off here and reads on there.
        assert not elsewhere.ended
        await elsewhere.read(second, most=20)


@pytest.mark.parametrize("workers", [1, 2])
async def test_relay_that_is_told_to_stop_is_left_to_the_readers_it_has(workers, redis, tmp_path):
    """No new connection, and soon none that is idle: proxies take the other for a POST."""
    settings = {"drain_s": 60, "workers": workers}
    async with (
        serve_upstream() as upstream,
        running(1, tmp_path, redis.url, script=upstream, **settings) as (only,),
        browser() as client,
    ):
        over = Until()
        upstream.script = [head(), send(text("so far")), over, send(FINISH + DONE)]
        url, body = f"{only.url}/v1/chat", {**HELLO, "model": "openai/m"}
        async with client.stream("POST", url, json=body) as reply:  # so it reads at the owner
            assert 200 == await readiness(client, only)
            only.signal(signal.SIGTERM)

            async def takes_none() -> bool:
                return not await accepts(only)

            await until(takes_none)
            assert only.runs
            with contextlib.suppress(httpx2.TransportError):  # the one that was kept goes too
                assert 200 == await readiness(client, only)
            with pytest.raises(httpx2.ConnectError):
                await readiness(client, only)
            over.told.set()
            events = events_of(await read_messages(reply))

        assert "completed" == events[-1]["status"]
        assert 0 == await only.stopped()


async def test_redis_that_is_away_comes_back_empty_and_is_gone_for_good(redis, tmp_path):
    async with (
        serve_upstream() as upstream,
        wire_to(redis.port) as wire,
        running(
            *(2, tmp_path, f"{wire.url}?lease_s={KEPT_S}"), drain_s=0.2, script=upstream
        ) as replicas,
        browser() as client,
    ):
        upstream.script = DRIPPING
        await check_away(client, replicas, wire)
        await check_empty(client, replicas, redis)
        await check_gone(client, replicas, redis)


async def check_away(client: httpx2.AsyncClient, replicas: list[Replica], wire: Wire) -> None:
    """Gone for longer than a lease: readers of the owner see nothing of it."""
    first, second = replicas
    stream = await start(client, first, "openai/m")
    here, there = Reader(client, stream), Reader(client, stream)
    reading = [
        asyncio.create_task(here.read_all([first])),
        asyncio.create_task(there.read_all([second])),
    ]
    for reader in (here, there):
        await reader.has_seen(1)
    wire.cut()
    cut_at = time.monotonic()
    for replica in replicas:
        await until_ready(client, replica, 503)
    refused = await client.post(f"{first.url}/v1/chat", json={"messages": []})
    assert 400 == refused.status_code
    body = {"messages": [{"role": "user", "content": "hi"}]}
    refused = await client.post(f"{first.url}/v1/chat", json=body)
    assert (503, "overloaded") == (refused.status_code, refused.json()["code"])
    assert "cannot be reached" in refused.json()["detail"]
    before = len(here.seen)
    await until(lambda: time.monotonic() > cut_at + KEPT_S + 1)  # the leases are over
    await here.has_seen(before + 101)
    assert len(there.seen) < before + 50
    wire.mend()
    for replica in replicas:
        await until_ready(client, replica)
    await cancel(client, second, stream)
    await asyncio.wait_for(asyncio.gather(*reading), 20)

    assert "cancelled" == here.end["status"]
    assert here.seen == there.seen


async def check_empty(
    client: httpx2.AsyncClient, replicas: list[Replica], redis: RedisServer
) -> None:
    """Restarted, it has forgotten everything: what runs is written again."""
    first, second = replicas
    streams = [await start(client, first, "openai/m") for _ in range(5)]
    readers = [Reader(client, stream) for stream in streams for _ in range(2)]
    reading = [
        asyncio.create_task(reader.read_all([replicas[n % 2], second]))
        for n, reader in enumerate(readers)
    ]
    for reader in readers:
        await reader.has_seen(1)
    redis.kill()
    await until_ready(client, first, 503)
    redis.start()
    for replica in replicas:
        await until_ready(client, replica)
    for stream in streams:
        await cancel(client, second, stream)
    await asyncio.wait_for(asyncio.gather(*reading), 20)

    for here, there in zip(readers[::2], readers[1::2], strict=True):
        assert "cancelled" == here.end["status"]
        assert here.seen == there.seen


async def check_gone(
    client: httpx2.AsyncClient, replicas: list[Replica], redis: RedisServer
) -> None:
    first, second = replicas
    stream = await start(client, first, "openai/m")
    here, there = Reader(client, stream), Reader(client, stream)
    reading = asyncio.create_task(here.read(first))
    elsewhere = asyncio.create_task(there.read(second))
    for reader in (here, there):
        await reader.has_seen(1)
    redis.kill()
    await asyncio.wait_for(elsewhere, 20)
    assert not there.ended
    await there.read(second)
    assert 503 == there.statuses[-1]
    events = f"{second.url}/v1/streams/{stream}/events"
    told = await client.get(events, headers={"accept": "text/event-stream"})
    assert (200, "retry:") == (told.status_code, told.text[:6])
    await there.read(first, most=20)  # its owner has it in memory
    for replica in replicas:
        replica.signal(signal.SIGTERM)
    assert [0, 0] == [await replica.stopped() for replica in replicas]
    await asyncio.wait_for(reading, 20)

    check_lost(here)
    assert here.seen[: len(there.seen)] == there.seen
