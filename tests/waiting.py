"""Waiting for a fact, instead of for a time in which it should have come true."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

LIMIT_S = 20.0
POLL_S = 0.005


async def until(
    condition: Callable[[], object | Awaitable[object]], *, limit_s: float = LIMIT_S
) -> None:
    """Return when a condition holds.

    Raises:
        AssertionError: it does not hold within the limit.
    """
    deadline = time.monotonic() + limit_s
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return
        assert time.monotonic() < deadline, f"it did not come true within {limit_s:g} s"
        await asyncio.sleep(POLL_S)


def wait_until(condition: Callable[[], object], *, limit_s: float = LIMIT_S) -> None:
    """Return when a condition holds, where there is no event loop.

    Raises:
        AssertionError: it does not hold within the limit.
    """
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"it did not come true within {limit_s:g} s"
        time.sleep(POLL_S)
