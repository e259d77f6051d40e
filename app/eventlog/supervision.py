"""Supervises background tasks.

A task that ends before it is cancelled is logged and restarted after a pause. Until it has run
steadily again, its owner is unhealthy.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import structlog

PAUSE_S = 0.05
PAUSE_MOST_S = 1.0
"""The pause before a restart; it doubles up to the maximum."""

STEADY_S = 1.0
"""A restarted task that has run for so long is healthy."""

CANCEL_AGAIN_S = 0.5
"""When a task that has not ended is cancelled again: before Python 3.12 `asyncio.wait_for`, which
redis-py uses to ask a Sentinel, loses a cancellation that comes with its result."""

Work = Callable[[], Coroutine[Any, Any, object]]
OnFailure = Callable[[BaseException], object]

log = structlog.get_logger("seseragi.eventlog")


class _Supervised:
    """A supervised task."""

    __slots__ = ("failing", "name", "on_failure", "pause_s", "task", "timer", "work")

    def __init__(self, name: str, work: Work, on_failure: OnFailure) -> None:
        self.name = name
        self.work = work
        self.on_failure = on_failure
        self.failing = False
        self.pause_s = PAUSE_S
        self.task: asyncio.Task[object] | None = None
        self.timer: asyncio.TimerHandle | None = None


class Supervisor:
    """Restarts background tasks until it is stopped."""

    def __init__(self) -> None:
        self._supervised: list[_Supervised] = []
        self._stopped = False

    @property
    def healthy(self) -> bool:
        """Whether all tasks run steadily."""
        return not any(kept.failing for kept in self._supervised)

    def keep(self, name: str, work: Work, *, on_failure: OnFailure = lambda error: None) -> None:
        """Run work that should never end, and restart it if it does.

        `on_failure` receives the error before the restart; it must answer callers that wait
        for the task's unfinished work.
        """
        kept = _Supervised(name, work, on_failure)
        self._supervised.append(kept)
        self._start(kept)

    def stop(self) -> None:
        """Cancel all tasks for good."""
        self._stopped = True
        for kept in self._supervised:
            if kept.timer is not None:
                kept.timer.cancel()
            if kept.task is not None:
                kept.task.cancel()

    async def close(self) -> None:
        """Cancel all tasks and wait for their ends."""
        self.stop()
        pending = {kept.task for kept in self._supervised if kept.task is not None}
        while pending:
            _, pending = await asyncio.wait(pending, timeout=CANCEL_AGAIN_S)
            for task in pending:
                task.cancel()

    def _start(self, kept: _Supervised) -> None:
        kept.timer = None
        try:
            kept.task = asyncio.create_task(kept.work(), name=kept.name)
        except (MemoryError, RuntimeError) as error:  # out of memory or threads
            self._fail(kept, error)
            return
        kept.task.add_done_callback(partial(self._ended, kept))
        if kept.failing:
            loop = asyncio.get_running_loop()
            kept.timer = loop.call_later(STEADY_S, self._recover, kept)

    def _recover(self, kept: _Supervised) -> None:
        kept.timer = None
        kept.failing = False
        kept.pause_s = PAUSE_S

    def _ended(self, kept: _Supervised, task: "asyncio.Task[object]") -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if not self._stopped:
            self._fail(kept, error or RuntimeError("it returned"))

    def _fail(self, kept: _Supervised, error: BaseException) -> None:
        if kept.timer is not None:
            kept.timer.cancel()
        kept.failing = True
        loop = asyncio.get_running_loop()
        kept.timer = loop.call_later(kept.pause_s, self._start, kept)
        kept.pause_s = min(2 * kept.pause_s, PAUSE_MOST_S)
        log.error(
            "background task of the event log ended and is started again",
            task=kept.name,
            error=type(error).__name__,
            exc_info=error if isinstance(error, Exception) else None,
        )
        kept.on_failure(error)


async def wait_for(event: asyncio.Event, timeout_s: float) -> None:
    """Wait for an event, but not longer than the timeout, and clear it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
    event.clear()
