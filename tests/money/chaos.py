"""Streams that end in every way there is, while relays and their log are killed.

python -m tests.money.chaos redis --streams 10000 --seed 7

With `--postgres` the records are in a PostgreSQL, which is killed and stopped meanwhile.
"""

import argparse
import asyncio
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2

from app.ledger.money import to_nano
from tests.money.books import quiet_books
from tests.money.clients import WAYS, Client
from tests.money.company import MEMBERS, relays
from tests.money.judge import Asked, Verdict, judge, overspent
from tests.money.places import LEASE_S, LOGS, Log, Place, place
from tests.money.provider import How, Plan, Provider, serve_provider
from tests.postgres_server import PostgresServer, postgres_server
from tests.redis_server import RedisServer, Wire
from tests.replicas.keys import revive
from tests.replicas.processes import Progress, Replica, children, to_its_end

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


class Storm:
    """So many streams, `at_once`, and what happens to the relays meanwhile."""

    def __init__(
        self,
        log: Log,
        folder: Path,
        *,
        streams: int,
        seed: int,
        at_once: int = 60,
        budget_usd: float | None = None,
        kills: bool = True,
        pause: int = 10,
        fsync: str = "everysec",
        skew: float = 1.0,
        postgres: bool = False,
    ) -> None:
        """Prepare it.

        Something is done to the relays when so many requests more have come or gone, about.
        `fsync` is that of Redis with a file, `skew` the provider's count of input beside the
        relays' estimate; with `postgres` the rows are those of a database that comes and goes.
        """
        self._log = log
        self._folder = folder
        self._streams = streams
        self._dice = random.Random(seed)
        self._room = asyncio.Semaphore(at_once)
        self._budget_usd = budget_usd
        # With a budget the longest answers are short, so that there is room for many.
        self._lengths = (None, None, 1000, 50) if budget_usd is None else (50, 130)
        self._kills = kills
        self._pause = pause
        self._progress = Progress()
        self._fsync = fsync
        self._skew = skew
        self._postgres = postgres
        self.done: Counter[str] = Counter()
        """What was done to the relays."""
        self.asked: list[Asked] = []
        self.verdict: Verdict
        self.took_s = 0.0
        self.quiet_s = 0.0

    async def run(self) -> None:
        """Run it to its end, mend everything, and judge the books when all is quiet."""
        started = time.monotonic()
        async with AsyncExitStack() as stack:
            provider = await stack.enter_async_context(serve_provider(skew=self._skew))
            where = await place(stack, self._log, self._folder, fsync=self._fsync)
            database = stack.enter_context(postgres_server()) if self._postgres else None
            if database is not None:
                where.records = database.url
            replicas = await self._relays(stack, provider, where)
            limits = httpx2.Limits(max_connections=None)
            http = await stack.enter_async_context(
                httpx2.AsyncClient(timeout=15, trust_env=False, limits=limits)
            )
            bad = self._bad(replicas, where, database) if self._kills else []
            tasks = [asyncio.ensure_future(each) for each in bad]
            living = [
                asyncio.create_task(self._live(http, replicas, number))
                for number in range(self._streams)
            ]
            self.asked = await asyncio.gather(*living)
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if not isinstance(result, asyncio.CancelledError):
                    raise RuntimeError("it was not tormented to the end") from result
            await _mend(replicas, where, database)
            self.took_s = time.monotonic() - started
            books = await quiet_books(http, replicas, where.records, within_s=30 * LEASE_S)
            self.quiet_s = time.monotonic() - started - self.took_s
            self.verdict = judge(books, provider, self.asked)
            if self._budget_usd is not None:
                self.verdict.faults += overspent(books, to_nano(self._budget_usd))

    async def _relays(
        self, stack: AsyncExitStack, provider: Provider, where: Place
    ) -> list[Replica]:
        running = relays(
            where.relays,
            self._folder,
            where.logs,
            provider=provider,
            budgets={} if self._budget_usd is None else {"relay": self._budget_usd},
            records=where.records,
            **where.settings,
        )
        return await stack.enter_async_context(running)

    async def _live(self, http: httpx2.AsyncClient, replicas: list[Replica], number: int) -> Asked:
        dice = random.Random(f"{self._dice.random()} {number}")
        async with self._room:
            client = Client(
                http,
                replicas,
                make_plan(f"s{number:06}", dice),
                way=dice.choice(WAYS),
                member=dice.choice(MEMBERS),
                upstream=dice.choice(("openai", "openai", "claude", "claude", "smart")),
                max_tokens=dice.choice(self._lengths),
                dice=dice,
            )
            self._progress.count += 1
            asked = await client.live()
            self._progress.count += 1
            return asked

    # What happens to them

    def _bad(
        self, replicas: list[Replica], where: Place, database: PostgresServer | None
    ) -> list[Awaitable[None]]:
        bad: list[Awaitable[None]] = []
        if self._log != "memory":  # which a kill takes away
            bad.append(self._torment(replicas))
        if database is not None:
            bad.append(self._torment_database(database))
        if where.wires:
            bad.append(self._torment_wires(where.wires))
        if where.redis is not None and self._log == "redis-aof":
            bad.append(self._torment_redis(where.redis))
        return bad

    async def _wait(self) -> None:
        await self._progress.more(self._dice.randint(1, 2 * self._pause))

    async def _torment(self, replicas: list[Replica]) -> None:
        """Kill a relay or a worker now and then, or stop it for a while."""
        dice = self._dice
        while True:
            await self._wait()
            replica = dice.choice(replicas)
            if not replica.runs:
                self.done["relay had gone"] += 1
                await revive(replica)
            elif self._log == "workers" and dice.random() < 0.8:
                with suppress(ProcessLookupError, IndexError):
                    os.kill(dice.choice(children(replica.pid)), signal.SIGKILL)
                    self.done["worker killed"] += 1
            elif len(replicas) > 1 and dice.random() < 0.3:
                self.done["relay stopped for a while"] += 1
                replica.signal(signal.SIGSTOP)
                try:
                    await asyncio.sleep(dice.uniform(0.1, 1.5 * LEASE_S))
                finally:
                    with suppress(ProcessLookupError):
                        replica.signal(signal.SIGCONT)
            else:
                self.done["relay killed"] += 1
                await to_its_end(replica.kill())
                await revive(replica)

    async def _torment_wires(self, wires: list[Wire]) -> None:
        """Cut a way to Redis, let it hang, or let only its answers hang, and mend it."""
        dice = self._dice
        while True:
            await self._wait()
            wire, how = dice.choice(wires), dice.choice(("cut", "hang", "mute"))
            self.done[f"way to Redis: {how}"] += 1
            getattr(wire, how)()
            await asyncio.sleep(dice.choice((0, 0.3, 0.7, 1.5 * LEASE_S)))
            wire.cut()
            wire.mend()

    async def _torment_redis(self, redis: RedisServer) -> None:
        dice = self._dice
        while True:
            await self._wait()
            self.done["Redis killed"] += 1
            redis.kill()
            await asyncio.sleep(dice.choice((0, 0.3, 1, 1.5 * LEASE_S)))
            await to_its_end(asyncio.to_thread(redis.start))

    async def _torment_database(self, database: PostgresServer) -> None:
        """Take the records' database away, with or without a word, and give it back."""
        dice = self._dice
        while True:
            await self._wait()
            how = dice.choice(("killed", "stopped"))
            self.done[f"database {how}"] += 1
            end = database.kill if how == "killed" else database.stop
            await to_its_end(asyncio.to_thread(end))
            await asyncio.sleep(dice.choice((0, 0.5, 2, 4)))
            await to_its_end(asyncio.to_thread(database.start))


async def _mend(replicas: list[Replica], where: Place, database: PostgresServer | None) -> None:
    """Let everything run again."""
    if database is not None:
        await asyncio.to_thread(database.start)
    for wire in where.wires:
        wire.mend()
    if where.redis is not None and not where.redis.answers:
        where.redis.kill()
        await asyncio.to_thread(where.redis.start)
    for replica in replicas:
        if replica.runs:
            replica.signal(signal.SIGCONT)
        await revive(replica)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log", choices=LOGS)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--at-once", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=20, help="how many to print")
    parser.add_argument("--pause", type=int, default=10, help="requests between two kills, about")
    parser.add_argument("--no-kills", action="store_true")
    parser.add_argument("--fsync", default="everysec", choices=("everysec", "always"))
    parser.add_argument("--skew", type=float, default=1, help="provider's input beside ours")
    parser.add_argument("--postgres", action="store_true", help="rows go to a PostgreSQL")
    parser.add_argument("--budget-usd", type=float, help="of all streams, for the day")
    options = parser.parse_args()
    found = 0
    for seed in range(options.seed, options.seed + options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            storm = Storm(
                options.log,
                Path(folder),
                streams=options.streams,
                seed=seed,
                at_once=options.at_once,
                kills=not options.no_kills,
                pause=options.pause,
                budget_usd=options.budget_usd,
                fsync=options.fsync,
                skew=options.skew,
                postgres=options.postgres,
            )
            await storm.run()
        found += len(storm.verdict.faults)
        told: Counter[Any] = Counter((one.status, one.code) for one in storm.asked)
        print(f"seed {seed}: {storm.took_s:.0f} s, quiet after {storm.quiet_s:.1f} s")
        print(f"  {dict(storm.done)}\n  clients: {dict(told)}\n  {storm.verdict}", flush=True)
        for fault in storm.verdict.faults[: options.faults]:
            print(f"    {fault}")
        for one in [one for one in storm.asked if one.status in (409, 410, 500)]:
            print(f"    odd: {one}")
        for estimate in storm.verdict.late[: options.faults]:
            print(f"    late: {estimate}")
    raise SystemExit(found > 0)


if __name__ == "__main__":
    asyncio.run(main())
