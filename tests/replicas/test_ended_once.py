"""Owners that are killed: the end of every stream that began is told once, over all processes.

What is told is seen in the log lines of the real command, one for each stream.
"""

import asyncio
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.replicas.processes import Replica, ask, browser, children, running
from tests.serving import HELLO
from tests.waiting import until

pytestmark = pytest.mark.proving

LEASE_S = 1.0
STREAMS = 60
SURE = 30
"""Those that are started before anybody is killed."""
LONG: dict[str, Any] = {"model": "demo-long"}
OTHERS: dict[int, dict[str, Any]] = {
    0: {"model": "demo"},
    1: {"model": "demo-pause"},
}
"""By the remainder of a stream's number: a short one, and one that runs until the last kill."""


@cache  # many are waited for, by looking at all of them again and again
def parse(line: str) -> dict:
    return json.loads(line)


def ends(replicas: Sequence[Replica]) -> list[dict]:
    lines = [parse(line) for replica in replicas for line in replica.said if "{" in line]
    return [line for line in lines if line["event"] == "stream ended"]


async def start(client: httpx2.AsyncClient, replica: Replica, number: int) -> str | None:
    """Start a stream that nobody reads; None where nobody has said that it was started."""
    asked = OTHERS.get(number % 6, LONG)
    try:
        reply = await client.post(
            f"{replica.url}/v1/chat",
            json={**HELLO, **asked, "on_disconnect": "continue"},
            headers={
                "prefer": "respond-async",
                "x-request-id": f"request-{number}",
                "connection": "close",  # any worker, each time
            },
        )
    except httpx2.TransportError:
        return None
    assert reply.status_code in (202, 503), reply.text
    return reply.json()["id"] if reply.status_code == 202 else None


async def start_many(
    client: httpx2.AsyncClient, replicas: Sequence[Replica], numbers: range = range(STREAMS)
) -> dict[str, str]:
    """Start streams at all of them in turn; return the request of each."""
    asked = [start(client, replicas[number % len(replicas)], number) for number in numbers]
    found = await asyncio.gather(*asked)
    return {s: f"request-{number}" for number, s in zip(numbers, found, strict=True) if s}


async def until_ended(replicas: Sequence[Replica], more: int) -> None:
    """Wait until so many streams more have ended: the short ones do, one after the other."""
    wanted = len(ends(replicas)) + more
    await until(lambda: len(ends(replicas)) >= wanted)


async def until_lost(replica: Replica, *, within_s: float) -> None:
    """Wait until somebody tells of streams that were ended for a lost process."""
    await until(
        lambda: "producer_lost" in [line["code"] for line in ends([replica])], limit_s=within_s
    )


async def end_of(client: httpx2.AsyncClient, replica: Replica, stream: str) -> float | None:
    """Return when a stream ended: None while it runs, 0 if it is not kept."""
    reply = await ask(client, "GET", f"{replica.url}/v1/streams/{stream}")
    assert reply.status_code in (200, 404, 410), reply.text
    return reply.json()["timings"].get("ended_at") if reply.status_code == 200 else 0


async def check_ends(
    client: httpx2.AsyncClient,
    alive: Replica,
    replicas: Sequence[Replica],
    started: dict[str, str],
    *,
    killed_at: float,
    lost: int,
) -> None:
    """Hold that each stream that is kept, and so began, has ended once, and is told with its request.

    Nobody has read any of them: they end all the same. Who has put an end in the log tells of it:
    if that process is killed between the two, nobody does. So those that had ended when the last
    process was killed may be untold, of its own answers and of those of one killed before it.
    """
    for stream in started:
        await ask(client, "POST", f"{alive.url}/v1/streams/{stream}/cancel")
    ended: dict[str, float | None] = {}

    async def all_have_ended() -> bool:
        for stream in started:
            if ended.get(stream) is None:
                ended[stream] = await end_of(client, alive, stream)
        return None not in ended.values()

    await until(all_have_ended, limit_s=60)
    began = {stream for stream, at in ended.items() if at}
    assert len(began) >= SURE
    later = {stream for stream in began if (ended[stream] or 0) > killed_at}
    assert len(later) >= lost
    await until(lambda: later <= {line["stream"] for line in ends(replicas)})
    # A second one would have come before that of a stream that begins now.
    last = await start(client, alive, 0)
    await until(lambda: last in {line["stream"] for line in ends(replicas)})
    told = Counter(line["stream"] for line in ends(replicas))
    once = {s: n for s, n in told.items() if s in started}
    assert later <= once.keys() <= began
    assert {1} == set(once.values())
    for line in ends(replicas):
        assert started.get(line["stream"], line["request_id"]) == line["request_id"]
        assert line["model"] in ("demo", "demo-long", "demo-pause")
    interrupted = [line for line in ends(replicas) if line["code"] == "producer_lost"]
    assert len(interrupted) >= lost
    assert all(line["events"] > 1 for line in interrupted)


async def test_workers_tell_of_those_that_a_killed_one_ran(tmp_path: Path):
    dice = random.Random(0)
    async with (
        running(1, tmp_path, f"sqlite:///{tmp_path}/log.db", workers=3) as (replica,),
        browser() as client,
    ):
        # Every worker is killed once: which of them took connections is the kernel's choice.
        workers = children(replica.pid)
        dice.shuffle(workers)
        started = await start_many(client, [replica], range(SURE))
        starting = asyncio.create_task(start_many(client, [replica], range(SURE, STREAMS)))
        for worker in workers:
            await until_ended([replica], dice.randrange(3))
            os.kill(worker, signal.SIGKILL)
        killed_at = time.time()
        started |= await starting
        await until_lost(replica, within_s=60)
        await check_ends(client, replica, [replica], started, killed_at=killed_at, lost=1)


@pytest.mark.parametrize("workers", [1, 2])
async def test_restart_tells_of_those_that_all_killed_processes_ran(tmp_path: Path, workers: int):
    replica = Replica(tmp_path, f"sqlite:///{tmp_path}/log.db", workers=workers)
    async with browser() as client:
        try:
            await replica.start()
            started = await start_many(client, [replica])
            await until_ended([replica], 3)
            pids = children(replica.pid)
            replica.signal(signal.SIGKILL)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            await replica.kill()
            killed_at = time.time()
            await replica.start()
            await check_ends(client, replica, [replica], started, killed_at=killed_at, lost=20)
        finally:
            await replica.kill()


async def test_replica_tells_of_those_that_a_killed_one_ran(redis, tmp_path: Path):
    """Nobody asks for them: the other one finds them."""
    async with (
        running(2, tmp_path, f"{redis.url}?lease_s={LEASE_S}") as replicas,
        browser() as client,
    ):
        first, second = replicas
        started = await start_many(client, replicas, range(SURE))
        starting = asyncio.create_task(start_many(client, replicas, range(SURE, STREAMS)))
        await until_ended(replicas, 2)
        await first.kill()
        killed_at = time.time()
        started |= await starting
        await until_lost(second, within_s=3 * LEASE_S + 30)
        await check_ends(client, second, replicas, started, killed_at=killed_at, lost=1)
