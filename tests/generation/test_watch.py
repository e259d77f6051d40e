"""The timer of a call's deadlines, when bytes arrive as one of them expires."""

import asyncio

import pytest

from app.generation.reading import Watch
from app.policies.deadlines import Deadlines, Timeouts
from tests.clock import Clock

pytestmark = pytest.mark.pure

LIMITS = Timeouts(total_timeout_s=0.01)


async def read_as_it_expires() -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as timeout:
        with Watch(Deadlines(LIMITS, now=loop.time()), timeout) as watch:
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                watch.note_bytes(events=True, finished=False)
                raise


async def test_the_first_event_may_come_as_the_last_deadline_expires():
    with pytest.raises(TimeoutError):
        await read_as_it_expires()


async def test_a_wait_of_the_relay_is_no_silence_of_the_provider(monkeypatch):
    clock, loop = Clock(monkeypatch), asyncio.get_running_loop()
    deadlines = Deadlines(Timeouts(), now=loop.time())
    async with asyncio.timeout(None) as timeout:
        with Watch(deadlines, timeout) as watch:
            watch.note_bytes(events=True, finished=False)
            with watch.paused():
                await clock.pass_(5)
            watch.note_bytes(events=True, finished=False)

    assert 0 == deadlines.silence(loop.time()).seconds
