"""The log in a real redis-server: the contract, at the producer and at another process."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from app.eventlog.redis.link import Away
from app.eventlog.redis.log import KEEP_S
from app.eventlog.redis.scripts import APPEND, Script
from tests.eventlog.accounts_contract import *  # noqa: F403
from tests.eventlog.broadcast_contract import *  # noqa: F403
from tests.eventlog.contract import *  # noqa: F403
from tests.eventlog.contract import END, START, Elsewhere, code_of, deltas, ended
from tests.eventlog.creating import create
from tests.eventlog.redis_logs import opened, pair
from tests.eventlog.rows_contract import *  # noqa: F403
from tests.eventlog.rows_contract import QUEUES
from tests.waiting import until

pytestmark = pytest.mark.proving


@pytest.fixture(params=["here", "elsewhere"])
async def event_log(request, server, clock, once, callbacks):
    arguments = {"wall": clock, "queues": QUEUES, **callbacks.arguments}
    async with opened(server.url, **arguments) as there:
        if request.param == "here":
            yield there
            return
        async with opened(server.url, **arguments) as here:
            yield Elsewhere(there, here)


async def test_oldest_ended_streams_make_room(event_log, clock):  # type: ignore[no-redef]
    """Room in Redis is Redis's own affair: streams that have ended leave the memory only."""
    for number in range(5):
        clock.now += 1
        await ended(event_log, f"st_{number}", size=300_000)

    assert [None] * 5 == [await code_of(event_log, f"st_{number}") for number in range(5)]


async def test_requests_count_among_the_bytes_of_the_log(event_log, clock):  # type: ignore[no-redef]
    """The same of requests: they leave the memory of their process, and Redis gives them."""
    for number in range(5):
        clock.now += 1
        stream = f"st_{number}"
        await create(event_log, stream, request=b"x" * 300_000)
        await event_log.append(stream, [START, END])

    requests = [(await event_log.info(f"st_{number}")).request for number in range(5)]
    assert [b"x" * 300_000] * 5 == requests
    kept, size = getattr(event_log, "_there", event_log).size()
    assert (kept < 5, size <= 1_000_000) == (True, True)


async def test_an_ended_stream_leaves_the_memory_though_no_other_one_ends(server, clock):
    async with asyncio.timeout(60), opened(server.url, wall=clock) as event_log:
        await ended(event_log, "st_1")
        await until(lambda: not event_log._owner.streams)
        assert {"st_1"} == event_log._owner._ended.keys()

        clock.now += KEEP_S + 1
        assert (await event_log.state("st_1")).ended  # in Redis

        assert not event_log._owner._ended


async def test_messages_go_with_the_last_of_them(event_log, server):
    await event_log.publish("commands", "a", b"", for_s=60)
    await event_log.publish("commands", "b", b"", for_s=5)
    for key in ("seseragi:broadcast:commands", "seseragi:broadcast:commands:until"):
        left_ms = int(server.ask("PTTL", key).strip(b":\r\n"))
        assert 30_000 < left_ms <= 60_000


async def test_an_append_does_not_wait_for_pushed_events_and_takes_them_along(server, monkeypatch):
    monkeypatch.setattr("app.eventlog.pace.GATHER_S", 600)
    monkeypatch.setattr("app.eventlog.pace.EACH_S", 600)
    async with asyncio.timeout(60), opened(server.url) as event_log:
        for stream in ("st_1", "st_2"):
            await create(event_log, stream)
            await event_log.append(stream, [START])
        assert event_log.push("st_1", deltas("a"))
        assert event_log.push("st_1", deltas("b"))
        before = await event_log.read("st_1", 1, timeout_s=0.1)

        await event_log.append("st_2", deltas("c"))

        assert ((), deltas("a", "b")) == (
            tuple(before),
            list(await event_log.read("st_1", 1, timeout_s=0)),
        )


async def test_events_that_come_slowly_are_not_gathered(server, monkeypatch):
    monkeypatch.setattr("app.eventlog.pace.GATHER_S", 600)
    async with asyncio.timeout(60), opened(server.url) as event_log:
        await create(event_log, "st_1")
        await event_log.append("st_1", [START])
        for number in range(3):
            assert event_log.push("st_1", deltas(f"{number}"))
            read = await event_log.read("st_1", 1 + number, timeout_s=5)
            assert deltas(f"{number}") == list(read)


async def test_pushed_events_are_written_without_an_append(server):
    async with asyncio.timeout(60), opened(server.url) as event_log:
        await create(event_log, "st_1")
        await event_log.append("st_1", [START])
        for number in range(5):
            assert event_log.push("st_1", deltas(f"{number}"))
            read = await event_log.read("st_1", 1 + number, timeout_s=30)
            assert deltas(f"{number}") == list(read)


@pytest.mark.parametrize("how", ["here", "elsewhere", "unheard"])
async def test_an_end_that_is_removed_before_it_is_acknowledged_counts(server, how):
    async with pair(server.url) as (first, second):
        await create(first, "st_1")
        await first.append("st_1", [START])
        run, removed = first._owner._link.run, asyncio.Event()

        async def acknowledge_late(done: Awaitable[Any]) -> Any:
            reply = await done
            await removed.wait()
            if how == "unheard":
                first._owner.rewrite()
                raise Away
            return reply

        def run_late(script: Script, *arguments: Any) -> Any:
            done = run(script, *arguments)
            late = script is APPEND and not removed.is_set()
            return asyncio.create_task(acknowledge_late(done)) if late else done

        first._owner._link.run = run_late
        ending = asyncio.create_task(first.append("st_1", [END]))

        async def is_ended() -> bool:
            return (await second.state("st_1")).ended

        await until(is_ended)
        if how == "unheard":
            second._tell = lambda *_: None
        await (first if how == "here" else second).delete("st_1")
        if how == "elsewhere":
            await until(lambda: "st_1" not in first._owner.streams)
        removed.set()
        placed = await asyncio.wait_for(ending, 20)

        assert placed is None or not placed.cancelled()
