"""Streams that end in every way there is, while relays, their log and the records are killed."""

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest

from tests.money.books import quiet_books
from tests.money.clients import WAYS, Client
from tests.money.company import MEMBERS, relays
from tests.money.judge import Asked, Verdict, judge
from tests.money.places import LEASE_S, Log, place
from tests.money.provider import How, Plan, serve_provider
from tests.postgres_server import postgres_server
from tests.replicas.processes import Progress, Replica
from tests.replicas.storm import Storm, mend, raging

PROVING = pytest.mark.proving
STREAMS = 24

HOWS: dict[How, int] = {
    "whole": 30,
    "silent": 8,
    "early": 4,
    "cut": 10,
    "error": 6,
    "stall": 5,
    "mute": 3,
    "drop": 4,
    "429": 3,
    "500": 4,
    "401": 2,
    "busy": 6,
    "again": 8,
}
"""How often each comes, of about a hundred."""


def make_plan(name: str, dice: random.Random) -> Plan:
    """Make up what the provider does with one request."""
    (how,) = dice.choices(list(HOWS), weights=list(HOWS.values()))
    return Plan(
        name,
        how,
        tokens=dice.choice((1, 5, 20, 60, 120)),
        pace_ms=dice.choice((1, 5, 10)),
        first_ms=dice.choice((0, 0, 10, 100, 300)),
    )


async def run_streams(
    log: Log,
    folder: Path,
    *,
    seed: int,
    at_once: int,
    skew: float = 1.0,
    postgres: bool = False,
) -> Verdict:
    """Run streams to their ends, `at_once`, and judge the books when all is quiet.

    The provider counts `skew` times the input tokens that the relays estimate. With `postgres`
    the records are in a PostgreSQL, which is killed and stopped, too.
    """
    dice, progress, room = random.Random(seed), Progress(), asyncio.Semaphore(at_once)
    storm = Storm(dice, progress, pause=6, lease_s=LEASE_S)

    async def live(http: httpx2.AsyncClient, replicas: list[Replica], number: int) -> Asked:
        own = random.Random(f"{seed} {number}")
        async with room:
            client = Client(
                http,
                replicas,
                make_plan(f"s{number:06}", own),
                way=own.choice(WAYS),
                member=own.choice(MEMBERS),
                upstream=own.choice(("openai", "openai", "claude", "claude", "smart")),
                max_tokens=own.choice((None, None, 1000, 50)),
                dice=own,
            )
            progress.count += 1
            asked = await client.live()
            progress.count += 1
            return asked

    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(serve_provider(skew=skew))
        where = await place(stack, log, folder)
        strikes = []
        if postgres:
            database = stack.enter_context(postgres_server())
            where.records = database.url
            strikes.append(storm.strike_database(database))
        running = relays(
            where.relays,
            folder,
            where.logs,
            provider=provider,
            budgets={},
            records=where.records,
            **where.settings,
        )
        replicas = await stack.enter_async_context(running)
        limits = httpx2.Limits(max_connections=None)
        http = await stack.enter_async_context(
            httpx2.AsyncClient(timeout=15, trust_env=False, limits=limits)
        )
        if log != "memory":  # which a kill takes away
            strikes.append(storm.strike(replicas, workers=log == "workers"))
        if where.wires:
            strikes.append(storm.strike_wires(where.wires))
        if where.redis is not None and log == "redis-aof":
            strikes.append(storm.strike_redis(where.redis))
        async with raging(*strikes):
            asked = await asyncio.gather(*(live(http, replicas, n) for n in range(STREAMS)))
        if postgres:
            await asyncio.to_thread(database.start)
        await mend(replicas, wires=where.wires, redis=where.redis)
        books = await quiet_books(http, replicas, where.records, within_s=30 * LEASE_S)
        return judge(books, provider, asked)


@pytest.mark.parametrize(
    "log", ["memory", *(pytest.param(log, marks=PROVING) for log in ("workers", "redis"))]
)
async def test_books_agree_with_the_provider_whatever_happens(log, tmp_path):
    verdict = await run_streams(log, tmp_path, seed=1, at_once=30)

    assert [] == verdict.faults, verdict
    assert verdict.streams


@PROVING
async def test_database_that_goes_and_comes_has_one_row_for_each_stream(tmp_path):
    verdict = await run_streams("redis-aof", tmp_path, seed=2, at_once=20, skew=1.3, postgres=True)

    assert [] == verdict.faults, verdict
    assert verdict.streams
