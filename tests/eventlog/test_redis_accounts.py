"""Money in Redis when something fails: nothing stays held, and nothing is settled twice."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from app.eventlog import Claim, read_all
from app.eventlog.recovery import Closing, OrphanedStream
from app.eventlog.redis.account_scripts import FORMAT_KEY, HOLDS, ROWS, ROWS_DROPPED, ROWS_DUE
from app.eventlog.redis.log import RedisLog
from app.eventlog.redis.scripts import (
    APPEND,
    CREATE,
    OWNERS,
    log_key,
    meta_key,
    running_key,
)
from app.eventlog.stream_ended import StreamEnded
from app.eventlog.stream_info import StreamInfo
from app.eventlog.waiting_rows import MAX_ROWS
from app.events import Notice, StreamEnd, StreamTarget, TextDelta
from app.ledger.accounts import (
    Account,
    AccountState,
    LimitReached,
    ReservationRequest,
    Settlement,
)
from tests.eventlog.accounts_contract import (
    BEGUN,
    DONE,
    MONEY,
    SPENT,
    asking,
    info,
    period,
    refusal,
    run,
    state_of,
)
from tests.eventlog.contract import code_of
from tests.eventlog.redis_logs import LEASE_S, STEADY_S, lose, opened, outlive, pair, watched
from tests.redis_server import RedisServer, redis_server, wire_to
from tests.waiting import until

pytestmark = pytest.mark.proving

CEILING = 110
"""What is held for a stream of `asking()`."""

ANSWERED = [
    BEGUN,
    Notice("retry", "busy"),
    StreamTarget("demo", "demo", 2),
    TextDelta(0, "12345678"),
]


def close(lost: OrphanedStream) -> Closing:
    """Cost as many nano-USD as the answer has quarters of tokens, or what was held."""
    info, end, retries = lost.ended.info, lost.ended.end, lost.ended.attempts - 1
    end = StreamEnd(end.status, "error", error=end.error, cost=f"0.{lost.weight}")
    nano = lost.weight if lost.reserved is None else lost.reserved.nano_usd
    row = f"{info.id} {info.route} {retries} {nano}"
    return Closing(
        msgspec.structs.replace(lost.ended, end=end), Settlement(10, 1, nano, row=row.encode())
    )


def asked(stream: str) -> StreamInfo:
    """Return the info that keeps something of the request, which is not held with it."""
    return msgspec.structs.replace(info(stream, asking(), route="fast"), request=b"asked")


async def rows_of(event_log: RedisLog) -> list[tuple[str, str]]:
    return [(stream, row.decode()) for stream, row in await event_log.rows(limit=1000)]


async def until_numbers(event_log: RedisLog, *wanted: int) -> None:
    async def are_there() -> bool:
        return numbers(await state_of(event_log)) == wanted

    await until(are_there)


async def let_go(event_log: RedisLog) -> AccountState:
    """Wait until nothing is held any more, and return the account."""

    async def is_quiet() -> bool:
        return not (await state_of(event_log)).running

    await until(is_quiet, limit_s=60)
    state = await state_of(event_log)
    assert 0 == period(state).held_nano_usd
    return state


def numbers(state: AccountState) -> tuple[int, ...]:
    return (state.running, state.day.held_nano_usd, state.day.requests, state.day.nano_usd)


@pytest.mark.parametrize("script", [CREATE, APPEND], ids=["CREATE", "APPEND"])
async def test_command_whose_answer_is_lost_counts_once(server, script):
    async with wire_to(server.port) as wire, opened(wire.url) as event_log:
        if script is APPEND:
            await event_log.create(info("st_1", asking()))
            await event_log.append("st_1", [BEGUN])
        wire.mute(script.sha.encode())
        doing: asyncio.Task[Any]
        if script is CREATE:
            doing = asyncio.create_task(event_log.create(info("st_1", asking())))
        else:
            doing = asyncio.create_task(event_log.append("st_1", [DONE], SPENT))
        taken = b":1" if script is CREATE else b":0"
        await until(lambda: taken in server.ask("HLEN", "seseragi:held"))
        wire.cut()
        wire.mend()
        answer = await doing
        if script is CREATE:
            assert 100 == answer.grant.output_tokens
            assert (1, CEILING, 0, 0) == numbers(await state_of(event_log))
            await event_log.append("st_1", [BEGUN, DONE], SPENT)

        assert (0, 0, 1, MONEY) == numbers(await state_of(event_log))
        assert [("st_1", "row")] == await rows_of(event_log)


async def test_stream_that_never_came_to_be_holds_nothing(server, impatient):
    """Its owner takes it back, whether Redis has it or not."""
    async with wire_to(server.port) as wire, opened(wire.url) as event_log:
        impatient()
        wire.mute(CREATE.sha.encode())
        with pytest.raises(Exception, match="cannot be reached"):
            await event_log.create(info("st_1", asking(), key="k", digest="d"))
        assert b":1" in server.ask("HLEN", "seseragi:held")
        wire.cut()
        wire.mend()
        await until(event_log.healthy)
        await until(lambda: not event_log._owner._abandoned)

        assert (0, 0, 0, 0) == numbers(await state_of(event_log))
        assert [] == await rows_of(event_log)


@pytest.mark.parametrize("key", [None, "k"])
async def test_stream_is_taken_back_where_redis_goes_before_its_first_event(key, server, impatient):
    """So nobody is called for one of which Redis knows nothing: else a lost relay's had a cost."""
    async with wire_to(server.port) as wire, opened(wire.url) as event_log:
        for stream in ("st_1", "st_2"):
            named = None if key is None else f"{key}{stream}"
            await event_log.create(info(stream, asking(), key=named, digest="d"))
        impatient()
        wire.hang()
        with pytest.raises(Exception, match="cannot be reached"):
            await event_log.append("st_1", [BEGUN])
        await event_log.delete("st_2")  # which its producer does that cannot begin it
        wire.cut()
        wire.mend()
        await until(event_log.healthy)
        await until(lambda: not event_log._owner._abandoned)

        assert (0, 0, 0, 0) == numbers(await state_of(event_log))
        for stream in ("st_1", "st_2"):
            assert "stream_expired" == await code_of(event_log, stream)


async def test_whoever_ends_a_lost_stream_settles_it(server):
    told: list[StreamEnded] = []
    calls = {"close": close, "on_ended": told.append}
    async with (
        opened(server.url, lease_s=STEADY_S, **calls) as first,
        opened(server.url, lease_s=LEASE_S, **calls) as second,
        opened(server.url, lease_s=LEASE_S, **calls) as third,
    ):
        await first.create(asked("st_1"))
        await first.append("st_1", ANSWERED)
        await first.create(info("st_2", asking(), key="k", digest="d"))
        await first.create(info("st_3", asking()))  # nobody was called for either of them
        lose(server, first)
        state = await let_go(second)

        assert (0, 0, 1, 8) == numbers(state)
        assert [("st_1", "st_1 fast 1 8")] == sorted(await rows_of(third))
        for never_begun in ("st_2", "st_3"):
            assert "stream_expired" == await code_of(second, never_begun)
        end = (await read_all(second, "st_1"))[-1]
        assert isinstance(end, StreamEnd)
        assert "0.8" == end.cost
        assert [end] == [ended.end for ended in told]


async def test_owner_that_comes_back_late_settles_nothing(server):
    # It may be the first one's other half that ends it.
    async with watched(server.url, close=close) as (first, second):
        await first.create(info("st_1", asking()))
        await first.append("st_1", ANSWERED)
        first._owner._tasks.stop()
        outlive(server, first)
        await let_go(second)
        first._owner.open()
        with pytest.raises(Exception, match="ended elsewhere"):
            await first.append("st_1", [DONE], SPENT)

        assert (0, 0, 1, 8) == numbers(await state_of(second))
        assert 1 == len(await rows_of(second))


async def test_key_that_is_taken_back_lets_go_of_what_was_held(server):
    async with opened(server.url) as first, opened(server.url, lease_s=60) as second:
        await first.create(info("st_1", asking(), key="key", digest="d"))
        await first.append("st_1", [BEGUN])
        server.ask("FLUSHALL")  # which nobody is told of
        await second.create(info("st_2", asking(), key="key", digest="d"))
        assert (1, CEILING, 0, 0) == numbers(await state_of(first))
        await first.append("st_1", [TextDelta(0, "a")])

        assert (1, CEILING, 0, 0) == numbers(await state_of(first))
        assert Claim("st_1", "d") == await second.claimed("key")
        await first.append("st_1", [DONE], SPENT)
        assert (0, 0, 1, MONEY) == numbers(await state_of(first))


async def test_redis_that_comes_back_empty_is_told_what_runs_and_what_has_just_ended(tmp_path):
    account = Account("relay", nano_usd_per_day=2 * CEILING)
    with redis_server(tmp_path) as own:
        async with opened(own.url) as first, opened(own.url) as second:
            await first.create(info("st_1", asking(account, output_tokens=60)))
            await first.append("st_1", [BEGUN])
            await run(first, "st_2", asking(account))
            own.kill()
            own.start()
            await until(first.healthy)
            await until_numbers(second, 1, 70, 1, MONEY)
            await first.append("st_1", [DONE], SPENT)

            assert (0, 0, 2, 2 * MONEY) == numbers(await state_of(second))
            assert {"st_1", "st_2"} == {stream for stream, _ in await rows_of(second)}


async def test_stream_that_runs_is_held_for_anew_whatever_is_left(tmp_path):
    account = Account("relay", nano_usd_per_day=CEILING)
    with redis_server(tmp_path) as own:
        async with opened(own.url) as first, opened(own.url) as second:
            await first.create(info("st_1", asking(account)))
            await first.append("st_1", [BEGUN])
            own.ask("FLUSHALL")
            await second.create(info("st_2", asking(account)))
            await first.append("st_1", [TextDelta(0, "a")])
            assert (2, 2 * CEILING, 0, 0) == numbers(await state_of(first))
            await first.append("st_1", [DONE], SPENT)
            assert (1, CEILING, 1, MONEY) == numbers(await state_of(first))


async def test_failover_that_lost_the_last_writes_settles_again(tmp_path):
    (tmp_path / "replica").mkdir()
    with (
        redis_server(tmp_path) as master,
        redis_server(tmp_path / "replica", "--replicaof", f"127.0.0.1 {master.port}") as replica,
    ):
        async with wire_to(master.port) as wire, opened(wire.url) as first:
            await first.create(info("st_1", asking()))
            await first.append("st_1", [BEGUN])
            await until(lambda: b"*1" in replica.ask("XRANGE", log_key("st_1"), "1-0", "+"))
            replica.ask("REPLICAOF", "NO", "ONE")
            await first.append("st_1", [DONE], SPENT)
            await run(first, "st_2", asking())
            wire.to = replica.port
            wire.cut()
            wire.mend()
            await until_numbers(first, 0, 0, 2, 2 * MONEY)
            assert {"st_1", "st_2"} == {stream for stream, _ in await rows_of(first)}


async def expire(server: RedisServer, event_log: RedisLog, *keys: str) -> None:
    """Remove what Redis removes when nobody has been there for an hour."""
    server.ask("DEL", OWNERS, running_key(event_log._lease.owner), *keys)


@pytest.mark.parametrize("kept", [True, False], ids=["the mark is kept", "nothing is kept"])
async def test_nothing_is_held_for_ever_of_relays_that_all_died(server, kept):
    """Nobody comes before Redis has forgotten the streams: they cost what was held for them."""
    async with opened(server.url, lease_s=STEADY_S) as first:
        await first.create(asked("st_1"))
        await first.append("st_1", ANSWERED)
        lose(server, first)
        first._orphans._tasks.stop()
        await expire(server, first, log_key("st_1"), *([] if kept else [meta_key("st_1")]))
        told: list[StreamEnded] = []
        calls = {"close": close, "on_ended": told.append}
        async with opened(server.url, lease_s=LEASE_S, **calls) as second:
            state = await let_go(second)

            assert (0, 0, 1, CEILING) == numbers(state)
            assert [("st_1", f"st_1 fast 0 {CEILING}")] == await rows_of(second)
            assert "stream_expired" == await code_of(second, "st_1")
            assert ["st_1"] == [ended.info.id for ended in told]


async def test_what_runs_is_not_taken_for_what_nobody_runs(server):
    async with watched(server.url, close=close) as (first, second):
        await first.create(info("st_1", asking()))
        await first.append("st_1", [BEGUN])
        server.ask("DEL", meta_key("st_1"))  # evicted: its owner writes it again
        for _ in range(3):  # the second looks whether anybody runs it
            server.ask("ZADD", HOLDS, "XX", "0", "st_1")
            await until(lambda: b"\r\n0\r\n" not in server.ask("ZSCORE", HOLDS, "st_1"))
        assert (1, CEILING, 0, 0) == numbers(await state_of(second))
        await first.append("st_1", [DONE], SPENT)

        assert (0, 0, 1, MONEY) == numbers(await state_of(second))
        assert [("st_1", "row")] == await rows_of(second)


async def test_unreadable_stream_costs_what_was_held(server):
    async with watched(server.url, close=close) as (first, second):  # either may find it
        await first.create(info("st_1", asking(), route="fast"))
        await first.append("st_1", ANSWERED)
        server.ask("XDEL", log_key("st_1"), "2-0")
        lose(server, first)
        await let_go(second)
        assert [("st_1", f"st_1 fast 0 {CEILING}")] == await rows_of(second)


async def test_large_amounts_are_exact(server):
    large = 2**53 - 20
    account = Account("relay", nano_usd_per_day=2**53 - 1)
    async with opened(server.url) as event_log:
        await run(event_log, "st_1", asking(account), Settlement(1, 1, large))
        refused = await refusal(event_log, info("st_2", asking(account)))
        assert refused is None
        assert large == (await state_of(event_log)).day.nano_usd
        await event_log.append("st_2", [BEGUN, DONE], Settlement(1, 1, 19))
        assert 2**53 - 1 == (await state_of(event_log)).day.nano_usd
        with pytest.raises(LimitReached):
            await event_log.create(info("st_3", asking(account)))


# Rows


async def filled(event_log: RedisLog, streams: Sequence[str]) -> None:
    for stream in streams:
        spent = Settlement(1, 1, 1, row=stream.encode())
        await run(event_log, stream, asking(), spent)


async def test_a_row_is_given_to_one_process_at_a_time(server):
    async with pair(server.url) as (first, second):
        await filled(first, [f"st_{number}" for number in range(5)])
        assert ["st_0", "st_1", "st_2"] == [s for s, _ in await first.rows(limit=3)]
        assert ["st_3", "st_4"] == [s for s, _ in await second.rows(limit=3)]
        await second.forget_rows(["st_3", "st_4"])
        assert [] == await second.rows(limit=3)
        left_s = float(server.ask("ZSCORE", ROWS_DUE, "st_0").split()[1]) / 1000 - time.time()
        assert 0 < left_s <= 2 * STEADY_S

        # The first one has said nothing for so long.
        for number in range(3):
            server.ask("ZADD", ROWS_DUE, "XX", str(number), f"st_{number}")
        first._rows._taken_until = 0
        assert ["st_0", "st_1", "st_2"] == [s for s, _ in await second.rows(limit=3)]
        assert [] == await first.rows(limit=3)


async def test_oldest_rows_are_dropped_and_that_is_said_once_in_a_while(server):
    async with opened(server.url) as event_log:
        fill = (
            f"for i = ARGV[1], ARGV[2] do redis.call('HSET', '{ROWS}', i, 'r')"
            f" redis.call('ZADD', '{ROWS_DUE}', i, i) end return 1"
        )
        for at in range(0, MAX_ROWS, 5000):
            assert 1 == await event_log._link.send("EVAL", fill, 0, at + 1, at + 5000)
        with capture_logs() as logs:
            await filled(event_log, ["st_1", "st_2"])
            assert ["3", "4"] == [stream for stream, _ in await event_log.rows(limit=2)]
            await filled(event_log, ["st_3"])
            await event_log.rows(limit=3)
        assert b":100000" in server.ask("HLEN", ROWS)
        assert b":100000" in server.ask("ZCARD", ROWS_DUE)
        assert [2] == [line["rows"] for line in logs if "dropped" in line["event"]]
        assert b"$-1" in server.ask("GET", ROWS_DROPPED)


async def test_all_that_is_kept_of_money_expires(server):
    async with opened(server.url) as event_log:
        await filled(event_log, ["st_1"])
        request: ReservationRequest = asking()
        await event_log.create(info("st_2", request))
        found = server.ask("KEYS", "seseragi:*").split(b"\r\n")
        keys = [key.decode() for key in found if key.startswith(b"seseragi:")]
        keys.remove(FORMAT_KEY)
        assert {"held", "holds", "rows", "rows:due"} <= {k.partition(":")[2] for k in keys}
        assert all(b":-1" not in server.ask("PTTL", key) for key in keys)
