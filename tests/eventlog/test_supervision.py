"""Background tasks of every log that end for whatever reason: the log works again, soon."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import starmap
from pathlib import Path
from typing import Any

import pytest

from app.errors import ServiceError
from app.eventlog import supervision
from app.eventlog.sqlite.database import prepare
from app.eventlog.supervision import PAUSE_MOST_S, PAUSE_S, Supervisor
from app.events import Event
from tests.clock import Clock
from tests.eventlog import files
from tests.eventlog.contract import END, START, deltas
from tests.eventlog.creating import create
from tests.eventlog.redis_logs import STEADY_S, opened, pair, read_to_end
from tests.waiting import until

ERRORS = (RuntimeError, OSError, KeyError, asyncio.CancelledError, MemoryError)
BOUND_S = 60
PROVING = pytest.mark.proving


def strike(owner: Any, method: str, error: type[BaseException], *, times: float = 1) -> None:
    """Have the next calls of a method raise."""
    left = times

    def raising(*_: Any, **__: Any) -> Any:
        nonlocal left
        left -= 1
        if left <= 0:
            delattr(owner, method)
        raise error("from nowhere")

    setattr(owner, method, raising)


async def live(owner: Any, reader: Any, stream: str) -> None:
    """Live through one stream, at the process that produces it and at another."""
    await create(owner, stream)
    reading = [asyncio.create_task(read_to_end(log, stream)) for log in (owner, reader)]
    events: list[Event] = [START, *deltas("a", "b"), END]
    for number, event in enumerate(events):
        await owner.append(stream, [event])
        assert await reader.read(stream, number, timeout_s=20)

    assert [events, events] == await asyncio.gather(*reading)


async def outlive(first: Any, second: Any, task: str, error: type[BaseException]):
    """A task of the first log is struck while streams run: all is well again within the bound."""
    part, method = REDIS[task]
    owner = getattr(first, part)
    which = f"{error.__name__}-{task.replace(' ', '-')}"
    before, other, during = (f"{name}-{which}" for name in ("before", "other", "during"))
    async with asyncio.timeout(BOUND_S):
        await create(first, before)
        await first.append(before, [START])
        await create(second, other)
        reading = [asyncio.create_task(read_to_end(log, before)) for log in (first, second)]
        for log in (first, second):
            await log.state(before)
        strike(owner, method, error)
        first.readers_here(other)  # so that whoever looks now and then does so now
        waiting = asyncio.gather(
            first.append(before, deltas("a")), create(first, during), return_exceptions=True
        )
        for result in await waiting:  # whatever it is, it is an answer
            assert not isinstance(result, BaseException) or isinstance(result, ServiceError)
        await until(lambda: method not in vars(owner))
        await until(first.healthy)
        await first.append(before, [END])
        assert (await reading[0])[-1] == END == (await reading[1])[-1]
        await live(first, second, f"first-{which}")
        await live(second, first, f"second-{which}")


REDIS = {
    "link": ("_link", "_round_trip"),
    "link of the tails": ("_tail_link", "_round_trip"),
    "writer": ("_owner", "_write"),
    "leases": ("_owner", "_renew"),
    "tails": ("_tails", "_read"),
    "watch": ("_tails", "_look_after"),
}


async def strike_all(
    tasks: Iterable[str],
    strike_with: Callable[[str, type[BaseException]], Awaitable[None]],
    errors: Sequence[type[BaseException]] = ERRORS,
) -> None:
    """Strike each task with each error, all at once, each in logs of its own."""
    cases = [(task, error) for task in tasks for error in errors]
    outcomes = await asyncio.gather(*starmap(strike_with, cases), return_exceptions=True)
    failed = {case: outcome for case, outcome in zip(cases, outcomes, strict=True) if outcome}
    assert {} == failed


@PROVING
async def test_task_of_the_redis_log_that_is_struck_is_made_good(server):
    async def strike_with(task: str, error: type[BaseException]) -> None:
        async with pair(server.url) as (first, second):
            await outlive(first, second, task, error)

    await strike_all(REDIS, strike_with)


@PROVING
@pytest.mark.parametrize("error", [KeyError, RuntimeError])
async def test_link_that_always_fails_is_away_and_answers(server, error, impatient):
    async with opened(server.url, lease_s=STEADY_S) as log:
        await create(log, "st_1")
        await log.append("st_1", [START])
        impatient()
        strike(log._link, "_round_trip", error, times=10**9)
        strike(log._link, "_make", error, times=10**9)
        reply = log._link.send("PING")
        appending = asyncio.create_task(log.append("st_1", deltas("a")))
        reading = asyncio.create_task(log.state("of another"))
        async with asyncio.timeout(BOUND_S):
            await appending  # it is shown, as whenever Redis is away
            for waiting in (reply, reading):
                assert isinstance(
                    (await asyncio.gather(waiting, return_exceptions=True))[0], Exception
                )
            await until(lambda: not log.healthy())
        delattr(log._link, "_round_trip")
        delattr(log._link, "_make")
        await until(log.healthy)
        await live(log, log, "st_2")


@PROVING
async def test_writer_that_always_fails_lets_nobody_wait(server):
    async with pair(server.url) as (first, second):
        await create(first, "st_1")
        await first.append("st_1", [START])
        strike(first._owner, "_write", KeyError, times=10**9)
        async with asyncio.timeout(BOUND_S):
            await first.append("st_1", [*deltas("a"), END])
        assert not first.healthy()
        delattr(first._owner, "_write")
        await until(first.healthy)

        assert [START, *deltas("a"), END] == await read_to_end(second)


@asynccontextmanager
async def sharing(folder: Path):
    path = folder / "log.db"
    prepare(path, now=time.time())
    async with (
        files.opened(path, shared=True) as first,
        files.opened(path, shared=True) as second,
    ):
        yield first, second


SQLITE = {
    "feed": (lambda log: log._feed, "_poll"),
    "processes": (lambda log: log._database.processes, "find_dead"),
    "sweeper": (lambda log: log, "sweep"),
    "transaction": (lambda log: log._database, "transact"),
    "reading": (lambda log: log._database, "read_progress"),
}


@pytest.mark.parametrize(
    "errors", [ERRORS[:1], pytest.param(ERRORS[1:], marks=PROVING)], ids=["an error", "others"]
)
async def test_task_of_the_shared_file_that_is_struck_is_made_good(tmp_path, errors):
    async def strike_with(task: str, error: type[BaseException]) -> None:
        folder = tmp_path / f"{task}-{error.__name__}"
        folder.mkdir()
        await outlive_shared(folder, task, error)

    await strike_all(SQLITE, strike_with, errors)


async def outlive_shared(folder: Path, task: str, error: type[BaseException]) -> None:
    part, method = SQLITE[task]
    async with sharing(folder) as (first, second):
        struck: Any = part(first)
        async with asyncio.timeout(BOUND_S):
            await create(second, "st_1")
            await second.append("st_1", [START])
            await create(first, "own")
            reading = asyncio.create_task(first.read("st_1", 1, timeout_s=20))
            await first.state("st_1")
            strike(struck, method, error)
            if task == "sweeper":
                first._due.set()
            appending = first.append("own", [START])
            results = await asyncio.gather(appending, return_exceptions=True)
            assert results[0] is None or isinstance(results[0], ServiceError)
            await asyncio.gather(first.state("st_1"), return_exceptions=True)
            await until(lambda: method not in vars(struck))
            first._due.set()
            await until(first.healthy)
            await second.append("st_1", deltas("a"))
            await asyncio.gather(reading, return_exceptions=True)
            await live(first, second, "after one")
            await live(second, first, "after two")


async def test_thread_that_cannot_be_started_fails_the_write_only(tmp_path):
    async with files.opened(tmp_path / "log.db") as log, asyncio.timeout(BOUND_S):
        strike(log._writer._thread, "do", RuntimeError)
        with pytest.raises(ServiceError):
            await create(log, "st_1")
        await live(log, log, "st_2")


async def test_task_that_loses_a_cancellation_is_cancelled_again(monkeypatch):
    """As one that connects by a Sentinel may; then closing the log waited for ever."""
    monkeypatch.setattr(supervision, "CANCEL_AGAIN_S", 0.01)

    async def work() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        await asyncio.sleep(3600)

    supervisor = Supervisor()
    supervisor.keep("a task", work)
    await asyncio.sleep(0)
    await asyncio.wait_for(supervisor.close(), 20)


async def test_task_that_returns_is_started_again_after_longer_and_longer_pauses(monkeypatch):
    """Each is twice as long as the one before, up to the longest."""
    runs: list[None] = []

    async def work() -> None:
        runs.append(None)

    clock = Clock(monkeypatch)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda at=clock: at._passed[0])
    supervisor = Supervisor()
    supervisor.keep("a task", work)
    await clock.pass_(0)
    for number in range(9):
        pause_s = min(PAUSE_S * 2**number, PAUSE_MOST_S)
        for part, count in ((0.99, number + 1), (0.01, number + 2)):
            await clock.pass_(part * pause_s)
            assert count == len(runs)
    assert not supervisor.healthy
    await supervisor.close()
    await clock.pass_(10 * PAUSE_MOST_S)

    assert 10 == len(runs)
