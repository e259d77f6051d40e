"""The one timer over the wait for an upstream."""

import asyncio

from .deadlines import Deadlines

LATE_S = 0.25
"""A timer that is later than this fired in a process that stood still."""

READ_S = 0.1
"""How long such a process reads what has come before it calls an upstream silent: uvloop runs
timers before it looks at sockets."""


class Watch:
    """Ends the wait for an upstream: expires `timeout` when `deadlines` say so.

    While tokens come, one timer stands and is looked at when it fires; it is set anew only
    when the time to wait has become shorter.
    """

    def __init__(self, deadlines: Deadlines, timeout: asyncio.Timeout) -> None:
        self._deadlines = deadlines
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._stood_still = False

    def __enter__(self) -> "Watch":
        self._check()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def note_bytes(self, *, events: bool, finished: bool) -> None:
        """Note that bytes came, and whether they held events."""
        self._stood_still = False
        if self._deadlines.on_bytes(self._loop.time(), events=events, finished=finished):
            if self._timer is not None:
                self._timer.cancel()
            self._check()

    def _check(self) -> None:
        when, now = self._deadlines.next(), self._loop.time()
        if when > now:
            self._timer = self._loop.call_at(when, self._check)
        elif now - when > LATE_S and not self._stood_still:
            self._stood_still = True
            self._timer = self._loop.call_later(READ_S, self._check)
        else:
            self._timeout.reschedule(when)
