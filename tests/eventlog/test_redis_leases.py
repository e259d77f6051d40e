"""Two processes over one Redis: who owns a stream, who ends it, what the other is told."""

import asyncio

import pytest

from app.errors import RequestError, ServiceError
from app.eventlog import Claim, read_all
from app.eventlog.recovery import LOST
from app.eventlog.stream_info import StreamInfo
from app.events import (
    Event,
    StreamEnd,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from tests.eventlog.contract import END, START, code_of, deltas, let_wait
from tests.eventlog.creating import create
from tests.eventlog.redis_logs import (
    LEASE_S,
    STEADY_S,
    field,
    lose,
    opened,
    outlive,
    read_to_end,
)
from tests.redis_server import wire_to
from tests.waiting import until

pytestmark = pytest.mark.proving

HEAD: list[Event] = [START, TextStart(0), TextDelta(0, "a"), ToolCallStart(1, "c", "f")]
LOST_END = StreamEnd("interrupted", "error", error=LOST, ended_by="relay_lost")


@pytest.fixture
async def logs(server, callbacks):
    async with (
        opened(server.url, lease_s=STEADY_S, **callbacks.arguments) as first,
        opened(server.url, lease_s=LEASE_S) as second,
        opened(server.url, lease_s=LEASE_S) as third,
    ):
        yield first, second, third


async def test_lease_that_is_renewed_holds(server):
    async with (
        opened(server.url, lease_s=3) as first,
        opened(server.url, lease_s=LEASE_S) as second,
    ):
        await create(first, "st_1")
        await first.append("st_1", HEAD)
        reading = asyncio.create_task(second.read("st_1", len(HEAD), timeout_s=60))
        until_ms = field(server, "st_1", "lease")
        await until(lambda: field(server, "st_1", "lease") >= until_ms + 3000)
        assert not (await second.state("st_1")).ended
        await first.append("st_1", [END])

        assert [END] == list(await reading)


async def test_stream_of_a_lost_owner_is_ended_once_and_well(logs, server):
    first, second, third = logs
    await create(first, "st_1")
    await first.append("st_1", [*HEAD, ToolCallDelta(1, '{"x"')])
    readers = [
        asyncio.create_task(read_to_end(event_log, after=after))
        for event_log in (second, third)
        for after in range(6)
    ]
    await let_wait(second)
    await let_wait(third)
    lose(server, first)
    ending = [TextEnd(0), ToolCallEnd(1, '{"x"', incomplete=True), LOST_END]
    events = [*HEAD, ToolCallDelta(1, '{"x"'), *ending]
    for number, reader in enumerate(readers):
        assert events[number % 6 :] == await reader

    assert events == await read_all(third, "st_1")


async def test_stream_that_never_began_is_removed_with_its_key(logs, server):
    first, second, _ = logs
    await create(first, "st_1", key="key", digest="d")
    lose(server, first)

    assert "stream_expired" == await code_of(second, "st_1")
    assert "st_2" == (await create(second, "st_2", key="key", digest="d")).stream


async def test_owner_that_wakes_up_late_cannot_write(server, impatient, callbacks):
    async with (
        wire_to(server.port) as wire,
        opened(wire.url, lease_s=STEADY_S, **callbacks.arguments) as first,
        opened(server.url, lease_s=LEASE_S) as second,
    ):
        await create(first, "st_1")
        await first.append("st_1", HEAD)
        impatient()
        wire.hang()
        outlive(server, first)
        reading = asyncio.create_task(read_to_end(second))
        # Two readers stay with the owner; one sees events that Redis will never have.
        behind = asyncio.create_task(read_to_end(first, after=len(HEAD)))
        assert [*HEAD, TextEnd(0), ToolCallEnd(1, "", incomplete=True), LOST_END] == await reading
        behind.cancel()
        await first.append("st_1", deltas("b"))
        assert deltas("b") == list(await first.read("st_1", len(HEAD), timeout_s=20))
        wire.mend()
        await until(lambda: callbacks.stopped)
        with pytest.raises(ServiceError, match="ended elsewhere"):
            await first.append("st_1", [END])

        assert await reading == await read_all(first, "st_1")
        assert await reading == await read_all(second, "st_1")
        for event_log in (first, second):
            with pytest.raises(RequestError, match="kept up to event 4 only") as caught:
                await event_log.read("st_1", len(HEAD) + 1, timeout_s=1)
            assert "conflict" == caught.value.code


async def test_readers_of_a_fenced_owner_that_are_not_ahead_read_on(logs, server):
    first, second, _ = logs
    await create(first, "st_1")
    await first.append("st_1", HEAD)
    reader = asyncio.create_task(read_to_end(first))
    first._owner._tasks.stop()
    outlive(server, first)
    assert (await second.state("st_1")).ended
    first._owner.open()

    assert [*HEAD, TextEnd(0), ToolCallEnd(1, "", incomplete=True), LOST_END] == await reader


@pytest.mark.parametrize("by", ["user", "operator"])
async def test_owner_that_missed_the_message_sees_the_mark(logs, callbacks, by):
    first, second, _ = logs
    await create(first, "st_1")
    await first.append("st_1", HEAD)
    first._tails._tasks.stop()
    await second.ask_stop("st_1", by)

    await until(lambda: [("st_1", by)] == callbacks.stopped[:1])


async def test_owner_that_slept_as_its_stream_began_has_lost_the_key(logs, server):
    first, second, _ = logs
    await create(first, "st_1", key="key", digest="d")
    lose(server, first)
    assert "st_2" == (await create(second, "st_2", key="key", digest="d")).stream
    await second.append("st_2", [START])
    first._owner.open()
    with pytest.raises(RequestError) as caught:
        await asyncio.wait_for(first.append("st_1", [START]), 20)

    assert "stream_expired" == caught.value.code
    assert Claim("st_2", "d") == await create(first, "st_3", key="key", digest="d")


async def test_stream_that_was_created_twice_is_one(logs):
    """As a command does that is sent again: its key leads to the stream that it led to."""
    first, second, _ = logs
    for _ in range(2):
        assert "st_1 d" == await first._owner.create(StreamInfo("st_1"), key="key", value="st_1 d")
    assert "st_1 d" == await second._owner.create(StreamInfo("st_2"), key="key", value="st_2 d")
    await first.append("st_1", [START])
    first._owner._entries.drop("st_1")
    assert "st_1 d" == await first._owner.create(StreamInfo("st_1"), key="key", value="st_1 d")

    assert [START] == await read_all(second, "st_1")
