"""The thread of a database, and transactions that batch all pending work.

Work submitted during a transaction becomes the next one, in order.
Reads take turns, one at a time, so that a commit never waits for more than one of them.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar

STUCK_S = 15.0
"""Work that takes so long hangs: no lock is waited for longer."""

T = TypeVar("T")
Work = Callable[[], Any]
Then = Callable[[Any, BaseException | None], None]


class _Job(NamedTuple):
    work: Work
    then: Then


class Writer:
    """Runs work in its thread; `transact` does a list of it in one transaction.

    `explain` converts the error of a failed transaction to the one that `write` raises. Between
    two transactions, if work waits for the second, it pauses for `pause_s`.
    """

    def __init__(
        self,
        transact: Callable[[Sequence[Work]], Sequence[Any]],
        *,
        explain: Callable[[BaseException], BaseException] = lambda error: error,
        pause_s: float = 0,
    ) -> None:
        self._transact = transact
        self._explain = explain
        self._pause_s = pause_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="event-log")
        self._running: dict[asyncio.Future[Any], float] = {}
        """The work in the thread, and since when."""
        self._waiting: list[_Job] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._turn = asyncio.Lock()

    @property
    def healthy(self) -> bool:
        """Whether the thread does its work in time."""
        now = asyncio.get_running_loop().time()
        return not any(now - since > STUCK_S for since in self._running.values())

    def submit(self, work: Work, then: Then) -> None:
        """Put work into the next transaction; `then` receives its result or the error."""
        self._waiting.append(_Job(work, then))
        if self._idle.is_set():
            self._idle.clear()
            # In the next turn of the loop, when all other work of this one has joined.
            asyncio.get_running_loop().call_soon(self._start)

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
                if error is None:
                    done.set_result(result)
                else:
                    done.set_exception(self._explain(error))
            if error is None:  # before the caller continues
                on_commit(result)

        self.submit(work, then)
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
                self._thread.shutdown(wait=False)

    def _start(self) -> None:
        jobs, self._waiting = self._waiting, []
        future: asyncio.Future[Sequence[Any]]
        try:
            future = self._do(partial(self._transact, [job.work for job in jobs]))
        except (MemoryError, RuntimeError) as error:  # no thread can be started
            future = asyncio.get_running_loop().create_future()
            future.set_exception(error)
        future.add_done_callback(partial(self._finish, jobs))

    def _finish(self, jobs: Sequence[_Job], future: "asyncio.Future[Sequence[Any]]") -> None:
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        results = [None] * len(jobs) if error else future.result()
        # A stack calls all of them, whichever fails; the loop logs the failure.
        with contextlib.ExitStack() as stack:
            stack.callback(self._go_on)
            for job, result in reversed(list(zip(jobs, results, strict=True))):
                stack.callback(job.then, result, error)

    def _go_on(self) -> None:
        if self._waiting and self._pause_s:
            asyncio.get_running_loop().call_later(self._pause_s, self._start)
        elif self._waiting:
            self._start()
        else:
            self._idle.set()

    def _do(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Run work in the thread."""
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._thread, work)
        self._running[future] = loop.time()
        future.add_done_callback(self._running.pop)
        return future
