"""The log in memory: the contract, retention and its bound."""

import pytest

from app.errors import RequestError, ServiceError
from app.eventlog.memory import MemoryLog
from app.events import StreamEnd, StreamStart
from tests.eventlog.contract import *  # noqa: F403
from tests.eventlog.contract import deltas

END = StreamEnd("completed", "stop")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def event_log(clock: Clock) -> MemoryLog:
    return MemoryLog(retention_s=100, max_bytes=1_000_000, now=clock)


async def ended(event_log: MemoryLog, stream: str, size: int = 1) -> None:
    await event_log.create(stream)
    await event_log.append(stream, [StreamStart(stream, "demo", 0), *deltas("x" * size), END])


async def test_ended_stream_is_kept_for_its_time(event_log, clock):
    await ended(event_log, "st_1")
    clock.now = 99
    assert (await event_log.state("st_1")).ended
    clock.now = 100
    with pytest.raises(RequestError) as caught:
        await event_log.state("st_1")

    assert "stream_expired" == caught.value.code
    assert "100 s" in caught.value.message


async def test_running_stream_does_not_expire(event_log, clock):
    await event_log.create("st_1")
    clock.now = 1e6

    assert not (await event_log.state("st_1")).ended


async def test_oldest_ended_streams_make_room(event_log):
    for number in range(5):
        await ended(event_log, f"st_{number}", size=300_000)
    with pytest.raises(RequestError):
        await event_log.state("st_0")

    assert (await event_log.state("st_1")).ended
    assert (await event_log.state("st_4")).ended


async def test_running_streams_that_fill_the_memory_refuse_new_ones(event_log):
    await event_log.create("st_1")
    await event_log.append("st_1", deltas("x" * 1_100_000))
    with pytest.raises(ServiceError) as caught:
        await event_log.create("st_2")
    assert "overloaded" == caught.value.code
    await event_log.append("st_1", [END])
    await event_log.create("st_2")
