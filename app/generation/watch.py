"""The one timer over the wait for an upstream."""

import asyncio

from ..deadlines import Deadlines


class Watch:
    """Ends the wait for an upstream: expires `patience` when `deadlines` say so.

    While tokens come, one timer stands and is looked at when it fires; it is set anew only
    when the time to wait has become shorter.
    """

    def __init__(self, deadlines: Deadlines, patience: asyncio.Timeout) -> None:
        self._deadlines = deadlines
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> "Watch":
        self._check()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def saw(self, *, events: bool, finished: bool) -> None:
        """Note that bytes came, and whether they held events."""
        if self._deadlines.on_bytes(self._loop.time(), events=events, finished=finished):
            if self._timer is not None:
                self._timer.cancel()
            self._check()

    def _check(self) -> None:
        when = self._deadlines.next()
        if when <= self._loop.time():
            self._patience.reschedule(when)
        else:
            self._timer = self._loop.call_at(when, self._check)
