"""A Redis that goes away, hangs, forgets, is full: what producers and readers are told."""

import asyncio
import time

import pytest
import structlog

from app.errors import RequestError, ServiceError
from app.eventlog import Claim, read_all
from app.eventlog.contract import ChatBusy
from app.eventlog.redis.account_scripts import account_key
from app.eventlog.redis.link import GRACE_S
from app.eventlog.redis.log import RedisLog
from app.eventlog.redis.scripts import idempotency_key, log_key, meta_key, name_key
from app.eventlog.stream_info import scoped
from app.events import Event, StreamEnd
from tests.eventlog.contract import END, START, code_of, deltas, let_wait
from tests.eventlog.creating import create, found
from tests.eventlog.redis_logs import (
    LEASE_S,
    STEADY_S,
    field,
    lose,
    opened,
    outlive,
    read_to_end,
)
from tests.redis_server import redis_server
from tests.waiting import until

pytestmark = pytest.mark.proving


async def test_short_break_is_not_noticed(server, wire):
    async with opened(wire.url) as first, opened(server.url) as second:
        await create(first, "st_1")
        reading = asyncio.create_task(read_to_end(second))
        expected: list[Event] = [START]
        await first.append("st_1", [START])
        for number in range(60):
            if number % 20 == 10:
                wire.cut()
                wire.mend()
            batch = deltas(f"{number}")
            await first.append("st_1", batch)
            assert first.healthy()
            expected += batch
        await first.append("st_1", [END])

        assert [*expected, END] == await reading == await read_all(first, "st_1")


@pytest.mark.parametrize("how", ["cut", "hang"])
async def test_readers_of_the_owner_go_on_while_redis_is_away(server, wire, how, impatient):
    async with opened(wire.url, lease_s=60) as first, opened(server.url, lease_s=60) as second:
        await create(first, "st_1")
        await first.append("st_1", [START])
        reading = asyncio.create_task(read_to_end(first))
        elsewhere = asyncio.create_task(read_to_end(second))
        impatient()
        getattr(wire, how)()
        await first.append("st_1", deltas("a"))
        await until(lambda: not first.healthy())
        took = []
        for text in "bcdefgh":
            started = time.monotonic()
            await first.append("st_1", deltas(text))
            took.append(time.monotonic() - started)
        assert min(took) < GRACE_S / 2  # one that waited for Redis would take all of it
        with pytest.raises(ServiceError, match="cannot be reached") as caught:
            await create(first, "st_2")
        assert "overloaded" == caught.value.code
        await first.append("st_1", [END])
        events = [START, *deltas(*"abcdefgh"), END]
        assert events == await asyncio.wait_for(reading, 20)
        assert not elsewhere.done()
        wire.mend()

        assert events == await elsewhere
        await until(first.healthy)


async def test_end_is_in_its_place_once_redis_that_was_away_has_it(server, wire, impatient):
    async with opened(wire.url, lease_s=60) as event_log:
        for stream in ("st_1", "st_2"):
            await create(event_log, stream)
            await event_log.append(stream, [START])
        impatient()
        wire.cut()
        await until(lambda: not event_log.healthy())
        first, second = [await event_log.append(s, [END]) for s in ("st_1", "st_2")]
        assert first is not None
        assert second is not None
        assert not first.done()
        server.ask("HSET", meta_key("st_2"), "owner", "another", "epoch", "2")
        wire.mend()

        assert None is await asyncio.wait_for(first, 20)
        await until(second.cancelled)  # it has another end


async def test_redis_that_is_away_before_the_end_of_the_process_holds_nobody_up(wire):
    async with opened(wire.url) as event_log:
        await create(event_log, "st_1")
        await event_log.append("st_1", [START])
        wire.hang()
        appending = asyncio.create_task(event_log.append("st_1", [END]))
        started = time.monotonic()
    appending.cancel()

    assert time.monotonic() - started < 20  # and not until Redis answers, which is never


async def test_redis_that_comes_back_empty_is_told_all(tmp_path, impatient):
    with redis_server(tmp_path) as own:
        async with opened(own.url) as first, opened(own.url) as second:
            await create(first, "st_1", key="key", digest="d", names=("a chat",))
            await first.append("st_1", [START, *deltas("a")])
            await create(first, "st_2")
            await first.append("st_2", [START, END])
            reading = asyncio.create_task(read_to_end(second))
            await let_wait(second)
            impatient()
            own.kill()
            await until(lambda: not first.healthy())
            await first.append("st_1", deltas("b"))
            own.start()
            await until(first.healthy)
            await first.append("st_1", [*deltas("c"), END])
            events = [START, *deltas("a", "b", "c"), END]

            assert events == await reading == await read_all(first, "st_1")
            assert [START, END] == await read_all(first, "st_2")  # it had ended only just
            async with opened(own.url) as third:
                for event_log in (first, second, third):
                    assert events == await read_all(event_log, "st_1")
                    assert "st_1" == await found(event_log, "a chat")
                    assert Claim("st_1", "d") == await event_log.claimed("key")
                assert [END] == await third.read("st_2", 1, timeout_s=20)  # soon, too


async def test_redis_that_comes_back_with_its_data_goes_on(tmp_path, impatient):
    """It was away for longer than a lease, and nobody has taken that for a lost owner."""
    with redis_server(tmp_path, "--appendonly", "yes") as own:
        steady = {"lease_s": STEADY_S}
        async with opened(own.url, **steady) as first, opened(own.url, **steady) as second:
            second._lease.settle_s = STEADY_S
            await create(first, "st_1")
            await first.append("st_1", [START, *deltas("a")])
            await create(first, "st_2")
            await first.append("st_2", [START, END])
            outlive(own, first)
            impatient()
            own.kill()
            await until(lambda: not first.healthy())
            await first.append("st_1", deltas("b"))
            own.start()
            await until(lambda: first.healthy() and second.healthy())
            reading = asyncio.create_task(read_to_end(second))
            await first.append("st_1", [*deltas("c"), END])

            assert [START, *deltas("a", "b", "c"), END] == await reading
            assert [START, END] == await read_all(second, "st_2")


async def test_failover_that_lost_the_last_writes_is_made_good(tmp_path, wire):
    (tmp_path / "replica").mkdir()
    with (
        redis_server(tmp_path) as master,
        redis_server(tmp_path / "replica", "--replicaof", f"127.0.0.1 {master.port}") as replica,
    ):
        wire.to = master.port
        async with opened(wire.url) as first, opened(wire.url) as second:
            await create(first, "st_1")
            await first.append("st_1", [START, *deltas("a", "b")])
            await create(first, "st_2")
            await first.append("st_2", [START])
            await until(lambda: b"b" in replica.ask("XRANGE", "seseragi:{st_1}:log", "3-0", "+"))
            reading = asyncio.create_task(read_to_end(second))
            replica.ask("REPLICAOF", "NO", "ONE")
            await first.append("st_1", deltas("c", "d"))
            await first.append("st_2", [END])
            await second.read("st_1", 4, timeout_s=1)
            wire.to = replica.port
            wire.cut()
            wire.mend()
            await first.append("st_1", [*deltas("e"), END])

            events = [START, *deltas("a", "b", "c", "d", "e"), END]
            assert events == await reading
            async with opened(replica.url) as third:
                assert events == await read_all(third, "st_1")
                assert [END] == await third.read("st_2", 1, timeout_s=20)  # soon, too


async def test_full_redis_takes_no_new_streams_and_stops_no_running_ones(tmp_path):
    with redis_server(tmp_path) as own:
        async with opened(own.url) as first, opened(own.url) as second:
            await create(first, "st_1")
            await first.append("st_1", [START])
            own.ask("CONFIG", "SET", "maxmemory", "1")
            await first.append("st_1", deltas("a"))
            assert first._owner.refused
            assert first.healthy()  # it serves what it has
            assert [START, *deltas("a")] == await read_all(first, "st_1")
            with pytest.raises(ServiceError, match="takes nothing at the moment"):
                await create(second, "st_2")
            await first.append("st_1", deltas("b"))
            own.ask("CONFIG", "SET", "maxmemory", "0")
            await until(lambda: not first._owner.refused)
            await first.append("st_1", [END])

            assert [START, *deltas("a", "b"), END] == await read_all(second, "st_1")


async def test_full_redis_takes_no_stream_from_its_owner(tmp_path, callbacks):
    """Leases are renewed, and what is lost is ended and stopped, though nothing else is taken."""
    with redis_server(tmp_path) as own:
        async with (
            opened(own.url, lease_s=3, **callbacks.arguments) as first,
            opened(own.url, lease_s=LEASE_S) as second,
        ):
            for stream in ("st_1", "st_2"):
                await create(first, stream)
                await first.append(stream, [START])
            own.ask("CONFIG", "SET", "maxmemory", "1")
            await first.append("st_1", deltas("a"))
            until_ms = field(own, "st_1", "lease")
            await until(lambda: field(own, "st_1", "lease") > until_ms)
            assert not (await second.state("st_1")).ended
            await second.ask_stop("st_2")
            await until(lambda: ("st_2", "user") in callbacks.stopped)
            lose(own, first)
            await until_ended(second, "st_2")
            first._owner.open()
            own.ask("CONFIG", "SET", "maxmemory", "0")


async def until_ended(event_log: RedisLog, stream: str) -> None:
    async def is_ended() -> bool:
        return (await event_log.state(stream)).ended

    await until(is_ended)


async def test_readers_of_others_streams_are_sent_away_in_time(server, wire, impatient):
    async with opened(server.url) as first, opened(wire.url, lease_s=1) as second:
        await create(first, "st_1")
        await first.append("st_1", [START])
        assert [START] == await second.read("st_1", 0, timeout_s=20)
        told: list[object] = []

        async def read_on() -> float:
            while not second.follow("st_1", 1, told.append):
                await second.read("st_1", 1, timeout_s=0.05)
            impatient()
            wire.hang()
            started = time.monotonic()
            while True:  # as a response does
                await until(lambda: told)
                try:
                    assert () == await second.read("st_1", 1, timeout_s=0.1)
                except ServiceError:
                    return time.monotonic() - started

        reading = asyncio.create_task(read_on())

        assert 1 < await asyncio.wait_for(reading, 20)
        with pytest.raises(ServiceError):
            await second.state("st_1")


async def test_unknown_is_not_said_before_owners_had_time_to_come_back(server, wire, impatient):
    async with opened(wire.url, lease_s=LEASE_S) as event_log:
        assert "not_found" == await code_of(event_log, "st_1")
        event_log._lease.settle_s = 60
        impatient()
        wire.cut()
        await until(lambda: event_log._link.away)  # that of the readers may be so first
        wire.mend()
        await until(event_log.healthy)
        assert "overloaded" == await code_of(event_log, "st_1")
        event_log._lease.settle_s = 0

        assert "not_found" == await code_of(event_log, "st_1")


async def test_stream_with_a_hole_in_it_is_gone(server):
    """No event is shown twice, or under another's number, in the place of one that is missing."""
    async with opened(server.url) as first, opened(server.url) as second:
        await create(first, "st_1")
        await first.append("st_1", [START, *deltas("a", "b"), END])
        server.ask("XDEL", "seseragi:{st_1}:log", "2-0")
        with pytest.raises(RequestError, match="is gone"):
            await second.read("st_1", 0, timeout_s=0)


META, LOG, CLAIM = meta_key("st_1"), log_key("st_1"), idempotency_key(scoped("", "k"))
FOREIGN = {
    "a text as the stream": (META, "SET", "x"),
    "a text as the events": (LOG, "SET", "x"),
    "no number of the last event": (META, "HSET", "last", "x"),
    "no name of the owner": (META, "HSET", "who", r'"\xff"'),
    "no text as the key": (CLAIM, "SET", r'"\xff"'),
    "no numbers as the account": (account_key("relay"), "SET", "x"),
}


@pytest.mark.parametrize(
    ("key", "command", "words"), [(k, c, w) for k, c, *w in FOREIGN.values()], ids=FOREIGN
)
async def test_value_that_the_relay_has_not_written_is_told_in_one_line(
    server, key, command, words
):
    async with opened(server.url) as first, opened(server.url) as second:
        second._lease.settle_s = 0
        await create(first, "st_1", key="k")
        await first.append("st_1", [START, *deltas("a")])
        if command != "HSET":
            server.ask("DEL", key)
        assert not server.ask(command, key, *words).startswith(b"-")
        acts = {
            META: lambda: second.state("st_1"),
            LOG: lambda: second.read("st_1", 0, timeout_s=0),
            CLAIM: lambda: create(second, "st_2", key="k"),
        }
        with structlog.testing.capture_logs() as lines:
            with pytest.raises(ServiceError, match="the event log failed") as failed:
                await acts.get(key, lambda: second.read_accounts(["relay"]))()
            await second._pages.end_soon("st_1")
            await second._orphans._end_some()
            assert second.healthy()

        assert "internal" == failed.value.code
        assert key in str(lines[0]) or "WRONGTYPE" in lines[0]["error"]
        assert not [line for line in lines if "exc_info" in line]


@pytest.mark.parametrize("at", ["create", "append"])
@pytest.mark.parametrize("how", ["cut", "hang", "mute"])
async def test_stream_with_a_key_begins_in_redis_or_not_at_all(server, wire, how, at, impatient):
    """One that is found by its key is the one whose upstream is called; else the key is free."""
    async with opened(wire.url) as first, opened(server.url) as second:
        if at == "append":
            await create(first, "st_1", key="key", digest="d")
        impatient()
        getattr(wire, how)()
        asks = {
            "create": lambda: create(first, "st_1", key="key", digest="d"),
            "append": lambda: first.append("st_1", [START]),
        }
        with pytest.raises(ServiceError, match="cannot be reached"):
            await asks[at]()
        wire.cut()
        wire.mend()
        await until(first.healthy)
        await until(lambda: not first._owner._abandoned)

        events = await read_all(second, "st_1") if (at, how) == ("append", "mute") else []
        if events:  # it had got there: it ends as one that failed before it began
            end = events[-1]
            assert isinstance(end, StreamEnd)
            assert end.error is not None
            told = (end.status, end.error.code, end.error.retryable)
            assert ("failed", "overloaded", True) == told
        else:
            assert "stream_expired" == await code_of(second, "st_1")
            assert None is await second.claimed("key")
        claim = await create(second, "st_2", key="key", digest="d", over="st_1")
        assert Claim("st_2", "d") == claim


async def test_unknown_key_waits_for_those_who_may_know_it(tmp_path):
    """For a moment after Redis was started again, which may have forgotten it."""
    with redis_server(tmp_path) as own:
        async with opened(own.url) as first:
            first._lease.settle_s = 60
            own.kill()
            own.start()
            with pytest.raises(ServiceError, match="same key") as caught:
                await create(first, "st_1", key="key", digest="d")
            assert "overloaded" == caught.value.code
            first._lease.settle_s = 0

            assert "st_2" == (await create(first, "st_2", key="key", digest="d")).stream


async def test_stream_waits_for_those_that_may_run_in_its_chat(tmp_path, impatient):
    """Redis came back empty: the owner has not told yet that a stream of the chat runs."""
    with redis_server(tmp_path) as own:
        async with opened(own.url) as first, opened(own.url) as second:
            await create(first, "st_1", names=("a chat",))
            await first.append("st_1", [START])
            second._lease.settle_s = 60
            impatient()
            own.kill()
            own.start()
            with pytest.raises(ServiceError, match=r"may lack .*the chat's streams"):
                await create(second, "st_2", names=("a chat",), alone=True)
            await until(first.healthy)
            await first.append("st_1", deltas("a"))
            second._lease.settle_s = 0
            with pytest.raises(ChatBusy, match="st_1 is running"):
                await create(second, "st_3", names=("a chat",), alone=True)


async def test_command_that_is_sent_again_finds_its_own_stream(server):
    """Its reply was lost, and another stream of the chat runs beside it by now."""
    async with opened(server.url) as first, opened(server.url) as second:
        await create(first, "st_1", names=("a chat",), alone=True)
        local = first._owner.streams["st_1"]
        await create(second, "st_2", names=("a chat",))
        bonds = ("", "", "1000", "1", name_key("a chat"))
        assert 1 == await first._owner._create(local, *bonds)

        assert {"st_1", "st_2"} == set(await second.named("a chat"))


async def test_unknown_key_does_not_wait_after_a_short_break(server, wire):
    async with opened(wire.url) as first:
        wire.cut()
        wire.mend()

        assert "st_1" == (await create(first, "st_1", key="key", digest="d")).stream


@pytest.mark.parametrize("lost", ["FLUSHALL", "DEL seseragi:{st_1}:log"])
async def test_request_is_written_again_to_a_redis_that_lost_it(server, lost):
    async with opened(server.url) as first, opened(server.url) as second:
        await create(first, "st_1", request=b"asked")
        await first.append("st_1", [START])
        assert b"asked" == (await second.info("st_1")).request
        server.ask(*lost.split())  # which nobody is told of
        await first.append("st_1", deltas("a"))
        await first.append("st_1", [END])

        assert b"asked" == (await second.info("st_1")).request
        assert [START, *deltas("a"), END] == await read_all(second, "st_1")
