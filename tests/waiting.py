"""Waiting for a fact, instead of for a time in which it should have come true."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

LIMIT_S = 20.0
POLL_S = 0.005
POLL_SHARE = 0.05
"""How late the fact is noticed, as a share of how long it took.

A server takes a second to start: asked 200 times, it takes one more, of the cores it starts on.
"""


async def until(
    condition: Callable[[], object | Awaitable[object]], *, limit_s: float = LIMIT_S
) -> None:
    """Return when a condition holds.

    Raises:
        AssertionError: it does not hold within the limit.
    """
    began = time.monotonic()
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return
        await asyncio.sleep(_pause(began, limit_s))


def wait_until(condition: Callable[[], object], *, limit_s: float = LIMIT_S) -> None:
    """Return when a condition holds, where there is no event loop.

    Raises:
        AssertionError: it does not hold within the limit.
    """
    began = time.monotonic()
    while not condition():
        time.sleep(_pause(began, limit_s))


def _pause(began: float, limit_s: float) -> float:
    """Return how long to wait before the next look, unless the time is over."""
    elapsed = time.monotonic() - began
    assert elapsed < limit_s, f"it did not come true within {limit_s:g} s"
    return max(POLL_S, POLL_SHARE * elapsed)
