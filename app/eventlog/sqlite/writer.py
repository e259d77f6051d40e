"""The thread of a database, and transactions that batch all pending work.

Work submitted during a transaction becomes the next one, in order.
Reads take turns, one at a time, so that a commit never waits for more than one of them.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from ..pace import Pace
from ..tail import resolve

STUCK_S = 15.0
"""Work that takes so long hangs: no lock is waited for longer."""

YIELD_S = 0.002
"""The pause of one of several processes, so that others get their turn."""

T = TypeVar("T")
Work = Callable[[], Any]
Then = Callable[[Any, BaseException | None], None]


class _Job(NamedTuple):
    work: Work
    then: Then


class _Thread:
    """A thread that does one work after the other, and passes each result to the event loop.

    The futures of an executor take 900 of the 2,550 bytecodes of a token.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._given_at: deque[float] = deque()
        """When each of the works was given that are not done."""
        self._ended = False

    def do(self, work: Work, then: Then) -> None:
        """Do work; `then` receives its result or its error.

        Raises:
            RuntimeError, MemoryError: there is no thread, and none can be started.
        """
        if self._ended:
            raise RuntimeError("the thread of the database has ended")
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        self._given_at.append(self._loop.time())
        self._queue.put(_Job(work, then))

    def end(self) -> None:
        """Take no more work."""
        self._ended = True
        self._queue.put(None)

    def is_late(self, limit_s: float) -> bool:
        """Return whether some work has taken longer."""
        return bool(self._given_at) and self._loop.time() - self._given_at[0] > limit_s

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            result: Any = None
            error: BaseException | None = None
            try:
                result = job.work()
            except BaseException as failure:
                error = failure
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._done, job.then, result, error)
            del job, result, error

    def _done(self, then: Then, result: Any, error: BaseException | None) -> None:
        self._given_at.popleft()
        then(result, error)


class Writer:
    """Runs work in its thread; `transact` does a list of it in one transaction.

    `explain` converts the error of a failed transaction to the one that `write` raises. Unless
    some work is urgent, a transaction begins when the pace allows it, so that more can join. With
    `yields`, `YIELD_S` are between any two if work waits for the second.
    """

    def __init__(
        self,
        transact: Callable[[Sequence[Work]], Sequence[Any]],
        *,
        explain: Callable[[BaseException], BaseException] = lambda error: error,
        yields: bool = False,
    ) -> None:
        self._transact = transact
        self._explain = explain
        self._yields = yields
        self._pause: asyncio.TimerHandle | None = None
        self._urgent = False
        self._pace = Pace()
        self._yield_until = 0.0
        self._thread = _Thread("event-log")
        self._waiting: list[_Job] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._turn = asyncio.Lock()

    @property
    def healthy(self) -> bool:
        """Whether the thread does its work in time."""
        return not self._thread.is_late(STUCK_S)

    def submit(self, work: Work, then: Then, *, urgent: bool = False) -> None:
        """Put work into the next transaction; `then` receives its result or the error."""
        self._waiting.append(_Job(work, then))
        self._urgent = self._urgent or urgent
        if self._idle.is_set():
            self._idle.clear()
            self._schedule()
        elif urgent and self._pause is not None:
            self._pause.cancel()
            self._schedule()

    def _schedule(self) -> None:
        """Start the next transaction when it is due, and all other work of this turn has joined."""
        due = 0 if self._urgent else self._pace.due
        loop = asyncio.get_running_loop()
        self._pause = loop.call_at(max(due, self._yield_until), self._start)

    def post(self, work: Work) -> None:
        """Put work into the next transaction; a failure is logged and has no other effect."""

        def then(_: object, error: BaseException | None) -> None:
            if error is not None:
                self._explain(error)

        self.submit(work, then)

    async def write(
        self, work: Callable[[], T], on_commit: Callable[[T], None] = lambda _: None
    ) -> T:
        """Do work in the next transaction, even if the caller is cancelled.

        `on_commit` receives the results in the order of the work.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def then(result: T, error: BaseException | None) -> None:
            if not done.done():
                resolve(done, result, None if error is None else self._explain(error))
            if error is None:  # before the caller continues
                on_commit(result)

        self.submit(work, then, urgent=True)
        return await done

    async def read(self, work: Callable[[], T]) -> T:
        """Do work that writes nothing."""
        async with self._turn:
            return await self._do(work)

    async def close(self, work: Work) -> None:
        """Do the waiting work, then this, and end the thread."""
        await self._idle.wait()
        async with self._turn:
            try:
                await self._do(work)
            finally:
                self._thread.end()

    def _start(self) -> None:
        jobs, self._waiting = self._waiting, []
        self._pause, self._urgent = None, False
        self._pace.note(asyncio.get_running_loop().time(), len(jobs))
        works = [job.work for job in jobs]
        try:
            self._thread.do(partial(self._transact, works), partial(self._finish, jobs))
        except (MemoryError, RuntimeError) as error:  # no thread can be started
            self._finish(jobs, (), error)

    def _finish(
        self, jobs: Sequence[_Job], results: Sequence[Any], error: BaseException | None
    ) -> None:
        try:
            results = results if error is None else [None] * len(jobs)
            self._tell(zip(jobs, results, strict=True), error)
        finally:
            self._go_on()

    def _tell(self, told: Iterator[tuple[_Job, Any]], error: BaseException | None) -> None:
        """Pass the results on, also after a failure of one who hears, which the loop logs."""
        try:
            for job, result in told:
                job.then(result, error)
        except BaseException:
            self._tell(told, error)
            raise

    def _go_on(self) -> None:
        if not self._waiting:
            self._idle.set()
            return
        if self._yields:
            self._yield_until = asyncio.get_running_loop().time() + YIELD_S
        self._schedule()

    async def _do(self, work: Callable[[], T]) -> T:
        """Do work in the thread."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._thread.do(work, partial(resolve, done))
        return await done
