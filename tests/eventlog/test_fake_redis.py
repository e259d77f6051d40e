"""The contract over the fake Redis of `tests/simulation`: what it says of Redis is true."""

import asyncio

import pytest

from tests.eventlog.accounts_contract import *  # noqa: F403
from tests.eventlog.contract import *  # noqa: F403
from tests.eventlog.contract import Elsewhere
from tests.eventlog.redis_logs import opened
from tests.eventlog.rows_contract import *  # noqa: F403
from tests.eventlog.rows_contract import QUEUES
from tests.eventlog.test_redis import (  # room in Redis is its own affair
    test_oldest_ended_streams_make_room,
    test_requests_count_among_the_bytes_of_the_log,
)
from tests.simulation.redis import FakeRedis

__all__ = [
    "test_oldest_ended_streams_make_room",
    "test_requests_count_among_the_bytes_of_the_log",
]

pytestmark = pytest.mark.proving


@pytest.fixture
async def fake_url():
    redis = FakeRedis()
    server = await asyncio.start_server(redis.serve, "127.0.0.1", 0)
    async with server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    await redis.close()


@pytest.fixture
async def event_log(fake_url, clock, once, callbacks):
    """A stream of one log, read at another: what a log reads of its own is not from Redis."""
    arguments = {"wall": clock, "queues": QUEUES, **callbacks.arguments}
    async with opened(fake_url, **arguments) as there, opened(fake_url, **arguments) as here:
        yield Elsewhere(there, here)
