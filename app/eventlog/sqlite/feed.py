"""Polls the file for streams of other processes: one poll for all readers here.

A poll reads what was added since the last one, every `LOOK_S` while a reader waits. It costs a
page read if nothing was written.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import structlog

from ...errors import ServiceError
from ...events import decode
from ..supervision import Supervisor
from ..tail import Tail
from .database import Row
from .shared_database import Progress, WatchPosition

LOOK_S = 0.02
"""While somebody waits for a stream of another process."""

LISTEN_S = 0.1
"""While streams are produced here, which another process may stop."""

REST_S = 1.0
"""Otherwise."""

IDLE_S = 5.0
"""How long a tail is kept that nobody waits for."""

log = structlog.get_logger("seseragi.eventlog")


class _Watched:
    """A stream that is read here, and how far."""

    __slots__ = ("at", "key", "process", "tail")

    def __init__(self, tail: Tail, row: Row) -> None:
        self.tail = tail
        self.key = row.key
        self.process = row.process
        self.at = 0

    def take(self, progress: Progress) -> None:
        """Take what a look has found; close the tail where it does not go on from its end.

        Then what is missing has been filed, and readers find it there.
        """
        row, tail = progress.row, self.tail
        if row is None or row.gone or tail.over:
            tail.close()
            return
        if not self.at:
            tail.last = row.last
        self.at = progress.at
        for first, data in progress.rows:
            if first > tail.last + 1:
                break
            tail.add(first, [decode(line) for line in data.split(b"\n")])
        if tail.last < row.last or (row.ended_at is not None and not tail.ended):
            tail.close()


class Feed:
    """All streams of other processes that are read here.

    `read_progress` returns what others have added to them, or None for nothing. It also takes
    what others say of streams that are produced here, so it is called for no stream too;
    `busy` returns whether there are any.
    """

    def __init__(
        self,
        read_progress: Callable[[Sequence[WatchPosition]], Awaitable[Sequence[Progress] | None]],
        *,
        busy: Callable[[], bool],
    ) -> None:
        self._read_progress = read_progress
        self._busy = busy
        self._watched: dict[str, _Watched] = {}
        self._asked: list[asyncio.Future[None]] = []
        self._due = asyncio.Event()
        self._rests = False
        self._tasks = Supervisor()
        self._tasks.keep("event log feed", self._keep_looking)

    async def close(self) -> None:
        await self._tasks.close()
        _answer(self._asked, _failed())
        self.stop_all()

    @property
    def healthy(self) -> bool:
        """Whether there is a task that looks."""
        return self._tasks.healthy

    def find(self, stream: str) -> Tail | None:
        watched = self._watched.get(stream)
        return None if watched is None or watched.tail.over else watched.tail

    def start(self, stream: str, row: Row) -> Tail:
        """Watch a stream; its tail is in place after the next look."""
        tail = Tail(0, now=_now())
        self._watched[stream] = _Watched(tail, row)
        return tail

    def stop(self, stream: str) -> None:
        watched = self._watched.pop(stream, None)
        if watched is not None:
            watched.tail.close()

    def stop_all(self) -> None:
        """Let nobody wait here any longer."""
        for stream in list(self._watched):
            self.stop(stream)

    def wake(self) -> None:
        """Have a look soon: somebody is about to wait."""
        self._due.set()

    def rouse(self) -> None:
        """Listen from now on: something is produced here."""
        if self._rests:
            self._due.set()

    async def catch_up(self) -> None:
        """Wait for a look that begins from now on.

        Raises:
            ServiceError: the file cannot be read.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked.append(done)
        self._due.set()
        await done

    def _pause_s(self) -> float:
        if any(not watched.tail.idle for watched in self._watched.values()):
            return LOOK_S
        return LISTEN_S if self._busy() else REST_S

    async def _keep_looking(self) -> None:
        while True:
            pause_s = self._pause_s()
            self._rests = pause_s == REST_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._due.wait()
            self._due.clear()
            asked, self._asked = self._asked, []
            try:
                await self._look_at_all()
            except ServiceError as error:
                _answer(asked, error)
            except BaseException:
                _answer(asked, _failed())
                raise
            else:
                _answer(asked, None)

    async def _look_at_all(self) -> None:
        watched = list(self._watched.values())
        found = await self._read_progress([WatchPosition(w.key, w.process, w.at) for w in watched])
        for seen, progress in zip(watched, found or (), strict=found is not None):
            try:
                seen.take(progress)
            except msgspec.MsgspecError as error:
                log.error("events in the file cannot be read", error=str(error))
                seen.tail.close()
        self._drop_idle()

    def _drop_idle(self) -> None:
        now = _now()
        for stream, watched in list(self._watched.items()):
            tail = watched.tail
            if not tail.idle:
                tail.used_at = now
            if tail.over or tail.used_at < now - IDLE_S:
                self.stop(stream)


def _answer(asked: Sequence["asyncio.Future[None]"], error: ServiceError | None) -> None:
    for done in asked:
        if done.done():
            continue
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)


def _failed() -> ServiceError:
    return ServiceError("internal", "the event log could not be read")


def _now() -> float:
    return asyncio.get_running_loop().time()
