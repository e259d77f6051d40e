"""Paid streams of processes that are killed, and Redis too: what the books say afterwards."""

import asyncio
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from app.eventlog.redis.log import RedisLog
from app.ledger.accounts import AccountState
from tests.redis_server import redis_server
from tests.replicas.books_producer import ACCOUNTS, opened
from tests.replicas.processes import Progress
from tests.replicas.test_chaos import chaos, check_pairs
from tests.waiting import until

pytestmark = pytest.mark.proving

LEASE_S = 1.0
STREAMS = 6
KILLS = 8


class Producer:
    """One process that runs paid streams, which is started again when it was killed."""

    def __init__(self, url: str, name: str, progress: Progress) -> None:
        self._url = url
        self._progress = progress
        self._name = name
        self._life = 0
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._working = asyncio.Event()
        self.begun: list[str] = []

    async def start(self) -> None:
        self._life += 1
        self._working = asyncio.Event()
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.replicas.books_producer"),
            *(self._url, f"{self._name}{self._life}", str(STREAMS)),
            cwd=Path(__file__).parent.parent.parent,
            stdout=asyncio.subprocess.PIPE,
        )
        self._reading = asyncio.create_task(self._read(self._process, self._working))

    async def work(self) -> None:
        """Wait until it has begun a stream since it was started, or ended as it found no Redis."""
        await asyncio.wait_for(self._working.wait(), 60)

    async def _read(self, process: asyncio.subprocess.Process, working: asyncio.Event) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            words = line.decode().split()
            if len(words) == 1 and words[0].startswith("st_"):
                self.begun.append(words[0])
                self._progress.count += 1
                working.set()
        working.set()

    async def kill(self) -> None:
        if self._process is None or self._reading is None:
            return
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reading


async def all_rows(event_log: RedisLog) -> dict[str, int]:
    """Take all rows there are, and forget them."""
    rows: list[tuple[str, bytes]] = []
    while some := await event_log.rows(limit=500):
        rows += some
        await event_log.forget_rows([stream for stream, _ in some])
    assert len(rows) == len(dict(rows))
    return {stream: int(row) for stream, row in rows}


async def settled(event_log: RedisLog) -> list[AccountState]:
    """Wait until nothing runs any more, and return the accounts."""
    names = [account.name for account in ACCOUNTS]

    async def nothing_runs() -> bool:
        return not any(state.running for state in await event_log.read_accounts(names))

    await until(nothing_runs, limit_s=60)
    return await event_log.read_accounts(names)


@pytest.mark.parametrize(
    ("file", "kills_redis"),
    [("no", False), ("yes", True), ("no", True)],
    ids=["relays", "relays and Redis", "relays and a Redis that forgets"],
)
async def test_books_after_kills_at_any_moment(tmp_path: Path, file: str, kills_redis: bool):
    dice = random.Random(1)
    with redis_server(tmp_path, "--appendonly", file, "--appendfsync", "always") as redis:
        url = f"{redis.url}?lease_s={LEASE_S}"
        progress = Progress()
        producers = [Producer(url, f"{number}x", progress) for number in range(3)]
        await asyncio.gather(*(producer.start() for producer in producers))
        kills: Counter[str] = Counter()
        for _ in range(KILLS):
            await progress.more(dice.randrange(1, 60))
            if kills_redis and dice.random() < 0.4:
                redis.kill()
                await asyncio.sleep(dice.choice((0, 0.2, 0.8)))  # it is away for so long
                await asyncio.to_thread(redis.start)
                kills["redis"] += 1
            else:
                producer = dice.choice(producers)
                await producer.work()
                await progress.more(dice.randrange(30))
                await producer.kill()
                await producer.start()
                kills["relay"] += 1
        await asyncio.gather(*(producer.kill() for producer in producers))
        event_log = await opened(url)
        try:
            states = await settled(event_log)
            rows = await all_rows(event_log)
            kept = int(await event_log._link.send("HLEN", "seseragi:held"))
        finally:
            await event_log.close()
    begun = {stream for producer in producers for stream in producer.begun}
    assert 0 == kept
    for state in states:
        assert (0, 0, 0) == (state.running, state.day.held_nano_usd, state.month.held_nano_usd)
    for state in states:  # what Redis has forgotten is in neither
        assert (len(rows), sum(rows.values())) == (state.month.requests, state.month.nano_usd)
    if file == "yes" or not kills_redis:
        assert rows
        assert set() == begun - rows.keys()
        # Those that began as their process was killed, of which it could not say so.
        assert len(rows.keys() - begun) <= 2 * STREAMS * (sum(kills.values()) + 3)


async def test_relays_that_are_killed_stopped_and_rolled_lose_and_hold_nothing(
    redis, tmp_path: Path
):
    """The real command, with clients that read on wherever they can."""
    ways = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
    clients = await chaos(redis, tmp_path, 5, ways=ways)
    check_pairs(clients)
    event_log = await opened(f"{redis.url}?lease_s={LEASE_S}")
    try:
        relay, *_ = await settled(event_log)
        assert 0 == relay.month.held_nano_usd
        assert len(clients) / 2 <= relay.month.requests
        assert 0 == int(await event_log._link.send("HLEN", "seseragi:held"))
    finally:
        await event_log.close()
