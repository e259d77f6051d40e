"""SQLite without threads: its writer works in the loop, and a disk can be full.

What a process has opened is closed with it, as the kernel does.
"""

import asyncio
import contextlib
import random
import sqlite3
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

from app.eventlog.sqlite import database, processes, schema, writer

from .loop import PROCESS


class Disk:
    """The files of all processes."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.full = False
        self._opened: dict[str, list[Callable[[], None]]] = defaultdict(list)

    def release(self, process: str) -> None:
        """Close what a dead process has opened."""
        for close in self._opened.pop(process, ()):
            close()

    @contextlib.contextmanager
    def simulated(self) -> Iterator[None]:
        """Replace the thread of SQLite, and know what is opened."""
        disk = self

        class Thread(_Thread):
            def __init__(self, name: str) -> None:
                super().__init__(disk.dice)

        def connect(*arguments: Any, **how: Any) -> sqlite3.Connection:
            connection = really_connect(*arguments, **how)
            disk._opened[PROCESS.get()].append(connection.close)
            return connection

        def take(*arguments: Any) -> Any:
            presence = really_take(*arguments)
            if presence is not None:
                disk._opened[PROCESS.get()].append(presence._file.close)
            return presence

        def transact(self: database.Database, works: Sequence[Callable[[], Any]]) -> Any:
            return really_transact(self, [*works, fill] if disk.full else works)

        def fill() -> None:
            raise sqlite3.OperationalError("database or disk is full")

        really_connect, really_take = schema.connect, processes.Presence.take
        really_transact = database.Database.transact
        with (
            patch.object(writer, "_Thread", Thread),
            patch.object(database, "connect", connect),
            patch.object(processes.Presence, "take", take),
            patch.object(database.Database, "transact", transact),
        ):
            yield


class _Thread:
    """Does one work after the other, each in a later turn of the loop."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._loop = asyncio.get_running_loop()
        self._jobs: deque[tuple[Callable[[], Any], Callable[..., None]]] = deque()
        self._ended = False

    def do(self, work: Callable[[], Any], then: Callable[..., None]) -> None:
        if self._ended:
            raise RuntimeError("the thread of the database has ended")
        self._jobs.append((work, then))
        if len(self._jobs) == 1:
            self._begin()

    def end(self) -> None:
        self._ended = True

    def is_late(self, limit_s: float) -> bool:
        return False

    def _begin(self) -> None:
        self._loop.call_later(self._dice.choice((0, 0.001, 0.02)), self._work)

    def _work(self) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = self._jobs[0][0]()
        except BaseException as failure:
            error = failure
        self._loop.call_soon(self._tell, result, error)

    def _tell(self, result: Any, error: BaseException | None) -> None:
        _, then = self._jobs.popleft()
        if self._jobs:
            self._begin()
        then(result, error)
