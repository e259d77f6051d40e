"""The log in a real redis-server: the contract, and what it does beyond."""

from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.eventlog.redis.address import Address
from app.eventlog.redis.log import RedisLog
from tests.eventlog.books_contract import *  # noqa: F403
from tests.eventlog.contract import *  # noqa: F403
from tests.eventlog.contract import END, LIMITS, START, code_of, ended
from tests.eventlog.creating import create
from tests.redis_server import RedisServer, redis_server

pytestmark = pytest.mark.proving


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def server(shared: RedisServer) -> RedisServer:
    assert b"OK" in shared.ask("FLUSHALL")
    return shared


@asynccontextmanager
async def opened(url: str, *, lease_s: float = 15, **arguments: Any):
    event_log = RedisLog(
        Address(f"{url}?lease_s={lease_s}"), **{**LIMITS, "redis_time": False, **arguments}
    )
    await event_log.open()
    try:
        yield event_log
    finally:
        await event_log.close()


@pytest.fixture
async def event_log(server, clock, once):
    async with opened(server.url, wall=clock) as event_log:
        yield event_log


async def test_oldest_ended_streams_make_room(event_log, clock):  # type: ignore[no-redef]
    """Room in Redis is Redis's own affair: streams that have ended leave the memory only."""
    for number in range(5):
        clock.now += 1
        await ended(event_log, f"st_{number}", size=300_000)

    assert [None] * 5 == [await code_of(event_log, f"st_{number}") for number in range(5)]


async def test_requests_count_among_the_bytes_of_the_log(event_log, clock):  # type: ignore[no-redef]
    """The same of requests: they leave the memory, and Redis gives them."""
    for number in range(5):
        clock.now += 1
        stream = f"st_{number}"
        await create(event_log, stream, request=b"x" * 300_000)
        await event_log.append(stream, [START, END])

    requests = [(await event_log.record(f"st_{number}")).request for number in range(5)]
    assert [b"x" * 300_000] * 5 == requests
    assert len(event_log._entries) < 5


async def test_posts_go_with_the_last_of_them(event_log, server):
    await event_log.post("orders", "a", b"", for_s=60)
    await event_log.post("orders", "b", b"", for_s=5)
    for key in ("seseragi:posts:orders", "seseragi:posts:orders:until"):
        left_ms = int(server.ask("PTTL", key).strip(b":\r\n"))
        assert 30_000 < left_ms <= 60_000
