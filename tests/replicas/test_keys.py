"""What an `Idempotency-Key` promises, from outside: one call of the upstream, one stream.

Whatever happens to the relays, their log and the way there, a client that sends its POST again
comes to the same stream, whole, or is told to try again. `keys.py` is the long run of it.
"""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest

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
from tests.redis_server import redis_server, wire_to
from tests.replicas.keys import Round, key_of
from tests.replicas.processes import (
    Replica,
    browser,
    children,
    holds_connection,
    running,
    running_over,
)
from tests.serving import HELLO
from tests.waiting import until

pytestmark = pytest.mark.proving

WHOLE: list[Step] = [head(), send(text("a")), wait(0.2), send(text("b") + FINISH + DONE)]
SILENT: list[Step] = [Hold()]
KEYS = 18
SETTINGS: dict[str, Any] = {"attempts": 1, "status_wait_s": 10}


@pytest.mark.parametrize(
    ("log", "seed", "blows"),
    [("memory", 1, 0), ("sqlite", 2, 3), ("workers", 3, 6), ("redis", 4, 6)],
)
async def test_key_keeps_what_it_promises_whatever_happens(log, seed, blows, tmp_path):
    go = Round(log, tmp_path, seed, keys=KEYS, blows=blows)
    await go.run()
    faults = {asking.key: asking.faults for asking in go.askings if asking.faults}

    assert {} == faults
    assert {1} == set(go.calls.values())
    assert KEYS == len(go.askings)


async def post(client: httpx2.AsyncClient, replica: Replica, **fields: Any) -> httpx2.Response:
    body = {**HELLO, "model": "openai/m", "on_disconnect": "continue", **fields}
    headers = {"idempotency-key": "k", "connection": "close"}  # any worker, each time
    return await client.post(f"{replica.url}/v1/chat", json=body, headers=headers)


async def post_until(client: httpx2.AsyncClient, replica: Replica, within_s: float) -> Any:
    """Send a POST again as long as it is told so; give the reply that is no such."""
    replies: list[httpx2.Response] = []

    async def is_told() -> bool:
        replies.append(await post(client, replica))
        assert replies[-1].status_code != 503 or replies[-1].json()["retryable"] is True
        return replies[-1].status_code != 503

    await until(is_told, limit_s=within_s)
    return replies[-1]


@pytest.mark.parametrize("log", ["sqlite", "workers", "redis"])
async def test_key_whose_relay_is_killed_before_the_answer_begins_is_not_called_again(
    log, tmp_path
):
    """Many ask at once, and the one that calls is killed: the answer may be paid for."""
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(serve_upstream())
        upstream.script = SILENT
        client = await stack.enter_async_context(browser())
        place = f"sqlite:///{tmp_path}/log.db"
        if log == "redis":
            place = f"{stack.enter_context(redis_server(tmp_path)).url}?lease_s=1.5"
        relays = running(
            2 if log == "redis" else 1,
            tmp_path,
            place,
            script=upstream,
            workers=3 if log == "workers" else 1,
            **SETTINGS,
        )
        replicas = await stack.enter_async_context(relays)
        asking = [
            asyncio.create_task(post_until(client, replicas[number % len(replicas)], 60))
            for number in range(100)
        ]
        await asyncio.wait_for(upstream.called.wait(), 20)
        owner = owner_of(upstream, replicas, workers=log == "workers")
        await asyncio.wait(asking, timeout=0.5)  # the others wait at their relays
        await kill(owner, replicas)
        replies = await asyncio.gather(*asking, return_exceptions=True)
        again = await post_until(client, replicas[0], 60)

        assert 1 == len(upstream.calls)
        told = {
            (reply.status_code, reply.json()["code"], reply.headers["stream-id"])
            for reply in (*replies, again)
            if isinstance(reply, httpx2.Response)
        }
        assert {(502, "producer_lost", again.headers["stream-id"])} == told


def owner_of(upstream: Upstream, replicas: list[Replica], *, workers: bool) -> int:
    """Return the process that holds the connection to the upstream, while its lease does."""
    pids = [pid for each in replicas for pid in (children(each.pid) if workers else [each.pid])]
    (owner,) = [pid for pid in pids if holds_connection(pid, upstream.port)]
    return owner


async def kill(owner: int, replicas: list[Replica]) -> None:
    """Kill a process; start a relay again, if it is one and no worker."""
    relays = [replica for replica in replicas if replica.pid == owner]
    os.kill(owner, signal.SIGKILL)
    for relay in relays:
        await relay.stopped()
        await relay.start()


@pytest.mark.parametrize(("how", "away_s"), [("mute", 0.3), ("hang", 1.2), ("mute", 2.5)])
async def test_key_whose_post_meets_a_blip_of_redis_is_whole_or_free(how, away_s, redis, tmp_path):
    """The way to Redis breaks as a key is bound; it and others are asked for elsewhere too."""
    async with (
        serve_upstream() as upstream,
        wire_to(redis.port) as wire,
        running_over([wire.url, redis.url], tmp_path, script=upstream, **SETTINGS) as (
            first,
            second,
        ),
        browser() as client,
    ):
        upstream.script = WHOLE

        async def live(number: int) -> None:
            body = {**HELLO, "model": "openai/m", "messages": prompt(number)}
            headers = {"idempotency-key": f"k-{number}"}
            for turn in range(60):
                replica = (first, second)[turn % 2]
                reply = await client.post(f"{replica.url}/v1/chat", json=body, headers=headers)
                if reply.status_code == 200:
                    assert '"status":"completed"' in reply.text
                    return
                assert (503, "overloaded") == (reply.status_code, reply.json()["code"]), number
                await asyncio.sleep(0.1)
            raise AssertionError(number)

        living = []
        for number in range(30):
            living.append(asyncio.create_task(live(number)))
            await asyncio.sleep(0)
            if number == 15 and how == "mute":
                wire.mute(at=b"seseragi:key:")
            elif number == 15:
                wire.hang()
        await asyncio.sleep(away_s)  # what a relay waits for depends on how long it is away
        wire.cut()
        wire.mend()
        await asyncio.wait_for(asyncio.gather(*living), 20)

        assert {f"k {number}" for number in range(30)} == set(map(key_of, upstream.calls))
        assert 30 == len(upstream.calls)


def prompt(number: int) -> list[dict]:
    return [{"role": "user", "content": f"k {number}"}]


async def test_key_of_a_running_stream_outlives_a_redis_that_comes_back_empty(redis, tmp_path):
    """Its owner writes it again; others do not begin another one meanwhile."""
    slow = [head(), *(step for _ in range(60) for step in (send(text("a")), wait(0.1)))]
    async with (
        serve_upstream() as upstream,
        wire_to(redis.port) as wire,
        running_over(
            [f"{each}?lease_s=4" for each in (wire.url, redis.url)],
            tmp_path,
            script=upstream,
            **SETTINGS,
        ) as (first, second),
        browser() as client,
    ):
        upstream.script = [*slow, send(FINISH + DONE)]
        here = asyncio.create_task(post(client, first))
        await asyncio.wait_for(upstream.called.wait(), 20)
        await until(lambda: b"*1" in redis.ask("KEYS", "*:log"))  # it has begun
        redis.kill()
        wire.cut()  # the owner comes back later than the other
        redis.start()
        there = asyncio.create_task(post_until(client, second, 60))
        await asyncio.wait({there}, timeout=0.6)  # it is not told yet that the key is free
        assert not there.done()
        wire.mend()

        assert (await here).content == (await there).content
        assert 1 == len(upstream.calls)
