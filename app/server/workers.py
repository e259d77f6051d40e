"""Worker processes that serve one listening socket, and their parent.

The parent only forks and supervises: it has no event loop and no thread. A socket pair links it
to each worker: a worker reports that it serves, the parent sends commands, and each notices the
death of the other.
"""

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

SERVING, STOP, STOP_NOW, RELOAD = b"r", b"s", b"h", b"l"
"""Messages: from a worker, then to it."""

FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 30.0
"""The pause before a worker that died is restarted; it doubles each time."""

STABLE_S = 60.0
"""A worker that served for so long is restarted after the first pause."""

log = structlog.get_logger("seseragi.workers")

Serve = Callable[[socket.socket, int], None]
"""The function of a worker: its end of the socket pair, and its number from 1."""


class _Worker:
    """A worker and its current process."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0
        self.link: socket.socket | None = None
        self.serving = False
        self.started_at = 0.0
        self.due_at = 0.0
        """When to start it, if it is not running."""
        self.pause_s = FIRST_PAUSE_S


class Workers:
    """The supervisor of `count` workers, which runs until a signal.

    It calls `on_serving` once all workers serve, `on_stop` before it stops them, `on_end` with the
    number of each that ended, and `on_hangup` at SIGHUP, which returns whether they reload the
    settings. Workers that have not stopped after `stop_s` seconds are killed. The end of the file
    descriptor `until` stops them as a signal does.
    """

    def __init__(
        self,
        serve: Serve,
        count: int,
        *,
        on_serving: Callable[[], None],
        on_stop: Callable[[], None],
        on_end: Callable[[int], None],
        on_hangup: Callable[[], bool] = lambda: False,
        stop_s: float,
        until: int | None = None,
    ) -> None:
        self._until = until
        self._serve = serve
        self._workers = [_Worker(number) for number in range(1, count + 1)]
        self._on_serving = on_serving
        self._on_stop = on_stop
        self._on_end = on_end
        self._on_hangup = on_hangup
        self._stop_s = stop_s
        self._starting = True
        """Whether a worker has not served yet."""
        self._has_served = False
        """Whether any worker has served: until then its failure would be that of all."""
        self._stop_by: float | None = None
        self._stopping_now = False
        self._wakeup, self._waker = socket.socketpair()

    def run(self) -> int:
        """Return the exit code: 0, or that of a worker that could not start."""
        with _signals_to(self._waker):
            # One alone first: a failure to start would be that of all, and is reported once.
            while not self._workers[0].serving and self._stop_by is None:
                self._start(self._workers[0])
                if code := self._wait(self._workers[:1]):
                    return code
            while self._stop_by is None or any(worker.pid for worker in self._workers):
                for worker in self._workers:
                    self._start(worker)
                if code := self._wait(self._workers):
                    return self._give_up(code)
        return 0

    def _start(self, worker: _Worker) -> None:
        """Start a worker if it is due."""
        if worker.pid or self._stop_by is not None or worker.due_at > time.monotonic():
            return
        ours, theirs = socket.socketpair()
        with _blocked_signals():
            pid = os.fork()
            if pid == 0:
                self._run_child(worker.number, theirs, ours)
        theirs.close()
        worker.pid, worker.link = pid, ours
        worker.serving = False
        worker.started_at = time.monotonic()

    def _run_child(self, number: int, link: socket.socket, other: socket.socket) -> None:
        """Run the worker in the forked process, and exit."""
        signal.set_wakeup_fd(-1)
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signal_number, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the parent handles it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _signals())
        for inherited in (other, self._wakeup, self._waker, *(w.link for w in self._workers)):
            if inherited is not None:
                inherited.close()
        code = 1
        try:
            self._serve(link, number)
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        except BaseException:
            log.exception("worker failed")
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _wait(self, workers: list[_Worker]) -> int:
        """Wait for an event; return the exit code of a worker that ends all."""
        links = {worker.link: worker for worker in workers if worker.link is not None}
        watched: list[socket.socket | int] = [self._wakeup, *links]
        if self._until is not None:
            watched.append(self._until)
        ready, _, _ = select.select(watched, [], [], self._wait_s(workers))
        if self._until is not None and self._until in ready and not os.read(self._until, 4096):
            self._until = None
            self._stop()
        if self._wakeup in ready:
            for number in self._wakeup.recv(64):
                if number != signal.SIGHUP:
                    self._stop()
                elif self._on_hangup():
                    self._send(RELOAD)
        for link in ready:
            if (
                isinstance(link, socket.socket)
                and link in links
                and (code := self._receive(links[link]))
            ):
                return code
        if self._stop_by is not None and time.monotonic() >= self._stop_by:
            self._kill()
        return 0

    def _wait_s(self, workers: list[_Worker]) -> float | None:
        """Return the seconds until the next deadline; None without one."""
        due = [worker.due_at for worker in workers if not worker.pid]
        if self._stop_by is not None:
            due = [self._stop_by]
        return max(0, min(due) - time.monotonic()) if due else None

    def _receive(self, worker: _Worker) -> int:
        assert worker.link is not None  # noqa: S101  (for mypy)
        try:
            message = worker.link.recv(1)
        except ConnectionResetError:  # it died with unread messages
            message = b""
        if message != SERVING:
            return self._reap(worker)
        worker.serving = self._has_served = True
        if self._starting and all(worker.serving for worker in self._workers):
            self._starting = False
            self._on_serving()
        return 0

    def _reap(self, worker: _Worker) -> int:
        """Reap a worker; return its exit code if no worker has served."""
        assert worker.link is not None  # noqa: S101  (for mypy)
        worker.link.close()
        worker.link = None
        pid, worker.pid = worker.pid, 0
        self._on_end(worker.number)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if self._stop_by is not None:
            return 0
        if not self._has_served:
            return code if code > 0 else 1
        now = time.monotonic()
        if now - worker.started_at >= STABLE_S:
            worker.pause_s = FIRST_PAUSE_S
        log.warning(
            "worker has ended and is started again",
            worker=worker.number,
            pid=pid,
            code=code,
            pause_s=worker.pause_s,
        )
        worker.due_at = now + worker.pause_s
        worker.pause_s = min(2 * worker.pause_s, MAX_PAUSE_S)
        return 0

    # Stop

    def _stop(self) -> None:
        """Stop the workers; a second call stops them at once."""
        if self._stop_by is None:
            self._stop_by = time.monotonic() + self._stop_s
            self._on_stop()
            self._send(STOP)
        elif not self._stopping_now:
            self._stopping_now = True
            self._send(STOP_NOW)

    def _send(self, message: bytes) -> None:
        for worker in self._workers:
            if worker.link is not None:
                try:
                    worker.link.send(message)
                except OSError:  # it has just died
                    continue

    def _kill(self) -> None:
        for worker in self._workers:
            if worker.pid:
                log.error("worker did not stop and is killed", worker=worker.number, pid=worker.pid)
                os.kill(worker.pid, signal.SIGKILL)
        self._stop_by = time.monotonic() + self._stop_s

    def _give_up(self, code: int) -> int:
        """End all workers because one of them cannot start."""
        self._stop()
        self._stop()
        while any(worker.pid for worker in self._workers):
            self._wait(self._workers)
        return code


@contextmanager
def _signals_to(waker: socket.socket) -> Iterator[None]:
    """Write SIGTERM, SIGINT and SIGHUP to a socket instead of handling them."""
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    before = {number: signal.signal(number, lambda *_: None) for number in _signals()}
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Block signals during a fork, so that none is handled in both processes."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _signals())


def _signals() -> tuple[signal.Signals, ...]:
    return signal.SIGTERM, signal.SIGINT, signal.SIGHUP  # no SIGHUP on Windows
