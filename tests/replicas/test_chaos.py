"""Clients that move about at random while replicas and Redis are killed, stopped and started.

Every client sees every event once and in order (`Reader` holds that), and learns the end.
"""

import asyncio
import random
import signal
from pathlib import Path

import httpx2
import pytest

from tests.redis_server import RedisServer
from tests.replicas.processes import Progress, Reader, Replica, browser, running
from tests.replicas.storm import Storm, mend, raging
from tests.simulation.checker import check
from tests.simulation.history import Record
from tests.waiting import until

pytestmark = pytest.mark.proving

LEASE_S = 1.5
KEPT_S = 4.5
"""A lease that a relay which nobody stops keeps, however busy the machine is."""
STREAMS = 12
BLOWS = 6
PROMPT = [{"role": "user", "content": "a river"}]
BODY = {"model": "demo-long", "max_tokens": 500, "messages": PROMPT, "on_disconnect": "continue"}


class Client:
    """Starts a stream by a key, at any replica that answers, and reads it to the end."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        replicas: list[Replica],
        *,
        dice: random.Random,
        progress: Progress,
    ) -> None:
        self._http = http
        self._progress = progress
        self._replicas = replicas
        self._dice = dice
        self.reader: Reader | None = None
        self.refused = 0
        """The status that ended it, if it was none of the stream's own."""

    async def live(self, key: str) -> None:
        stream = await self._start(key)
        reader = self.reader = Reader(self._http, stream, self._progress)
        while not reader.ended:
            most = self._dice.choice((1, 30, 100, None))
            await reader.read(self._dice.choice(self._replicas), most=most)
            status = reader.statuses[-1] if reader.statuses else 0
            if status in (404, 409, 410):
                self.refused = status
                return
            await asyncio.sleep(0.02)

    async def _start(self, key: str) -> str:
        headers = {"prefer": "respond-async", "idempotency-key": key}
        while True:
            url = self._dice.choice(self._replicas).url
            try:
                reply = await self._http.post(f"{url}/v1/chat", json=BODY, headers=headers)
            except httpx2.TransportError:
                await asyncio.sleep(0.05)
                continue
            if reply.status_code == 202:
                stream: str = reply.json()["id"]
                return stream
            assert reply.status_code in (503, 502), reply.text
            await asyncio.sleep(0.05)


async def chaos(
    redis: RedisServer,
    folder: Path,
    seed: int,
    *,
    ways: tuple[int, ...] = (),
    kills_redis: bool = False,
    lease_s: float = LEASE_S,
) -> list[Client]:
    """Let two clients for each of the streams live through it, and return them."""
    dice, progress = random.Random(seed), Progress()
    storm = Storm(dice, progress, pause=40, lease_s=LEASE_S)
    log = f"{redis.url}?lease_s={lease_s}"
    async with running(3, folder, log, drain_s=0.3) as replicas, browser() as http:

        async def come(number: int) -> list[Client]:
            await until(lambda: storm.blows >= number * BLOWS // STREAMS, limit_s=120)
            pair = [Client(http, replicas, dice=dice, progress=progress) for _ in range(2)]
            await asyncio.gather(*(client.live(f"key-{number}") for client in pair))
            return pair

        living = asyncio.gather(*map(come, range(STREAMS)))
        strikes = [storm.strike(replicas, ways=ways)] if ways else []
        if kills_redis:
            strikes.append(storm.strike_redis(redis))
        async with raging(*strikes) as tasks:
            await until(lambda: storm.blows >= BLOWS or any(t.done() for t in tasks), limit_s=120)
        await mend(replicas, redis=redis)
        return [client for pair in await asyncio.wait_for(living, 240) for client in pair]


def seen(client: Client) -> list[str]:
    assert client.reader is not None
    return [message.data for message in client.reader.seen]


def status_of(client: Client) -> str:
    assert client.reader is not None
    status: str = client.reader.end["status"]
    return status


def history_of(clients: list[Client]) -> list[Record]:
    """Return what the clients have read, for the checker of histories."""
    records: list[Record] = []
    for number, client in enumerate(clients):
        if client.reader is not None:
            session = {"session": f"client {number}", "stream": client.reader.stream}
            records.append({"what": "read", **session, "door": "native", "after": ""})
            for message in client.reader.seen:
                records.append({"what": "frame", **session, "id": message.id, "data": message.data})
    return records


def check_pairs(clients: list[Client]) -> None:
    """Nobody was refused, and the two clients of each stream have seen the same."""
    assert [] == check(history_of(clients))
    statuses = []
    for one, other in zip(clients[::2], clients[1::2], strict=True):
        assert (0, 0) == (one.refused, other.refused)
        assert seen(one) == seen(other)
        statuses.append(status_of(one))

    assert {"completed", "interrupted"} >= set(statuses)


ALL_WAYS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)


async def test_relays_that_are_killed_stopped_and_rolled(redis, tmp_path):
    check_pairs(await chaos(redis, tmp_path, 5, ways=ALL_WAYS))


async def test_redis_that_is_killed_again_and_again(redis, tmp_path):
    """Relays that live lose nothing of what runs, though Redis comes back empty each time."""
    clients = await chaos(redis, tmp_path, 2, kills_redis=True, lease_s=KEPT_S)
    for client in clients:
        if not client.refused:
            assert "completed" == status_of(client)
    told = [client.refused for client in clients if client.refused]

    # One that comes late for a stream that ended before Redis forgot it.
    assert set(told) <= {404}
    assert len(told) < len(clients)


async def test_all_of_it_at_once(redis, tmp_path):
    clients = await chaos(redis, tmp_path, 3, ways=ALL_WAYS, kills_redis=True)

    assert {client.refused for client in clients} <= {0, 404, 409, 410}
    assert any(not client.refused for client in clients)
