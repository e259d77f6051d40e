"""The writer: transactions of what waits, and what hears of them."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from app.eventlog import pace
from app.eventlog.sqlite import writer as writers
from app.eventlog.sqlite.writer import Writer
from tests.waiting import until

pytestmark = pytest.mark.pure


def do_all(works: Sequence[Callable[[], Any]]) -> list[Any]:
    return [work() for work in works]


@pytest.fixture
async def writer():
    writer = Writer(do_all)
    yield writer
    await asyncio.wait_for(writer.close(lambda: None), 20)


@pytest.fixture
async def reported():
    """The exceptions that the loop was told of."""
    seen: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: seen.append(context["exception"])
    )
    return seen


def divide(*_: Any) -> None:
    raise ZeroDivisionError


async def test_failure_to_hear_of_a_write_harms_no_other(writer, reported):
    writer.submit(lambda: 1, divide)
    first = asyncio.create_task(writer.write(lambda: 2))
    await asyncio.sleep(0)

    assert 2 == await asyncio.wait_for(first, 20)
    assert 3 == await asyncio.wait_for(writer.write(lambda: 3), 20)
    assert [ZeroDivisionError] == list(map(type, reported))


async def test_what_waits_is_written_after_a_failure_to_hear(writer, reported):
    def then(*_: Any) -> None:
        waiting.append(asyncio.create_task(writer.write(lambda: 2)))
        writer.submit(lambda: 3, lambda *_: None)
        raise ZeroDivisionError

    waiting: list[asyncio.Task[int]] = []
    writer.submit(lambda: 1, then)
    await asyncio.wait_for(writer._idle.wait(), 20)

    assert 2 == await asyncio.wait_for(waiting[0], 20)
    assert 1 == len(reported)


def make_slow(monkeypatch):
    monkeypatch.setattr(pace, "EACH_S", 20)
    monkeypatch.setattr(pace, "GATHER_S", 20)


async def test_failure_after_a_commit_is_reported_and_the_write_is_done(writer, reported):
    assert 1 == await asyncio.wait_for(writer.write(lambda: 1, divide), 20)
    assert [ZeroDivisionError] == list(map(type, reported))


async def test_failure_after_a_commit_that_nobody_waits_for_is_reported(writer, reported):
    writing = asyncio.create_task(writer.write(lambda: 1, divide))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait_for(writer._idle.wait(), 20)

    assert [ZeroDivisionError] == list(map(type, reported))


async def test_writer_whose_thread_does_nothing_is_unhealthy(monkeypatch):
    writer = Writer(do_all)
    monkeypatch.setattr(writers, "STUCK_S", 0)
    goes_on = threading.Event()
    assert 1 == await writer.write(lambda: 1)
    assert writer.healthy

    hanging = asyncio.create_task(writer.write(lambda: goes_on.wait(20)))
    await asyncio.sleep(0.01)

    assert not writer.healthy
    goes_on.set()
    assert await asyncio.wait_for(hanging, 20)
    assert writer.healthy
    await asyncio.wait_for(writer.close(lambda: None), 20)


@pytest.mark.parametrize("yields", [False, True])
async def test_urgent_work_ends_a_pause_unless_others_have_their_turn(yields, monkeypatch):
    make_slow(monkeypatch)
    monkeypatch.setattr(writers, "YIELD_S", 0.04)
    sizes: list[int] = []

    def transact(works: Sequence[Callable[[], Any]]) -> list[Any]:
        sizes.append(len(works))
        if len(sizes) == 1:
            begun.set()
            assert goes_on.wait(20)
        return do_all(works)

    begun, goes_on = threading.Event(), threading.Event()
    writer = Writer(transact, yields=yields)
    writer.post(lambda: 1)
    assert await asyncio.to_thread(begun.wait, 20)
    writer.post(lambda: 2)
    began_at = time.monotonic()
    goes_on.set()
    await until(lambda: writer._pause is not None)
    writer.post(lambda: 3)

    assert 4 == await asyncio.wait_for(writer.write(lambda: 4), 10)
    assert [1, 3] == sizes
    assert not yields or time.monotonic() - began_at > 0.03
    await asyncio.wait_for(writer.close(lambda: None), 20)


async def test_work_waits_for_more_only_if_that_comes_fast(monkeypatch):
    sizes: list[int] = []

    def transact(works: Sequence[Callable[[], Any]]) -> list[Any]:
        sizes.append(len(works))
        return do_all(works)

    writer = Writer(transact)
    writer.post(lambda: 1)
    await until(writer._idle.is_set)
    await asyncio.sleep(2 * pace.EACH_S)
    writer.post(lambda: 2)
    make_slow(monkeypatch)
    await until(writer._idle.is_set, limit_s=10)
    writer.post(lambda: 3)
    await asyncio.sleep(0.02)

    assert [1, 1] == sizes
    assert 4 == await asyncio.wait_for(writer.write(lambda: 4), 10)
    assert [1, 1, 2] == sizes
    await asyncio.wait_for(writer.close(lambda: None), 20)


async def test_work_after_the_end_fails():
    writer = Writer(do_all)
    await writer.close(lambda: None)

    with pytest.raises(RuntimeError, match="ended"):
        await asyncio.wait_for(writer.write(lambda: 1), 20)


async def test_work_without_a_thread_fails(monkeypatch):
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    writer = Writer(do_all)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="new thread"):
            await asyncio.wait_for(writer.write(lambda: 1), 20)

    assert 1 == await asyncio.wait_for(writer.write(lambda: 1), 20)
    await asyncio.wait_for(writer.close(lambda: None), 20)


async def test_every_job_hears_why_its_transaction_failed(writer):
    results = await asyncio.gather(
        writer.write(divide), writer.write(lambda: 1), return_exceptions=True
    )

    assert [ZeroDivisionError] * 2 == list(map(type, results))
    assert 1 == await writer.write(lambda: 1)
