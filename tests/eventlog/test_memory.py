"""The log in memory: the contract, and what it says about its size."""

import asyncio
import time

import pytest
import structlog

from app.eventlog import accounts as memory_accounts
from app.eventlog import waiting_rows
from app.eventlog.accounts import MemoryAccounts
from app.eventlog.memory import MemoryLog
from app.eventlog.stream_info import StreamInfo
from app.eventlog.waiting_rows import MemoryRows
from app.events import (
    StreamEnd,
    StreamStart,
)
from app.ledger.accounts import Account, ReservationRequest, Settlement
from tests.clock import Clock as LoopClock
from tests.eventlog.accounts_contract import *  # noqa: F403
from tests.eventlog.accounts_contract import asking, run
from tests.eventlog.contract import *  # noqa: F403
from tests.eventlog.contract import END, LIMITS, START, Callbacks, Clock, code_of, deltas, ended
from tests.eventlog.creating import create
from tests.eventlog.rows_contract import *  # noqa: F403
from tests.eventlog.rows_contract import HOOK, OTHER_HOOK, QUEUES

pytestmark = pytest.mark.pure

TOKEN = {"token": " sea", "logprob": -0.25, "bytes": [32, 115, 101, 97]}


@pytest.fixture  # type: ignore[no-redef]
def accounts() -> MemoryAccounts:
    return MemoryAccounts(MemoryRows(queues=QUEUES))


@pytest.fixture  # type: ignore[no-redef]
def waiting(accounts: MemoryAccounts) -> MemoryRows:
    return accounts.rows


@pytest.fixture
async def event_log(accounts: MemoryAccounts, clock: Clock, callbacks: Callbacks) -> MemoryLog:
    log = MemoryLog(**LIMITS, accounts=accounts, now=clock, wall=clock)
    await log.open(**callbacks.arguments)
    return log


async def test_streams_that_grow_take_the_room_of_ended_ones(event_log):
    for number in range(3):
        await ended(event_log, f"st_{number}", size=300_000)
    await create(event_log, "st_3")
    await event_log.append("st_3", [START, *deltas("x" * 350_000)])

    codes = [await code_of(event_log, f"st_{number}") for number in range(4)]
    assert ["stream_expired", None, None, None] == codes


async def test_stream_that_has_just_ended_gives_no_room(event_log):
    """Its live readers are still behind its end."""
    for number in range(4):
        await create(event_log, f"st_{number}")
        await event_log.append(f"st_{number}", [START, *deltas("x" * 300_000)])
    await event_log.append("st_0", [END])
    assert END == (await event_log.read("st_0", 2, timeout_s=0))[0]
    await event_log.append("st_1", deltas("more"))

    assert "stream_expired" == await code_of(event_log, "st_0")


async def test_stream_larger_than_the_log_is_not_kept(event_log):
    await create(event_log, "st_1")
    reading = asyncio.create_task(event_log.read("st_1", 0, timeout_s=20))
    await asyncio.sleep(0)
    await event_log.append("st_1", [*deltas("x" * 1_000_000), END])

    assert END == (await reading)[-1]
    assert "stream_expired" == await code_of(event_log, "st_1")


async def test_log_that_nobody_asks_lets_go_of_what_is_over(event_log, clock, monkeypatch):
    loop = LoopClock(monkeypatch)

    async def kept_after(seconds: float) -> int:
        """Let time pass, and the timers of that time; return how many streams are kept."""
        clock.now += seconds
        await loop.pass_(101)
        return event_log.size().streams

    await ended(event_log, "st_1")
    clock.now += 50
    await ended(event_log, "st_2")
    assert [2, 1, 0] == [await kept_after(seconds) for seconds in (49, 1, 50)]
    await ended(event_log, "st_3")
    assert [1, 0] == [await kept_after(seconds) for seconds in (0, 100)]


async def test_closed_log_has_no_timer(event_log):
    await ended(event_log, "st_1")
    timer = event_log._entries._timer
    await event_log.close()

    assert timer.cancelled()


def test_log_that_was_not_closed_holds_no_loop_up() -> None:
    async def main() -> None:
        await ended(MemoryLog(retention_s=1_000, max_bytes=10**6), "st_1")

    begin = time.monotonic()
    asyncio.run(main(), debug=True)

    assert time.monotonic() - begin < 100  # its timer is of a thousand seconds


async def test_rows_that_nobody_takes_have_a_bound(event_log, waiting, monkeypatch):
    monkeypatch.setattr(waiting_rows, "MAX_ROWS", 10)
    for number in range(25):
        await run(event_log, f"st_{number}", asking())

    rows = await waiting.rows(limit=100)
    assert [f"st_{number}" for number in range(15, 25)] == [stream for stream, _ in rows]


async def test_rows_of_a_webhook_have_a_bound_of_their_own(event_log, waiting, monkeypatch):
    monkeypatch.setattr(waiting_rows, "MAX_ROWS", 10)
    for number in range(25):
        await run(event_log, f"st_{number}", asking())
        await waiting.forget_rows([f"st_{number}"], queue=OTHER_HOOK)

    rows = await waiting.take_rows(HOOK, limit=100, for_s=60)
    assert [f"st_{number}" for number in range(15, 25)] == [stream for stream, _ in rows]
    assert 0 == await waiting.count_rows(OTHER_HOOK)


def test_dropped_rows_are_told_of_once_a_minute():
    now = 0.0
    dropped = waiting_rows.Dropped(lambda: now)
    with structlog.testing.capture_logs() as lines:
        for _ in range(700):
            now += 0.25
            dropped.add(1)
    assert [1, 240, 240] == [line["rows"] for line in lines]


async def test_accounts_that_are_over_are_forgotten(monkeypatch):
    monkeypatch.setattr(memory_accounts, "FEW_ACCOUNTS", 20)
    accounts = MemoryAccounts()
    log = MemoryLog(retention_s=1, max_bytes=10**9, accounts=accounts)
    begun, end = StreamStart("st_1", "demo", 0), StreamEnd("completed", "stop")

    async def use(name: str, day: int, *, ends: bool = True) -> None:
        stream = f"st_{name}"
        reserve = ReservationRequest((Account(name),), (20_000 + day) * 86_400.0)
        await log.create(StreamInfo(stream, reserve=reserve))
        if ends:
            await log.append(stream, [begun])
            await log.append(stream, [end], Settlement(1, 1, 5))
            await log.delete(stream)

    async def spent(name: str) -> int:
        (state,) = await accounts.read_accounts([name])
        return state.month.nano_usd

    await use("user:a:runs", 0, ends=False)
    for n in range(50):
        await use(f"secret:{n}", 0)
        await use(f"user:a:{n}", 0)
    assert 101 == len(accounts._accounts)  # each may count on this day
    for n in range(100):
        await use(f"user:b:{n}", 2)
    assert (5, 0) == (await spent("user:a:7"), await spent("secret:7"))
    for n in range(1000):
        await use(f"secret:later {n}", 40 + n // 10)
    assert len(accounts._accounts) < 120
    assert (0, 0) == (await spent("user:a:7"), await spent("user:b:7"))
    (state,) = await accounts.read_accounts(["user:a:runs"])
    assert 1 == state.running
