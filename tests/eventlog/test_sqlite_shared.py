"""The contract once more, over a SQLite file that processes share: one alone, and two."""

import asyncio
import contextlib
import itertools
import math
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.errors import RequestError, ServiceError
from app.eventlog import LogUnusable, read_all, recovery, tail
from app.eventlog.sqlite import log as sqlite
from app.eventlog.sqlite import owner, tail_table
from app.eventlog.sqlite.database import prepare
from app.eventlog.sqlite.log import SqliteLog
from app.events import Event, StreamEnd
from tests.eventlog.accounts_contract import *  # noqa: F403
from tests.eventlog.broadcast_contract import *  # noqa: F403
from tests.eventlog.contract import *  # noqa: F403
from tests.eventlog.contract import (
    END,
    LIMITS,
    START,
    Elsewhere,
    code_of,
    deltas,
    ended,
    filled,
    let_wait,
    owners_are_found,
)
from tests.eventlog.creating import create
from tests.eventlog.files import opened, process
from tests.eventlog.rows_contract import *  # noqa: F403
from tests.eventlog.rows_contract import QUEUES
from tests.waiting import until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log.db"
    prepare(path, now=0)
    return path


@pytest.fixture(params=[pytest.param("here", marks=pytest.mark.proving), "elsewhere"])
async def event_log(request, path, clock, callbacks):
    arguments = {"wall": clock, "queues": QUEUES, **callbacks.arguments}
    async with joined(path, **arguments) as there:
        if request.param == "here":
            yield there
            return
        async with joined(path, **arguments) as here:
            yield Elsewhere(there, here)


@asynccontextmanager
async def joined(path: Path, **arguments: Any):
    """The log as one of the processes has it."""
    async with opened(path, shared=True, **{**LIMITS, **arguments}) as event_log:
        yield event_log


# Reading what another process appends


async def read_there(event_log: SqliteLog, stream: str, after: int = 0) -> list[Event]:
    """Read to the end, as a client does."""
    seen: list[Event] = []
    while not seen or not isinstance(seen[-1], StreamEnd):
        seen += await event_log.read(stream, after + len(seen), timeout_s=20)
    return seen


@pytest.mark.proving
async def test_events_are_there_elsewhere_within_a_tenth_of_a_second(path):
    took: list[float] = []
    async with joined(path) as there, joined(path) as here:
        await filled(there, [START])
        for number in range(30):
            reading = asyncio.create_task(here.read("st_1", number + 1, timeout_s=20))
            await asyncio.sleep(0.01 * random.Random(number).random())
            begun = time.perf_counter()
            await there.append("st_1", deltas(f"{number}"))
            assert deltas(f"{number}") == list(await reading)
            took.append(time.perf_counter() - begun)

    # The quicker ones: the others had to wait for this machine, too.
    assert statistics.quantiles(took)[0] < 0.1


async def test_readers_elsewhere_miss_nothing_that_is_filed_and_swept(path, monkeypatch):
    monkeypatch.setattr(owner, "FILED_EVENTS", 40)
    monkeypatch.setattr(tail_table, "TAIL_ROWS", 5)
    monkeypatch.setattr(tail_table, "SWEPT_AT_ONCE", 3)
    monkeypatch.setattr(tail, "RETAINED", 30)
    dice = random.Random(3)
    expected: list[Event] = [START]
    async with joined(path) as there, joined(path) as here, joined(path) as third:
        await filled(there, expected)
        await create(there, "st_2")
        readers = []
        for number in range(300):
            if number % 6 == 0:
                after = dice.randrange(len(expected) + 1)
                reading = read_there(dice.choice((here, third)), "st_1", after)
                readers.append((after, asyncio.create_task(reading)))
            batch = deltas(*(f"{number}.{part}" for part in range(dice.randrange(1, 8))))
            await there.append("st_1", batch)
            expected += batch
            if number % 20 == 0:
                await there.append("st_2", deltas("slow"))
                await third.read("st_1", len(expected) - 1, timeout_s=20)
        await there.append("st_1", [END])
        expected.append(END)
        for after, reader in readers:
            assert expected[after:] == await asyncio.wait_for(reader, 20)
        assert expected == await read_all(third, "st_1")
        assert deltas(*["slow"] * 15) == await read_all(here, "st_2")


async def test_state_elsewhere_is_no_older_than_the_question(path):
    async with joined(path) as there, joined(path) as here:
        await filled(there, [START])
        for number in range(2, 40):
            await there.append("st_1", deltas("a"))

            assert number == (await here.state("st_1")).last


async def test_reader_elsewhere_is_sent_away_when_this_process_stops(path):
    async with joined(path) as there, joined(path) as here:
        await filled(there, [START])
        reading = asyncio.create_task(here.read("st_1", 1, timeout_s=60))
        await let_wait(here, reading)
        here.release_remote_readers()

        assert () == tuple(await asyncio.wait_for(reading, 20))
        with pytest.raises(ServiceError, match="shutting down"):
            await here.read("st_1", 1, timeout_s=60)
        assert [START] == await read_all(here, "st_1")


# What they tell each other


async def test_process_hears_what_others_want_of_its_streams(path):
    stopped: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()

    def on_stop(*stop: str) -> None:
        stopped.put_nowait(stop)

    async with joined(path, on_stop=on_stop) as there, joined(path) as here:
        await filled(there, [START])
        for by in ("user", "operator"):
            await here.ask_stop("st_1", by)
            assert ("st_1", by) == await asyncio.wait_for(stopped.get(), 20)
        await here.delete("st_1")
        assert ("st_1", "user") == await asyncio.wait_for(stopped.get(), 20)
        await here.ask_stop("st_1")
        await here.ask_stop("st_unknown")
        assert "stream_expired" == await code_of(there, "st_1")
        with pytest.raises(RequestError, match="is gone"):
            await there.append("st_1", [END])


async def test_readers_elsewhere_are_told_until_they_leave(path, clock):
    async with joined(path, wall=clock) as there, joined(path, wall=clock) as here:
        await filled(there, [START])
        assert -math.inf == await there.reader_lease_s("st_1")
        await here.state("st_1")
        here.readers_here("st_1")
        await create(here, "st_2")  # behind it
        assert await there.reader_lease_s("st_1") > 0
        here.readers_gone("st_1")
        await create(here, "st_3")
        clock.now += 7
        assert -7 == await there.reader_lease_s("st_1")
        here.readers_here("st_1")
    async with joined(path, wall=clock) as there:
        pass


async def test_what_was_deleted_elsewhere_is_not_in_the_file(path):
    async with joined(path, max_stream_events=10_000) as there, joined(path) as here:
        await create(there, "st_1")
        await there.append("st_1", deltas(*(["a secret"] * 3_000)))
        await here.delete("st_1")
        with pytest.raises(RequestError, match="is gone"):
            await there.append("st_1", deltas("a secret"))
        await there.sweep()
        await here.sweep()
    assert b"a secret" not in path.read_bytes()


async def test_limit_of_the_file_is_that_of_all_processes(path, clock, monkeypatch):
    monkeypatch.setattr(sqlite, "TALLY_S", 0)
    monkeypatch.setattr(sqlite, "LOOK_AFTER_S", 0.01)
    async with joined(path, wall=clock) as there, joined(path, wall=clock) as here:
        for number in range(5):
            clock.now += 1
            await ended((there, here)[number % 2], f"st_{number}", size=300_000)
            for event_log in (there, here):  # which hears what the file has
                await event_log._tally()

        async def first_has_gone() -> bool:
            return "stream_expired" == await code_of(here, "st_0")

        await until(first_has_gone)
        codes = [await code_of(here, f"st_{number}") for number in range(5)]
        assert [None, None, None] == codes[2:]
        for number in range(4):
            await create(there, f"st_a{number}")
            await there.append(f"st_a{number}", deltas("x" * 300_000))
        numbers = itertools.count()

        async def is_refused() -> bool:  # once it has looked how much there is
            try:
                await create(here, f"st_b{next(numbers)}")
            except ServiceError as error:
                return "full of running streams" in str(error)
            return False

        await until(is_refused)


# Processes that are lost


@pytest.mark.parametrize(
    ("count", "lines"), [(3, 60), pytest.param(20, 2_300, marks=pytest.mark.proving)]
)
async def test_streams_of_a_killed_process_are_ended_by_another(path, count, lines):
    limits = {"retention_s": 1000, "max_bytes": 10**9}
    async with joined(path, **limits) as here, joined(path, **limits) as third:
        await create(here, "st_here")
        await here.append("st_here", [START])
        with process("producer", path, count, "shared") as producer:
            out = producer.stdout
            assert out
            said = [out.readline() for _ in range(15 * count)]
            streams = sorted({line.split()[0] for line in said})
            readers = [asyncio.create_task(read_there(third, stream)) for stream in streams]
            said += await asyncio.to_thread(lambda: [out.readline() for _ in range(lines)])
            producer.kill()
            said += [line for line in out if line.endswith("\n")]
        taken = {stream: int(number) for stream, number in map(str.split, said)}
        for stream, reader in zip(streams, readers, strict=True):
            events = await asyncio.wait_for(reader, 60)
            end = events[-1]

            assert len(events) - 3 in (taken[stream], taken[stream] + 2)
            assert isinstance(end, StreamEnd)
            assert ("interrupted", recovery.LOST) == (end.status, end.error)
            assert events == await read_all(here, stream)
        assert count == len(streams)
        assert not (await here.state("st_here")).ended
        await here.append("st_here", [END])
        names = [f"{path.name}-process-{n}" for n in (1, 2)]
        await until(lambda: names == sorted(f.name for f in path.parent.glob("*-process-*")))


async def test_end_that_this_process_has_written_for_another_is_shown_to_its_readers(path):
    """Nobody else writes to the file meanwhile, which would be seen in it."""
    async with joined(path, retention_s=1000, max_bytes=10**9) as here:
        with process("producer", path, 1, "shared") as producer:
            assert producer.stdout
            producer.stdout.readline()
            reading = asyncio.create_task(read_there(here, "st_0"))
            await here.state("st_0")
            producer.kill()
        end = (await asyncio.wait_for(reading, 20))[-1]

    assert isinstance(end, StreamEnd)
    assert "interrupted" == end.status


def stopped_between_writes(producer: subprocess.Popen[str], path: Path) -> bool:
    """Stop a process; let it go on and return False if it holds the lock of the database."""
    producer.send_signal(signal.SIGSTOP)
    os.waitpid(producer.pid, os.WUNTRACED)
    with contextlib.closing(sqlite3.connect(path, timeout=0)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            producer.send_signal(signal.SIGCONT)
            return False
    return True


@pytest.mark.proving
async def test_process_that_sleeps_is_not_taken_for_lost(path, monkeypatch):
    monkeypatch.setattr(sqlite, "LOOK_AFTER_S", 0.01)
    async with joined(path, retention_s=1000, max_bytes=10**9) as here:
        find_dead = here._database.processes.find_dead
        looks: list[list[int]] = []

        def look() -> list[int]:
            looks.append(find_dead())
            return looks[-1]

        here._database.processes.find_dead = look
        with process("producer", path, 1, "shared") as producer:
            assert producer.stdout
            producer.stdout.readline()
            await until(lambda: stopped_between_writes(producer, path))
            await until(lambda: len(looks) > 20)
            state = await here.state("st_0")
            assert not state.ended
            producer.send_signal(signal.SIGCONT)
            assert await here.read("st_0", state.last, timeout_s=20)


async def test_process_that_leaves_leaves_nothing(path):
    async with joined(path) as here:
        async with joined(path) as there:
            await ended(there, "st_1")
        assert [f"{path.name}-process-1"] == [f.name for f in path.parent.glob("*-process-*")]
        assert (await here.state("st_1")).ended
    assert ["log.db"] == [file.name for file in path.parent.iterdir()]


async def test_file_that_is_shared_is_not_prepared_again(path):
    async with joined(path) as here:
        await filled(here, [START])
        with pytest.raises(LogUnusable, match="another process uses it"):
            prepare(path, now=0)
        assert not (await here.state("st_1")).ended
    prepare(path, now=time.time())
    async with joined(path) as here:
        assert "interrupted" == (await read_all(here, "st_1"))[-1].status  # type: ignore[union-attr]


async def test_owners_whose_lists_grow_are_found_by_the_other_process(tmp_path):
    async with joined(tmp_path / "log.db") as first, joined(tmp_path / "log.db") as second:
        await owners_are_found(first, second)
