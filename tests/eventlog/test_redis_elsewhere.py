"""The contract once more, with the producer in one process and all others in another."""

from collections.abc import Sequence

import pytest

from app.eventlog import Claim
from app.eventlog.record import StreamRecord
from app.eventlog.redis.log import RedisLog
from app.events import Event
from app.ledger.accounts import Settlement
from tests.eventlog.books_contract import *  # noqa: F403
from tests.eventlog.contract import *  # noqa: F403
from tests.eventlog.creating import create
from tests.eventlog.test_redis import (  # noqa: F401
    opened,
    server,
    shared,
    test_oldest_ended_streams_make_room,
)

pytestmark = pytest.mark.proving


class Elsewhere:
    """An event log whose streams are produced by `there` and read, named and removed by `here`."""

    def __init__(self, there: RedisLog, here: RedisLog) -> None:
        self._there = there
        self._here = here

    async def create(self, record: StreamRecord, *, over: str | None = None) -> Claim:
        return await self._there.create(record, over=over)

    async def append(
        self, stream: str, events: Sequence[Event], settlement: Settlement | None = None
    ) -> None:
        await self._there.append(stream, events, settlement)

    def produced(self, stream: str) -> Sequence[Event]:
        return self._there.produced(stream)

    def __getattr__(self, name: str):
        return getattr(self._here, name)


@pytest.fixture
async def event_log(server, clock, once):  # noqa: F811
    async with opened(server.url, wall=clock) as there, opened(server.url, wall=clock) as here:
        yield Elsewhere(there, here)


async def test_requests_count_among_the_bytes_of_the_log(event_log):  # type: ignore[no-redef]
    """Among those of the process that has them in memory."""
    await create(event_log, "st_1", request=b"x" * 300_000)
    assert b"x" * 300_000 == (await event_log.record("st_1")).request

    assert 300_000 < event_log._there._entries._size
    assert 0 == event_log._here._entries._size
