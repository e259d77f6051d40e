"""The thread of a database, and transactions that batch all pending work.

Work submitted during a transaction becomes the next one, in order.
Reads take turns, one at a time, so that a commit never waits for more than one of them.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar

from ..supervision import Supervisor

LOOK_S = 1.0
"""How often the thread is checked."""

STUCK_S = 15.0
"""Work that takes so long hangs: no lock is waited for longer."""

T = TypeVar("T")
Work = Callable[[], Any]
Then = Callable[[Any, BaseException | None], None]


class ThreadLostError(Exception):
    """The thread has ended before it had done what it was given."""


class _Job(NamedTuple):
    work: Work
    then: Then


class Writer:
    """Runs work in its thread; `transact` does a list of it as a whole and gives the results.

    `explain` makes what `write` raises of the reason why a transaction failed. `pause_s` is
    kept between two transactions if something waits for the second, so that others may write.
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
        self._thread = self._open_thread()
        self._alive: threading.Thread | None = None
        """The thread, from the first that it was given."""
        self._running: dict[asyncio.Future[Any], float] = {}
        """What the thread has been given, and when."""
        self._tasks = Supervisor()
        self._tasks.keep("event log thread", self._keep_watch)
        self._waiting: list[_Job] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._turn = asyncio.Lock()

    @property
    def healthy(self) -> bool:
        """Whether the thread does what it is given, in time."""
        now = asyncio.get_running_loop().time()
        stuck = any(now - since > STUCK_S for since in self._running.values())
        return not stuck and self._tasks.healthy

    def submit(self, work: Work, then: Then) -> None:
        """Put work into the next transaction; `then` hears its result or why there is none."""
        self._waiting.append(_Job(work, then))
        if self._idle.is_set():
            self._idle.clear()
            # Once the loop has come round, whatever else it had to submit has joined.
            asyncio.get_running_loop().call_soon(self._start)

    async def write(
        self, work: Callable[[], T], on_commit: Callable[[T], None] = lambda _: None
    ) -> T:
        """Do work in the next transaction; a caller that is cancelled does not stop it.

        `on_commit` hears the result in the order of the work.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def then(result: T, error: BaseException | None) -> None:
            if not done.done():
                if error is None:
                    done.set_result(result)
                else:
                    done.set_exception(self._explain(error))
            if error is None:  # before who waits goes on
                on_commit(result)

        self.submit(work, then)
        return await done

    async def read(self, work: Callable[[], T]) -> T:
        """Do work that changes nothing."""
        async with self._turn:
            return await self._do(work)

    async def close(self, work: Work) -> None:
        """Do what waits, then this, and end the thread."""
        await self._idle.wait()
        async with self._turn:
            try:
                await self._do(work)
            finally:
                await self._tasks.close()
                self._thread.shutdown(wait=False)

    def _start(self) -> None:
        jobs, self._waiting = self._waiting, []
        future: asyncio.Future[Sequence[Any]]
        try:
            future = self._do(partial(self._transact, [job.work for job in jobs]))
        except (MemoryError, RuntimeError) as error:  # there is no thread to be had
            future = asyncio.get_running_loop().create_future()
            future.set_exception(error)
        future.add_done_callback(partial(self._finish, jobs))

    def _finish(self, jobs: Sequence[_Job], future: "asyncio.Future[Sequence[Any]]") -> None:
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        results = [None] * len(jobs) if error else future.result()
        # A stack comes to its end whatever fails on the way; the loop hears of it then.
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

    # The thread

    def _open_thread(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, thread_name_prefix="event-log", initializer=self._note)

    def _note(self) -> None:
        self._alive = threading.current_thread()

    def _do(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Run work in the thread."""
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._thread, work)
        self._running[future] = loop.time()
        future.add_done_callback(self._running.pop)
        return future

    async def _keep_watch(self) -> None:
        """Take another thread for one that has ended, and say so to whoever waits for it."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self._alive is None or self._alive.is_alive():
                continue
            self._alive = None
            self._thread.shutdown(wait=False)
            self._thread = self._open_thread()
            for future in list(self._running):
                if not future.done():
                    future.set_exception(ThreadLostError("the thread of the log has ended"))
            raise ThreadLostError("it is replaced")
