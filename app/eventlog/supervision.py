"""The background tasks of a log: none of them ends unseen.

A task that ends before it is told to, however that came about, is reported and started
again after a pause. Until it has run for a while again, the log it works for is not healthy.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import structlog

PAUSE_S = 0.05
PAUSE_MOST_S = 1.0
"""The pause before a task is started again: it doubles up to the longest."""

STEADY_S = 1.0
"""A task that has run for so long since is taken for well."""

Work = Callable[[], Coroutine[Any, Any, object]]
OnFailure = Callable[[BaseException], object]

log = structlog.get_logger("seseragi.eventlog")


class _Kept:
    """A task that is kept running, and how it fares."""

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
    """Keeps background tasks running until it is stopped."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []
        self._stopped = False

    @property
    def healthy(self) -> bool:
        """Whether all tasks run, and have done so for a while."""
        return not any(kept.failing for kept in self._kept)

    def keep(self, name: str, work: Work, *, on_failure: OnFailure = lambda error: None) -> None:
        """Run work that is never to end, and run it again when it does.

        `on_failure` is told why it has ended, before it is started again; it is to give
        those an answer who wait for what the task had taken on.
        """
        kept = _Kept(name, work, on_failure)
        self._kept.append(kept)
        self._start(kept)

    def stop(self) -> None:
        """Cancel all tasks, and start none again."""
        self._stopped = True
        for kept in self._kept:
            if kept.timer is not None:
                kept.timer.cancel()
            if kept.task is not None:
                kept.task.cancel()

    async def close(self) -> None:
        """Cancel all tasks and wait for their ends."""
        self.stop()
        tasks = [kept.task for kept in self._kept if kept.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, kept: _Kept) -> None:
        kept.timer = None
        try:
            kept.task = asyncio.create_task(kept.work(), name=kept.name)
        except (MemoryError, RuntimeError) as error:  # there is no room for a task
            self._fail(kept, error)
            return
        kept.task.add_done_callback(partial(self._ended, kept))
        if kept.failing:
            loop = asyncio.get_running_loop()
            kept.timer = loop.call_later(STEADY_S, self._recover, kept)

    def _recover(self, kept: _Kept) -> None:
        kept.timer = None
        kept.failing = False
        kept.pause_s = PAUSE_S

    def _ended(self, kept: _Kept, task: "asyncio.Task[object]") -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if not self._stopped:
            self._fail(kept, error or RuntimeError("it returned"))

    def _fail(self, kept: _Kept, error: BaseException) -> None:
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
