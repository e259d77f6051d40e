"""A clock that is ahead, or was, frees no budget and refuses nobody for longer than a minute."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from app.eventlog import EventLog
from app.eventlog.memory import MemoryLog
from app.eventlog.sqlite.log import SqliteLog
from app.eventlog.stream_info import StreamInfo
from app.ledger.accounts import Account, LimitReached, ReservationRequest, Settlement
from tests.eventlog.accounts_contract import BEGUN, DONE
from tests.eventlog.redis_logs import opened as opened_redis
from tests.redis_server import RedisServer, redis_server

NOW = 1_700_000_000.0
"""14 November 2023, 22:13 UTC."""
DAY, YEAR = 86_400.0, 400 * 86_400.0
BUDGET = Account("user:a:u", nano_usd_per_day=100, nano_usd_per_month=100)
MINUTE = Account("user:a:u", requests_per_minute=2)
numbers = count(1)


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[EventLog]:
    log: EventLog
    if kind == "memory":
        log = MemoryLog(retention_s=60, max_bytes=10**6)
    else:
        log = SqliteLog(folder / "streams.db", retention_s=60, max_bytes=10**6)
    await log.open()
    try:
        yield log
    finally:
        await log.close()


async def spend(log: EventLog, account: Account, nano_usd: int, *, at: float = 0) -> None:
    """Run a stream that costs so much.

    Raises:
        LimitReached: the account has no room for it.
    """
    stream = f"st_{next(numbers)}"
    request = ReservationRequest((account,), at, output_tokens=nano_usd, output_nano_usd=1)
    await log.create(StreamInfo(stream, created_at=at, reserve=request))
    await log.append(stream, [BEGUN, DONE], Settlement(1, 1, nano_usd))


async def left(log: EventLog, at: float) -> int:
    """Return what a budget of 100 leaves, found by trying."""
    for amount in range(100, 0, -10):
        stream = f"st_{next(numbers)}"
        request = ReservationRequest(
            (BUDGET,), at, output_tokens=amount, least_output_tokens=amount, output_nano_usd=1
        )
        try:
            await log.create(StreamInfo(stream, created_at=at, reserve=request))
        except LimitReached:
            continue
        await log.append(stream, [BEGUN, DONE], Settlement(0, 0, 0))
        return amount
    return 0


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("ahead", [DAY, 20 * DAY, YEAR], ids=["a day", "20 days", "400 days"])
async def test_budget_holds_after_a_clock_was_ahead(kind: str, ahead: float, tmp_path: Path):
    async with opened(kind, tmp_path) as log:
        await spend(log, BUDGET, 30, at=NOW + ahead)
        assert 70 == await left(log, NOW)
        await spend(log, BUDGET, 50, at=NOW + 1)
        assert 20 == await left(log, NOW + 2)
        await spend(log, BUDGET, 20, at=NOW + 3)
        with pytest.raises(LimitReached) as refused:
            await spend(log, BUDGET, 20, at=NOW + 3)
        assert 2 * DAY > (refused.value.retry_after_s or 0)


async def test_restart_with_the_right_clock_repairs_a_file(tmp_path: Path):
    async with opened("sqlite", tmp_path) as log:
        await spend(log, BUDGET, 30, at=NOW + YEAR)
    async with opened("sqlite", tmp_path) as log:
        await spend(log, BUDGET, 60, at=NOW)
        assert 10 == await left(log, NOW)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_stream_that_began_ahead_gives_back_what_it_held(kind: str, tmp_path: Path):
    async with opened(kind, tmp_path) as log:
        request = ReservationRequest((BUDGET,), NOW + YEAR, output_tokens=90, output_nano_usd=1)
        await log.create(StreamInfo("st_ahead", created_at=NOW, reserve=request))
        assert 10 == await left(log, NOW)
        await log.append("st_ahead", [BEGUN, DONE], Settlement(1, 1, 20))
        assert 80 == await left(log, NOW)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_limit_of_a_minute_refuses_for_a_minute_at_most(kind: str, tmp_path: Path):
    async with opened(kind, tmp_path) as log:
        for _ in range(2):
            await spend(log, MINUTE, 0, at=NOW + YEAR)
        with pytest.raises(LimitReached) as refused:
            await spend(log, MINUTE, 0, at=NOW)
        assert 65 >= (refused.value.retry_after_s or 0)
        await spend(log, MINUTE, 0, at=NOW + 66)


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.mark.proving
@pytest.mark.parametrize("ahead", [0, 60, DAY, YEAR, -YEAR])
async def test_periods_over_redis_are_those_of_its_clock(redis: RedisServer, ahead: float):
    """Whatever the clocks of the relays say: two of them share one budget."""
    assert b"OK" in redis.ask("FLUSHALL")
    async with (
        opened_redis(redis.url, redis_time=True) as right,
        opened_redis(redis.url, redis_time=True) as wrong,
    ):
        await spend(wrong, BUDGET, 30, at=time.time() + ahead)
        await spend(right, BUDGET, 40, at=time.time())
        assert 30 == await left(wrong, time.time() + ahead)
        assert 30 == await left(right, time.time())
        await spend(wrong, BUDGET, 30, at=time.time() + ahead)
        for log, at in ((wrong, time.time() + ahead), (right, time.time())):
            with pytest.raises(LimitReached) as refused:
                await spend(log, BUDGET, 30, at=at)
            assert 0 < (refused.value.retry_after_s or 0) <= 31 * DAY
        (state,) = await right.read_accounts([BUDGET.name])
        assert int(time.time() // DAY) == state.day.number


@pytest.mark.proving
async def test_accounts_in_redis_that_lie_in_the_future_are_repaired(redis: RedisServer):
    """As a relay of an earlier version, or a clock of Redis's, has left them."""
    assert b"OK" in redis.ask("FLUSHALL")
    both = Account(BUDGET.name, requests_per_minute=2, nano_usd_per_day=100, nano_usd_per_month=100)
    async with opened_redis(redis.url) as ahead, opened_redis(redis.url, redis_time=True) as log:
        for _ in range(2):
            await spend(ahead, both, 10, at=time.time() + YEAR)
        with pytest.raises(LimitReached) as refused:
            await spend(log, both, 10)
        assert 65 >= (refused.value.retry_after_s or 0)
        assert 80 == await left(log, 0)
