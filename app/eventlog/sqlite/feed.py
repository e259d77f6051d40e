"""Polls the file for streams of other processes: one poll for all readers here.

A poll reads what was added since the last one, every `LOOK_S` while a reader waits. It costs a
page read if nothing was written.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import structlog

from ...errors import ServiceError
from ...events import decode
from ..supervision import Supervisor, wait_for
from ..tail import Tail, TailRegistry, resolve
from .database import Row, Tailed, WatchPosition

LOOK_S = 0.02
"""The pause between two polls while a reader waits for a stream of another process."""

REST_S = 0.1
"""The pause otherwise, since another process may stop a stream of this one."""

IDLE_S = 5.0
"""How long a tail without readers is kept."""

log = structlog.get_logger("seseragi.eventlog")


class Feed(TailRegistry):
    """The tails of streams of other processes.

    `read_progress` returns what others have added to them, or None for nothing. It also takes
    their notes about streams of this process, so it is called for no stream too.
    """

    def __init__(
        self,
        read_progress: Callable[[Sequence[WatchPosition]], Awaitable[Sequence[Tailed] | None]],
    ) -> None:
        super().__init__()
        self._read_progress = read_progress
        self._positions: dict[Tail, WatchPosition] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._due = asyncio.Event()
        self._tasks = Supervisor()

    def open(self) -> None:
        self._tasks.keep("event log feed", self._keep_polling)

    async def close(self) -> None:
        await self._tasks.close()
        _answer(self._waiting, _failed())
        self.stop_all()

    @property
    def healthy(self) -> bool:
        """Whether the task that polls runs."""
        return self._tasks.healthy

    def start(self, stream: str, row: Row) -> Tail:
        """Add a tail; it is in place after the next poll."""
        tail = self._tails[stream] = Tail(0, now=_now())
        self._positions[tail] = WatchPosition(row.key, row.process, 0)
        return tail

    def stop(self, stream: str) -> None:
        tail = self._tails.get(stream)
        if tail is not None:
            self._positions.pop(tail, None)
        super().stop(stream)

    def wake(self) -> None:
        """Poll soon: a reader is about to wait."""
        self._due.set()

    async def catch_up(self) -> None:
        """Wait for a poll that begins from now on.

        Raises:
            ServiceError: the file cannot be read.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._due.set()
        await done

    async def _keep_polling(self) -> None:
        while True:
            reads = any(not tail.idle for tail in self._tails.values())
            await wait_for(self._due, LOOK_S if reads else REST_S)
            waiting, self._waiting = self._waiting, []
            try:
                await self._poll()
            except ServiceError as error:
                _answer(waiting, error)
            except BaseException:
                _answer(waiting, _failed())
                raise
            else:
                _answer(waiting, None)

    async def _poll(self) -> None:
        tails = list(self._tails.items())
        positions = [self._positions[tail] for _, tail in tails]
        found = await self._read_progress(positions)
        for (stream, tail), progress in zip(tails, found or (), strict=found is not None):
            try:
                complete = self._take(tail, progress)
            except msgspec.MsgspecError as error:
                log.error("events in the file cannot be read", stream=stream, error=str(error))
                complete = False
            if not complete and self._tails.get(stream) is tail:
                self.stop(stream)
        self._stop_idle()

    def _take(self, tail: Tail, progress: Tailed) -> bool:
        """Add what a poll has found; False if events after the tail's end are missing.

        Those have been filed, and readers find them there; or another process produces them.
        """
        row = progress.row
        if row is None or row.gone or tail.over:
            return False
        position = self._positions[tail]
        if row.process != position.process:
            return False
        if not position.at:
            tail.last = row.last
        self._positions[tail] = position._replace(at=progress.at)
        for first, data in progress.rows:
            if first > tail.last + 1:
                break
            tail.add(first, [decode(line) for line in data.split(b"\n")])
        return tail.last >= row.last and (row.ended_at is None or tail.ended)

    def _stop_idle(self) -> None:
        now = _now()
        for stream, tail in list(self._tails.items()):
            if not tail.idle:
                tail.used_at = now
            if tail.used_at < now - IDLE_S:
                self.stop(stream)


def _answer(waiting: Sequence["asyncio.Future[None]"], error: ServiceError | None) -> None:
    for done in waiting:
        resolve(done, None, error)


def _failed() -> ServiceError:
    return ServiceError("internal", "the event log could not be read")


def _now() -> float:
    return asyncio.get_running_loop().time()
