"""The followers of one stream, and the readers that wait for its next event."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from ..events import Event
from .contract import Follower

T = TypeVar("T")


class Subscribers:
    """What a stream in memory wakes."""

    __slots__ = ("followers", "waiters")

    def __init__(self) -> None:
        self.followers: list[Follower] = []
        self.waiters: list[asyncio.Future[None]] = []

    @property
    def idle(self) -> bool:
        """Whether there are none."""
        return not (self.followers or self.waiters)

    def unfollow(self, follower: Follower) -> None:
        """Remove a follower. Unknown followers are ignored."""
        if follower in self.followers:
            self.followers.remove(follower)

    async def wait(self, timeout_s: float) -> None:
        """Wait for the next `notify`, at most for the timeout."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self.waiters.append(waiter)
        timer = loop.call_later(timeout_s, resolve, waiter, None)
        try:
            await waiter
        finally:
            timer.cancel()
            if waiter in self.waiters:
                self.waiters.remove(waiter)

    def notify(self, events: Sequence[Event]) -> None:
        """Call the followers and wake the waiting readers."""
        for follower in (*self.followers,):
            follower(events)
        for waiter in self.waiters:
            resolve(waiter, None)
        self.waiters.clear()


def resolve(waiter: "asyncio.Future[T]", result: T, error: BaseException | None = None) -> None:
    """Wake who waits, with the result or the error, unless it has left."""
    if waiter.done():
        return
    if error is None:
        waiter.set_result(result)
    else:
        waiter.set_exception(error)
