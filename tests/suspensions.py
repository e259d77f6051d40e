"""Acts at a chosen suspension of some coroutines: at each await that really waits, in turn."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any

Act = Callable[[Any], None]
"""Receives `self` of the coroutine that is suspended."""


class Suspensions:
    """Counts the suspensions of coroutines with these qualified names.

    Suspension number `at` calls `act`, once the coroutine waits.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._act: Act = lambda _: None
        self._at = 0
        self.count = 0
        self.place: list[str] = []
        """The functions that were suspended at `at`, outermost first."""

    def prepare(self, at: int, act: Act) -> None:
        """Act at this suspension from now on, counted from 1."""
        self._at, self._act, self.count, self.place = at, act, 0, []

    def create_task(
        self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any
    ) -> "asyncio.Task[Any]":
        """Create a task: the factory of an event loop."""
        if getattr(work, "__qualname__", "") in self._names:
            work = self._watch(work)
        return asyncio.Task(work, loop=loop, **options)

    async def _watch(self, work: Coroutine[Any, Any, Any]) -> Any:
        return await _Steps(work, self._suspended)

    def _suspended(self, work: Any) -> None:
        self.count += 1
        if self.count == self._at:
            self.place = list(_functions(work))
            asyncio.get_running_loop().call_soon(self._act, work.cr_frame.f_locals["self"])


class _Steps:
    """Awaits a coroutine step by step."""

    def __init__(self, work: Coroutine[Any, Any, Any], suspended: Callable[[Any], None]) -> None:
        self._work = work
        self._suspended = suspended

    def __await__(self) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        while True:
            try:
                waits_for = self._work.send(None) if error is None else self._work.throw(error)
            except StopIteration as done:
                return done.value
            self._suspended(self._work)
            try:
                yield waits_for
                error = None
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as thrown:
                error = thrown


def _functions(work: Any) -> Iterator[str]:
    while work is not None:
        if (code := getattr(work, "cr_code", None) or getattr(work, "ag_code", None)) is not None:
            yield code.co_qualname
        work = getattr(work, "cr_await", None) or getattr(work, "ag_await", None)


@contextlib.contextmanager
def suspensions(*names: str) -> Iterator[Suspensions]:
    """Watch the tasks of coroutines with these names that the running loop creates meanwhile."""
    watched = Suspensions(frozenset(names))
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    loop.set_task_factory(watched.create_task)
    try:
        yield watched
    finally:
        loop.set_task_factory(before)
