"""An event loop with virtual time, whose order of steps a seed draws.

Time jumps to the next timer when nothing is ready. What belongs to a process that was killed no
longer runs: neither its tasks, nor their `finally` blocks, nor callbacks of its connections.
"""

import asyncio
import heapq
import itertools
import random
import socket
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from .network import Network, Transport

PROCESS: Final[ContextVar[str]] = ContextVar("process", default="")
"""The simulated process that a task or a callback belongs to."""

STEP_S: Final = 0.0001
"""The most time that one turn of the loop takes."""

MAX_TURNS: Final = 400_000
"""A run with more turns hangs in a circle."""


class Stuck(Exception):
    """Nothing is left that could ever happen, or it never ends."""


class _Task(asyncio.Task[Any]):
    """A task whose place in a set is the same in each run."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs everything of a simulation in one thread.

    Each turn runs what is ready, as asyncio does; in a share of the turns the order is shuffled,
    and some of it is left to the next turn: a step of one task may come before or after that of
    any other. Data of one connection stays in order, since each direction has one step at a time.
    """

    def __init__(self, dice: random.Random, network: Network) -> None:
        super().__init__()
        self._dice = dice
        self._now = 1000.0
        self.disorder = 0.0
        """The share of turns in another order than asyncio's."""
        self.network = network
        self.turns = 0
        self.most_turns: float = MAX_TURNS
        self.dead: set[str] = set()
        """Processes that were killed."""
        self._numbers = itertools.count(1)
        self.tasks: dict[asyncio.Task[Any], str] = {}
        """Those that have not ended, with their processes."""
        self._paused: dict[str, list[Any]] = {}
        """What waits in processes that are stopped for a while."""
        self.errors: list[str] = []
        """What a real loop would have logged as unhandled."""
        self._addresses: dict[int, tuple[str, int]] = {}
        """Where sockets are connected to, by their numbers."""
        network.loop = self
        self.set_exception_handler(self._note_error)
        self.set_task_factory(self._start_task)

    def time(self) -> float:
        return self._now

    # What asyncio calls

    def _run_once(self) -> None:
        """Run one turn; it replaces the one of asyncio, and uses its queues."""
        this: Any = self
        ready, scheduled, dice = this._ready, this._scheduled, self._dice
        self.turns += 1
        if self.turns > self.most_turns:
            raise Stuck(f"{self.most_turns} turns, at {self._now:.3f} s")
        while scheduled and scheduled[0]._cancelled:
            self._pop_timer(scheduled)
        if ready:
            self._now += dice.random() * STEP_S
        elif scheduled:
            self._now = max(self._now, scheduled[0]._when)
        else:
            raise Stuck(f"nothing is left to happen, at {self._now:.3f} s")
        while scheduled and scheduled[0]._when <= self._now:
            timer = self._pop_timer(scheduled)
            if not timer._cancelled:
                ready.append(timer)
        turn = list(ready)
        ready.clear()
        if len(turn) > 1 and dice.random() < self.disorder:
            dice.shuffle(turn)
            keep = dice.randrange(1, len(turn) + 1)
            ready.extend(turn[keep:])
            del turn[keep:]
        if not (self.dead or self._paused):
            for handle in turn:
                if not handle._cancelled:
                    handle._run()
            return
        for handle in turn:
            process = handle._context.get(PROCESS)
            if process in self._paused:
                self._paused[process].append(handle)
            elif not handle._cancelled and process not in self.dead:
                handle._run()

    def pause(self, process: str) -> None:
        """Let nothing of a process run until `go_on`."""
        self._paused.setdefault(process, [])

    def go_on(self, process: str) -> None:
        """Let a process run again."""
        self._ready.extend(self._paused.pop(process, ()))  # type: ignore[attr-defined]

    def _pop_timer(self, scheduled: list[Any]) -> Any:
        timer = heapq.heappop(scheduled)
        timer._scheduled = False
        if timer._cancelled:
            this: Any = self
            this._timer_cancelled_count -= 1
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        this: Any = self
        this._timer_cancelled_count += 1

    def _process_events(self, event_list: Any) -> None: ...

    def _write_to_self(self) -> None: ...

    def _start_task(
        self, loop: asyncio.AbstractEventLoop, work: Any, **how: Any
    ) -> "asyncio.Task[Any]":
        task = _Task.__new__(_Task)
        task.number = next(self._numbers)
        task.__init__(work, loop=loop, **how)  # type: ignore[misc]
        context = how.get("context")
        self.tasks[task] = PROCESS.get() if context is None else context.get(PROCESS, "")
        task.add_done_callback(self.tasks.pop)
        return task

    def _note_error(self, loop: object, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.errors.append(f"{context['message']}: {error!r}")

    # The system

    def run_in_executor(  # type: ignore[override]
        self, executor: object, function: Callable[..., Any], *arguments: Any
    ) -> "asyncio.Future[Any]":
        """Call the function in a later turn: there are no threads."""
        done: asyncio.Future[Any] = self.create_future()

        def call() -> None:
            try:
                result = function(*arguments)
            except BaseException as error:
                if not done.done():
                    done.set_exception(error)
            else:
                if not done.done():
                    done.set_result(result)

        self.call_later(self._dice.random() * 0.01, call)
        return done

    async def getaddrinfo(self, host: Any, port: Any, **how: Any) -> list[Any]:
        await asyncio.sleep(self._dice.random() * 0.01)
        if not host[0].isdigit():
            raise socket.gaierror(socket.EAI_NONAME, "there are no names here")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]

    async def sock_connect(self, sock: Any, address: Any) -> None:
        await self.network.await_connection(address)
        self._addresses[sock.fileno()] = address

    async def create_connection(  # type: ignore[override]
        self,
        factory: Callable[[], Any],
        host: str | None = None,
        port: int | None = None,
        *,
        sock: Any = None,
        **_: Any,
    ) -> tuple[Transport, Any]:
        if sock is None:
            assert host is not None
            assert port is not None
            address = (host, port)
            await self.network.await_connection(address)
        else:
            address = self._addresses.pop(sock.fileno())
            sock.close()
        protocol = factory()
        return await self.network.connect(address, protocol), protocol

    async def create_server(  # type: ignore[override]
        self, factory: Callable[[], Any], host: str = "", port: int = 0, **_: Any
    ) -> Any:
        return self.network.listen((host, port), factory)
