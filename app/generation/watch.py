"""The timer of a call's deadlines."""

import asyncio
import contextlib
from collections.abc import Iterator

from .deadlines import Deadlines

LATE_S = 0.25
"""The delay of a timer, in seconds, that indicates a suspended process."""

READ_S = 0.1
"""Seconds for such a process to read arrived data before the deadline counts: uvloop runs timers
before it polls sockets."""


class Watch:
    """Expires `timeout` at the next of the `deadlines`.

    While tokens arrive, one timer runs and is checked when it fires; it is only set again if the
    deadline has become earlier.
    """

    def __init__(self, deadlines: Deadlines, timeout: asyncio.Timeout) -> None:
        self._deadlines = deadlines
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._stood_still = self._paused = False

    def __enter__(self) -> "Watch":
        self._check()
        return self

    def __exit__(self, *_: object) -> None:
        self._paused = True  # for good
        if self._timer is not None:
            self._timer.cancel()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Check no deadline within the `with`."""
        self._paused = True
        self._timeout.reschedule(None)
        try:
            yield
        finally:
            self._paused = False
            self._check_again()

    def note_bytes(self, *, events: bool, finished: bool) -> None:
        """Record the arrival of bytes, and whether they contain events."""
        self._stood_still = False
        if self._deadlines.on_bytes(self._loop.time(), events=events, finished=finished):
            self._check_again()

    def _check_again(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._check()

    def _check(self) -> None:
        if self._paused:
            return
        when, now = self._deadlines.next(), self._loop.time()
        if when > now:
            self._timer = self._loop.call_at(when, self._check)
        elif now - when > LATE_S and not self._stood_still:
            self._stood_still = True
            self._timer = self._loop.call_later(READ_S, self._check)
        else:
            self._timeout.reschedule(when)
