"""Accounts and rows in a SQLite file: over kills, restarts, workers, and what a disk may do."""

import asyncio
import itertools
import random
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from app.errors import ServiceError
from app.eventlog import read_all, waiting_rows
from app.eventlog.recovery import Closing, OrphanedStream
from app.eventlog.sqlite import accounts
from app.eventlog.sqlite.database import prepare
from app.eventlog.sqlite.log import SqliteLog
from app.eventlog.stream_ended import StreamEnded
from app.events import StreamEnd, TextDelta, TokenCounts
from app.generation.settlement import Settlements
from app.ledger.accounts import Account, AccountState, LimitReached, Settlement
from app.ledger.prices import PriceBook
from app.telemetry.row import unpack_row
from tests.eventlog import files, spender
from tests.eventlog.accounts_contract import (
    AT,
    BEGUN,
    DONE,
    SPENT,
    asking,
    info,
    period,
    run,
    state_of,
)
from tests.eventlog.files import empty_disk, fail_next, fill_disk, on_file, process

LARGE = TextDelta(0, "x" * 100_000)


@asynccontextmanager
async def opened(path: Path, **arguments: Any):
    """The log of one process's life, which keeps streams for long."""
    given = {"close": spender.close, "retention_s": 1000, "wall": lambda: AT, **arguments}
    async with files.opened(path, **given) as event_log:
        yield event_log


# Processes that are killed


class Acknowledged:
    """What processes have said before they were killed."""

    def __init__(self) -> None:
        self.begun: set[str] = set()
        self.cost: dict[str, int] = {}

    def read(self, process: "subprocess.Popen[str]", lines: int | None = None) -> None:
        """Take so many lines, or all there are."""
        assert process.stdout is not None
        for line in itertools.islice(process.stdout, lines):
            match line.split() if line.endswith("\n") else []:
                case ["begun", stream, _]:
                    self.begun.add(stream)
                case ["ended", stream, nano]:
                    self.cost[stream] = int(nano)
                case words:  # what the log says of a slow disk or a lost process
                    assert not words or "Traceback" not in line, line


async def check(event_log: SqliteLog, said: Acknowledged) -> None:
    """See that nothing is held, and that the rows are those of the streams, and add up."""
    rows = await event_log.rows(limit=10**6)
    costs = {stream: int(row) for stream, row in rows}

    assert len(rows) == len(costs)
    assert said.begun <= set(costs)
    assert said.cost == {stream: costs[stream] for stream in said.cost}
    # A stream may have begun, or ended, that could not be told of any more.
    states = await event_log.read_accounts(spender.NAMES)
    for state in states:
        assert (0, 0) == (state.running, period(state).held_nano_usd)
    for pick in (lambda period: period.nano_usd, lambda period: period.requests):
        whole, *parts = (pick(state.day) for state in states)
        assert whole == sum(parts)
    assert sum(costs.values()) == states[0].day.nano_usd
    assert len(costs) == states[0].day.requests


@pytest.mark.proving
async def test_books_are_exact_however_often_the_process_is_killed(path):
    dice, said = random.Random(5), Acknowledged()
    for life in range(4):
        with process("spender", path, f"life{life}") as spending:
            said.read(spending, 300 + dice.randrange(1_500))
            spending.kill()
            said.read(spending)
        for _ in range(3):  # while what it left is ended
            with process("spender", path, "nobody", "open"):
                await asyncio.sleep(0.15 + 0.3 * dice.random())
        async with opened(path) as event_log:
            await check(event_log, said)
            assert 0 == await on_file(event_log, "SELECT count(*) FROM reservations")
    assert len(said.begun) > 1_000
    assert any(nano >= 1_000 for nano in map(int, [row for _, row in await rows_of(path)]))


async def rows_of(path: Path) -> list[tuple[str, bytes]]:
    async with opened(path) as event_log:
        return await event_log.rows(limit=10**6)


@pytest.mark.parametrize("lines", [60, pytest.param(500, marks=pytest.mark.proving)])
async def test_books_of_workers_are_exact_when_all_are_killed(path, lines):
    said = Acknowledged()
    prepare(path, now=0, close=spender.close)
    with (
        process("spender", path, "a", "shared") as one,
        process("spender", path, "b", "shared") as other,
    ):
        for each in (one, other):
            said.read(each, lines)
        for each in (one, other):
            each.kill()
            said.read(each)
    prepare(path, now=0, close=spender.close)
    async with opened(path, shared=True) as event_log:
        await check(event_log, said)
        assert 0 == await on_file(event_log, "SELECT count(*) FROM reservations")


# Several at once


async def test_processes_at_once_let_in_no_more_than_a_budget_has_room_for(path):
    account = Account("relay", nano_usd_per_day=10 * 110)
    prepare(path, now=0)
    async with (
        opened(path, shared=True) as one,
        opened(path, shared=True) as other,
    ):
        for round_ in range(5):
            asked = [
                event_log.create(info(f"st_{round_}_{number}_{n}", asking(account)))
                for number in range(20)
                for n, event_log in enumerate((one, other))
            ]
            made = await asyncio.gather(*asked, return_exceptions=True)
            assert 10 == sum(not isinstance(outcome, LimitReached) for outcome in made)
            assert 1_100 == period(await state_of(other)).held_nano_usd
            for number, outcome in enumerate(made):
                if not isinstance(outcome, BaseException):
                    await (one, other)[(number + 1) % 2].delete(outcome.stream)
            assert 0 == period(await state_of(one)).held_nano_usd


async def test_refusal_undoes_nothing_that_others_have_done_in_the_same_transaction(path):
    account = Account("relay", streams=1)
    async with opened(path) as event_log:
        made = await asyncio.gather(
            event_log.create(info("st_1", asking(account))),
            event_log.create(info("st_2", asking(account))),
            event_log.create(info("st_3", asking(Account("relay")))),
            return_exceptions=True,
        )
        assert [False, True, False] == [isinstance(one, LimitReached) for one in made]
        await event_log.append("st_1", [BEGUN])
        await event_log.append("st_3", [BEGUN])
        assert 2 == (await state_of(event_log)).running


@pytest.mark.parametrize("first", ["end", "removal"])
async def test_stream_that_is_removed_as_it_ends_is_settled_once(path, first):
    async with opened(path) as event_log:
        await event_log.create(info("st_1", asking()))
        await event_log.append("st_1", [BEGUN])
        ways = [event_log.append("st_1", [DONE], SPENT), event_log.delete("st_1")]
        await asyncio.gather(*(ways if first == "end" else reversed(ways)), return_exceptions=True)
        state = await state_of(event_log)
        assert (0, 1, 0) == (state.running, state.day.requests, period(state).held_nano_usd)
        assert 1 == len(await event_log.rows(limit=9))


# Streams that are lost


async def test_end_that_is_written_for_a_lost_stream_says_what_it_has_cost(path):
    def close(lost: OrphanedStream) -> Closing:
        assert (3, 2) == (lost.ended.events, lost.weight // 4)
        usage = TokenCounts(1, 2, 3, cost="0.5")
        end = StreamEnd("interrupted", "error", usage, error=lost.ended.end.error, cost="0.5")
        ended = msgspec.structs.replace(lost.ended, end=end)
        return Closing(ended, Settlement(1, 2, 500_000_000, row=b"row"))

    async with opened(path) as event_log:
        await event_log.create(info("st_1", asking()))
        await event_log.append("st_1", [BEGUN, TextDelta(0, "12345678")])
    told: list[StreamEnded] = []
    event_log = SqliteLog(path, retention_s=100, max_bytes=10**9, wall=lambda: AT)
    await event_log.open(close=close, on_ended=told.append)
    end = (await read_all(event_log, "st_1"))[-1]
    assert isinstance(end, StreamEnd)
    assert ("0.5", TokenCounts(1, 2, 3, cost="0.5")) == (end.cost, end.usage)
    assert [end] == [ended.end for ended in told]
    state = await state_of(event_log)
    assert (0, 500_000_000, 1) == (state.running, period(state).nano_usd, state.day.requests)
    assert [("st_1", b"row")] == await event_log.rows(limit=9)
    await event_log.close()


async def test_lost_stream_ends_even_if_nobody_can_say_what_it_cost(path):
    def fail(lost: OrphanedStream) -> Closing:
        raise KeyError(lost.ended.info.id)

    async with opened(path) as event_log:
        await event_log.create(info("st_1", asking()))
        await event_log.append("st_1", [BEGUN])
    async with opened(path, close=fail) as event_log:
        assert (await event_log.state("st_1")).ended
        state = await state_of(event_log)
        assert (0, 0, 1) == (state.running, period(state).held_nano_usd, state.day.unpriced)


async def test_stream_that_never_began_is_let_go_without_a_row_after_a_restart(path):
    async with opened(path) as event_log:
        await event_log.create(info("st_1", asking()))
    async with opened(path) as event_log:
        state = await state_of(event_log)
        assert (0, 0, 0) == (state.running, state.day.requests, period(state).held_nano_usd)
        assert [] == await event_log.rows(limit=9)


async def test_lost_stream_that_cannot_be_read_is_settled(path):
    async with opened(path) as event_log:
        await event_log.create(info("st_1", asking()))
        await event_log.append("st_1", [BEGUN])
        await on_file(event_log, "UPDATE tail SET events = x'7b' RETURNING 1")
    async with opened(path) as event_log:
        state = await state_of(event_log)
        assert (0, 1, 0) == (state.running, state.day.requests, period(state).held_nano_usd)
        assert ["st_1"] == [stream for stream, _ in await event_log.rows(limit=9)]


# A file that fails


USED = TokenCounts(10, 20, 30, cost="0.00003")
ENDED = StreamEnd("completed", "stop", USED, cost="0.00003")
USED_UP = Settlement(10, 20, 30_000, row=b"row")


def close_for_real(lost: OrphanedStream) -> Closing:
    return Settlements(PriceBook(()), keeps_rows=True).close_orphaned(lost)


async def refused_end(event_log: SqliteLog) -> None:
    await event_log.create(info("st_1", asking()))
    await event_log.append("st_1", [BEGUN])
    await fill_disk(event_log)
    with pytest.raises(ServiceError, match="could not be written"):
        await event_log.append("st_1", [LARGE, ENDED], USED_UP)


@pytest.mark.parametrize("way", ["sweep", "close", "delete", "kill"])
async def test_refused_end_has_one_content_and_costs_what_it_says(path, way):
    """Its producer's cost and counts are not in the file, so that a restart cannot know them."""
    async with opened(path, close=close_for_real) as event_log:
        await refused_end(event_log)
        end = (await read_all(event_log, "st_1"))[-1]
        assert isinstance(end, StreamEnd)
        assert ("interrupted", "0.00000001") == (end.status, end.cost)
        assert 1 == (await state_of(event_log)).running
        if way == "kill":
            event_log._owner.unwritten.clear()
        await empty_disk(event_log)
        if way == "sweep":
            await event_log.sweep()
        elif way == "delete":
            await event_log.delete("st_1")
        if way in ("sweep", "delete"):
            assert 0 == (await state_of(event_log)).running
    async with opened(path, close=close_for_real) as event_log:
        if way != "delete":
            assert end == (await read_all(event_log, "st_1"))[-1]
        state = await state_of(event_log)
        assert (0, 0, 10) == (state.running, period(state).held_nano_usd, period(state).nano_usd)
        ((_, data),) = await event_log.rows(limit=9)
        row = unpack_row(data)
        assert ("interrupted", "producer_lost", True) == (row.status, row.code, row.lost)
        assert (10, 2) == (row.nano_usd, row.events)


@pytest.mark.parametrize("turns", [0, 1, 2, 10, 100, 1_000])
async def test_refused_end_that_is_written_and_deleted_at_once_is_counted_once(path, turns):
    ended: list[StreamEnded] = []
    async with opened(path, close=close_for_real, on_ended=ended.append) as event_log:
        await event_log.sweep()
        await refused_end(event_log)
        await empty_disk(event_log)
        sweeping = [asyncio.create_task(event_log._owner.retry_unwritten()) for _ in range(2)]
        for _ in range(turns):
            await asyncio.sleep(0)
        await event_log.delete("st_1")
        await asyncio.gather(*sweeping)
        assert ["st_1"] == [one.info.id for one in ended]
        assert 0 == (await state_of(event_log)).running
        assert 1 == await event_log.count_rows()


async def test_full_disk_lets_no_stream_in_and_holds_nothing(path):
    async with opened(path) as event_log:
        await run(event_log, "st_0", asking())
        before = await state_of(event_log)
        await fill_disk(event_log)
        infos = [info(f"st_{n}", asking(), labels={"x": "x" * 5_000}) for n in range(1, 50)]
        asked = [event_log.create(one) for one in infos]
        made = await asyncio.gather(*asked, return_exceptions=True)
        assert {"overloaded"} == {getattr(one, "code", None) for one in made}
        await empty_disk(event_log)
        assert before == await state_of(event_log)
        await event_log.create(info("st_x", asking()))
        assert 1 == (await state_of(event_log)).running


async def test_cancelled_start_that_the_file_keeps_for_now_is_let_go_later(path):
    async with opened(path) as event_log:
        await event_log.sweep()
        creating = asyncio.create_task(event_log.create(info("st_1", asking())))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating
        fail_next(event_log)  # with what removes it
        await event_log._writer._idle.wait()
        assert ({"st_1"}, 1) == (event_log._unwanted, (await state_of(event_log)).running)
        await event_log.sweep()
        assert (set(), 0) == (event_log._unwanted, (await state_of(event_log)).running)


async def test_stream_that_could_not_begin_nor_be_removed_is_let_go_later(path):
    async with opened(path) as event_log:
        await event_log.create(info("st_1", asking(), key="k", digest="d"))
        for attempt in (event_log.append("st_1", [BEGUN]), event_log.delete("st_1")):
            fail_next(event_log)
            with pytest.raises(ServiceError):
                await attempt
        assert 1 == (await state_of(event_log)).running
        await event_log.sweep()
        assert 0 == (await state_of(event_log)).running
        assert not event_log._owner.streams


async def test_failed_transaction_leaves_the_accounts_as_they_were(path):
    async with opened(path) as event_log:
        await run(event_log, "st_0", asking())
        before = await state_of(event_log)
        asked = event_log.create(info("st_1", asking()))
        fail_next(event_log)
        with pytest.raises(ServiceError):
            await asked
        assert before == await state_of(event_log)
        await run(event_log, "st_2", asking())
        state = await state_of(event_log)
        assert (2, 60, 0) == (state.day.requests, period(state).nano_usd, state.running)


# Bounds


async def test_rows_that_nobody_takes_have_a_bound(path, monkeypatch):
    monkeypatch.setattr(waiting_rows, "MAX_ROWS", 10)
    async with opened(path) as event_log:
        with structlog.testing.capture_logs() as lines:
            for number in range(25):
                await run(event_log, f"st_{number}", asking())
            rows = await event_log.rows(limit=100)

        assert [f"st_{number}" for number in range(15, 25)] == [stream for stream, _ in rows]
        told = [line for line in lines if "rows of ended streams were dropped" in line["event"]]
        assert [(1, 10)] == [(line["rows"], line["kept"]) for line in told]
        await event_log.forget_rows([stream for stream, _ in rows])
        for number in range(25, 30):
            await run(event_log, f"st_{number}", asking())
        assert 5 == len(await event_log.rows(limit=100))


async def test_rows_of_a_webhook_have_a_bound_of_their_own(path, monkeypatch):
    monkeypatch.setattr(waiting_rows, "MAX_ROWS", 10)
    monkeypatch.setattr(accounts, "COUNTED_EVERY", 1)
    async with opened(path, queues=("webhook:a", "webhook:b")) as event_log:
        with structlog.testing.capture_logs() as lines:
            for number in range(25):
                await run(event_log, f"st_{number}", asking())
                await event_log.forget_rows([f"st_{number}"], queue="webhook:b")
            rows = await event_log.take_rows("webhook:a", limit=100, for_s=60)

        assert {f"st_{number}" for number in range(15, 25)} == {stream for stream, _ in rows}
        assert [1] == [line["rows"] for line in lines if "rows of ended" in line["event"]]
        assert [] == await event_log.rows(limit=9)


async def test_each_of_several_webhooks_has_the_bound(path, monkeypatch):
    """Their rows alternate, so that the number of one's rows must not be checked each time."""
    monkeypatch.setattr(waiting_rows, "MAX_ROWS", 10)
    queues = ("webhook:a", "webhook:b")
    async with opened(path, queues=queues) as event_log:
        for number in range(250):
            await run(event_log, f"st_{number}", asking())
        counts = [await event_log.count_rows(queue) for queue in queues]

    assert max(counts) <= 10 + 2 * accounts.COUNTED_EVERY, counts


async def test_accounts_that_nobody_uses_any_more_are_forgotten(path, clock):
    async with opened(path, wall=clock) as event_log:
        await run(event_log, "st_1", asking(Account("user:a:old"), at=clock.now))
        await event_log.create(info("st_2", asking(Account("user:a:busy"), at=clock.now)))
        clock.now += 40 * 86_400
        await event_log.sweep()
        assert 30 == (await state_of(event_log, "user:a:old")).month.nano_usd
        clock.now += 31 * 86_400
        await event_log.sweep()
        assert AccountState() == await state_of(event_log, "user:a:old")
        assert 1 == (await state_of(event_log, "user:a:busy")).running


async def test_numbers_beyond_what_a_file_holds_fail_no_transaction(path):
    async with opened(path) as event_log:
        for number in range(3):
            request = asking(output_tokens=2**63, output_nano_usd=10**9)
            await event_log.create(info(f"st_{number}", request))
            await event_log.append(f"st_{number}", [BEGUN, DONE], Settlement(1, 1, 2**63))
        state = await state_of(event_log)
        assert (0, 3) == (state.running, state.day.requests)
        assert accounts.MAX_NUMBER <= state.day.nano_usd


async def test_remembered_accounts_are_few(path, monkeypatch):
    monkeypatch.setattr(accounts, "REMEMBERED", 5)
    async with opened(path) as event_log:
        for number in range(30):
            await run(event_log, f"st_{number}", asking(Account(f"user:a:{number % 20}")))
            assert len(event_log._database.accounts._states) <= 6
        for number in range(20):
            state = await state_of(event_log, f"user:a:{number}")
            assert (2 if number < 10 else 1) == state.day.requests
