"""The timer of a call's deadlines, when bytes arrive as one of them expires."""

import asyncio

import pytest

from app.generation.reading import Watch
from app.policies.deadlines import Deadlines, Timeouts

pytestmark = pytest.mark.pure

LIMITS = Timeouts(total_timeout_s=0.01)


async def test_the_first_event_may_come_as_the_last_deadline_expires():
    loop = asyncio.get_running_loop()
    deadlines = Deadlines(LIMITS, now=loop.time())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as timeout:
            with Watch(deadlines, timeout) as watch:
                try:
                    await asyncio.sleep(20)
                except asyncio.CancelledError:
                    watch.note_bytes(events=True, finished=False)
                    raise
