"""The tail of a stream of another process, and its readers."""

import asyncio

import pytest

from app.eventlog.tail import Tail
from tests.eventlog.contract import deltas

pytestmark = pytest.mark.pure


async def test_a_reader_that_is_ahead_waits_for_its_own_event():
    tail = Tail(1, now=0)
    reading = asyncio.create_task(tail.read(2, timeout_s=20, limit=9))
    await asyncio.sleep(0)
    tail.add(2, deltas("a"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not reading.done()

    tail.add(3, deltas("b"))
    assert deltas("b") == list(await asyncio.wait_for(reading, 20))


async def test_a_reader_of_a_tail_that_closes_does_not_wait_on():
    tail = Tail(1, now=0)
    reading = asyncio.create_task(tail.read(2, timeout_s=20, limit=9))
    await asyncio.sleep(0)
    tail.close()

    assert [] == list(await asyncio.wait_for(reading, 10))
