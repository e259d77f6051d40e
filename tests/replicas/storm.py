"""Faults that strike relays, Redis and the records' database while clients use them."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer, Wire
from tests.replicas.processes import Progress, Replica, children, to_its_end
from tests.waiting import until


async def revive(replica: Replica) -> None:
    """Start a relay again, as a supervisor does: more than once where it finds no Redis."""
    while not replica.runs:
        with suppress(TimeoutError):
            await replica.start(within_s=3)
        # It may be slow, or has just found no Redis and is about to end.
        await until(lambda: replica.listens or not replica.runs, limit_s=60)


class Storm:
    """Strikes each time that clients have progressed by about `pause` steps."""

    def __init__(
        self, dice: random.Random, progress: Progress, *, pause: int, lease_s: float
    ) -> None:
        self.blows = 0
        self._dice = dice
        self._progress = progress
        self._pause = pause
        self._lease_s = lease_s

    async def _wait(self) -> None:
        await self._progress.more(self._dice.randint(1, 2 * self._pause))
        self.blows += 1

    async def strike(
        self,
        replicas: Sequence[Replica],
        *,
        ways: Sequence[int] = (signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP),
        workers: bool = False,
    ) -> None:
        """Kill a process, or stop it for a while, and mend it."""
        dice = self._dice
        while True:
            await self._wait()
            replica, way = dice.choice(replicas), dice.choice(ways)
            if replica.runs and workers and dice.random() < 0.8:
                with suppress(ProcessLookupError, IndexError):
                    os.kill(dice.choice(children(replica.pid)), signal.SIGKILL)
            elif replica.runs and way == signal.SIGSTOP and len(replicas) > 1:
                replica.signal(way)
                try:
                    # Its lease may be over.
                    await asyncio.sleep(dice.uniform(0.1, 1.5 * self._lease_s))
                finally:
                    with suppress(ProcessLookupError):
                        replica.signal(signal.SIGCONT)
            else:
                if replica.runs and way == signal.SIGTERM:
                    replica.signal(way)
                    await to_its_end(replica.stopped())
                await to_its_end(replica.kill())
                await revive(replica)

    async def strike_wires(self, wires: Sequence[Wire]) -> None:
        """Cut a connection to Redis, let it hang, or let only its replies hang, and mend it."""
        dice = self._dice
        while True:
            await self._wait()
            wire = dice.choice(wires)
            getattr(wire, dice.choice(("cut", "hang", "mute")))()
            await asyncio.sleep(dice.choice((0, 0.3, 0.7, 1.5 * self._lease_s)))
            wire.cut()
            wire.mend()

    async def strike_redis(self, redis: RedisServer) -> None:
        """Kill Redis, and start it again after a while."""
        while True:
            await self._wait()
            redis.kill()
            await asyncio.sleep(self._dice.choice((0, 0.3, 1, 2)))
            await to_its_end(asyncio.to_thread(redis.start))

    async def strike_database(self, database: PostgresServer) -> None:
        """Kill or stop the records' database, and start it again after a while."""
        while True:
            await self._wait()
            await to_its_end(asyncio.to_thread(self._dice.choice((database.kill, database.stop))))
            await asyncio.sleep(self._dice.choice((0, 0.5, 2, 4)))
            await to_its_end(asyncio.to_thread(database.start))


@asynccontextmanager
async def raging(
    *strikes: Coroutine[Any, Any, None],
) -> AsyncIterator[list["asyncio.Task[None]"]]:
    """Let these strike; each has to do so to the end of the block."""
    tasks = [asyncio.create_task(each) for each in strikes]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        assert isinstance(outcome, asyncio.CancelledError), outcome


async def mend(
    replicas: Sequence[Replica], *, wires: Sequence[Wire] = (), redis: RedisServer | None = None
) -> None:
    """Let everything run again."""
    for wire in wires:
        wire.mend()
    if redis is not None and not redis.answers:
        redis.kill()
        await asyncio.to_thread(redis.start)
    for replica in replicas:
        if replica.runs:
            replica.signal(signal.SIGCONT)
        await revive(replica)
