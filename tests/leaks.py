"""What a test leaves open ends with the test, and is reported as its own failure.

Sockets and files that nobody refers to warn when the garbage collector finds them, which may be
in any later test: so it runs at the end of each test that could have opened some. Tasks that
the event loop has to cancel and processes that outlive the test are errors of its teardown.
"""

import asyncio
import asyncio.runners
import contextlib
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

_opened: set[str] = set()
"""The audit events of opening something, in the test that runs."""
_cancelled: list[str] = []
"""The tasks that the loop of the test that runs had to cancel."""
_forbidden: str | None = None
"""The test that may open nothing, if one runs."""

_shared: set[int] = set()
"""The processes of fixtures that outlive a test."""
_started = 0
"""How many processes were started: to look for them takes 0.1 ms, as long as most pure tests."""

_looked = 0
"""How many had been started when `_known` was looked at."""
_known: set[int] = set()

_LEFT = pytest.StashKey[set[int]]()
"""The processes that a test has started in its own call."""

STARTS = frozenset(("subprocess.Popen", "os.posix_spawn", "os.fork"))
OPENS = STARTS | {"socket.__new__"}
IMPURE = STARTS | {"socket.bind", "socket.connect"}
"""Without `socket.__new__`: an event loop wakes itself by a pair of sockets."""

_WATCHED = OPENS | IMPURE

CLOSING = "<async_generator_athrow "
"""A task of the event loop itself."""

WATCHER = "coro=<_shutdown_watcher() "
"""The task that sse-starlette keeps for as long as an event loop runs."""


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    global _started
    if event not in _WATCHED:
        return
    if _forbidden is not None and event in IMPURE:
        raise RuntimeError(f"{_forbidden} is marked pure and does {event}: {arguments!r:.100}")
    _started += event in STARTS
    if event in OPENS:
        _opened.add(event)


sys.addaudithook(_audit)


def _closing(loop: asyncio.AbstractEventLoop) -> list[asyncio.Task[Any]]:
    """Return the tasks by which the loop closes async generators that nobody refers to.

    SDKs leave generators within generators. The garbage collector finds the next when the last
    one is closed, so that the test may end before.
    """
    return [task for task in asyncio.all_tasks(loop) if CLOSING in repr(task)]


def _note_tasks(cancel_all: Callable[..., None]) -> Callable[..., None]:
    """Wrap what an `asyncio.Runner` calls when it closes: note the tasks that it cancels."""

    def cancel(loop: asyncio.AbstractEventLoop) -> None:
        deadline = loop.time() + 1
        while (closing := _closing(loop)) and loop.time() < deadline:
            loop.run_until_complete(asyncio.wait(closing, timeout=1))
        left = (repr(task) for task in asyncio.all_tasks(loop))
        _cancelled.extend(task for task in left if WATCHER not in task)
        cancel_all(loop)

    return cancel


# Private to asyncio; tests/test_leaks.py fails where it is no longer what a runner calls.
setattr(asyncio.runners, "_cancel_all_tasks", _note_tasks(asyncio.runners._cancel_all_tasks))  # type: ignore[attr-defined]  # noqa: B010


def children() -> set[int]:
    """Return the processes that this one has started and that run."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found |= {int(pid) for pid in path.read_text().split()}
    return found


def runs(pid: int) -> bool:
    """Whether a process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(autouse=True)
def _left_open() -> Iterator[None]:
    """Find at the end of a test, when its other fixtures are closed, what it has left open."""
    _opened.clear()
    _cancelled.clear()
    yield
    if not _opened:
        return
    if _forbidden is None:  # a pure test has opened nothing but the pair of sockets of its loop
        gc.collect()  # pytest reports the warnings that come of it with this test
        gc.freeze()  # modules that tests import later would be looked through by each that follows
    if _cancelled:
        pytest.fail("tasks left behind:\n" + "\n".join(_cancelled), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Forbid a pure test to open anything."""
    global _forbidden
    _forbidden = item.name if item.get_closest_marker("pure") else None
    try:
        return (yield)
    finally:
        _forbidden = None


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object],
) -> Generator[None, object, object]:
    """Note the processes of fixtures that outlive a test, which may ask for them as it runs."""
    if fixturedef.scope == "function":
        return (yield)
    before, count = children(), _started
    try:
        return (yield)
    finally:
        if count != _started:
            _shared.update(children() - before)


def _look() -> set[int]:
    """Return the processes that were started since the last look."""
    global _looked, _known
    if _looked == _started:
        return set()
    _looked, before, _known = _started, _known, children()
    return _known - before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Note the processes that a test starts, other than its fixtures."""
    _look()
    try:
        yield
    finally:
        item.stash[_LEFT] = _look() - _shared


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """End the processes that a test has started and left behind."""
    yield
    started = item.stash.get(_LEFT, set())
    left = sorted(pid for pid in started and started & children() if runs(pid))
    for pid in left:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    if left:
        pytest.fail(f"processes left behind: {left}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let go of what the frames of a failure refer to, once its report is written."""
    report = yield
    if call.excinfo is not None and not item.config.option.usepdb:
        traceback.clear_frames(call.excinfo.tb)
        for name in ("last_exc", "last_type", "last_value", "last_traceback"):
            if hasattr(sys, name):
                delattr(sys, name)
    return report
