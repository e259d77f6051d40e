"""A stream that is produced in this process, and its events on their way into the file."""

import asyncio
from collections import deque
from collections.abc import Sequence

from ...events import Event, StreamEnd
from ...ledger.accounts import NOTHING, Settlement
from ..entries import Entry
from ..recovery import Closing
from ..tail import resolve
from .database import Database

REMOVED = -1
"""The size of a batch whose stream another process has removed."""


class Batch:
    """Events that are not committed yet."""

    __slots__ = ("at", "done", "ends", "events", "first", "local", "memory", "settlement")

    def __init__(
        self,
        local: "LocalStream",
        events: Sequence[Event],
        *,
        memory: int,
        at: float,
        settlement: Settlement | None,
    ) -> None:
        self.local = local
        self.first = local.last + 1
        self.events = events
        self.memory = memory
        self.at = at
        self.settlement = settlement
        self.ends = type(events[-1]) is StreamEnd
        self.done: asyncio.Future[None] | None = None
        """Made by a producer that waits."""

    async def wait(self) -> None:
        """Wait for the commit, and raise its error."""
        if self.done is None or self.done.done():
            self.done = asyncio.get_running_loop().create_future()
        await self.done

    def settle(self, error: BaseException | None = None) -> bool:
        """Wake the producer with the result; False if none waits."""
        if self.done is None or self.done.done():
            return False
        resolve(self.done, None, error)
        return True


class LocalStream:
    """A stream that is produced in this process."""

    __slots__ = (
        "batches",
        "bound",
        "closing",
        "ending",
        "entry",
        "filed",
        "filed_size",
        "filing",
        "key",
        "last",
        "size",
        "stream",
        "strict",
        "write_error",
    )

    def __init__(
        self, key: int, entry: Entry, *, bound: bool, size: int, strict: bool = False
    ) -> None:
        self.key = key
        self.stream = entry.info.id
        self.entry = entry
        self.bound = bound
        """Whether it has an idempotency key."""
        self.strict = strict
        """Whether readers see no end that the file lacks: another process may go on with it."""
        self.batches: deque[Batch] = deque()
        self.last = 0
        """The number of the last event that was taken, committed or not."""
        self.ending = False
        self.write_error: BaseException | None = None
        """Why a batch was not written, until the producer knows: none after it is either."""
        self.filed = 0
        self.size = size
        """Bytes in the file."""
        self.filed_size = size
        """The size when it was last filed."""
        self.filing = False
        self.closing: Closing
        """Of a stream whose end is in memory only."""

    def events(self) -> list[Event]:
        """Return all events that were taken, committed or not."""
        return [*self.entry.events, *(event for batch in self.batches for event in batch.events)]

    # In the writer's thread

    def store(self, database: Database, batch: Batch) -> int | None:
        """Write a batch; return its size, or None if one before it was not written."""
        if self.write_error is not None:
            return None
        size = database.append(self.key, batch.first, batch.events)
        if size is None:
            return REMOVED
        if batch.ends:
            waiting = [event for before in self.batches for event in before.events]
            self._end(
                database,
                [*self.entry.events[self.filed :], *waiting],
                at=batch.at,
                size=self.size + size,
                settlement=batch.settlement or NOTHING,
            )
        return size

    def end_late(self, database: Database) -> bool:
        """Write the end that could not be written; False if the stream has ended or was removed."""
        if not database.runs(self.stream):
            database.accounts.settle(self.key, self.stream, self.closing.settlement)
            return False
        return self._end(
            database,
            self.entry.events[self.filed :],
            at=self.entry.ended_at or 0,
            size=self.size,
            settlement=self.closing.settlement,
        )

    def _end(
        self,
        database: Database,
        unfiled: Sequence[Event],
        *,
        at: float,
        size: int,
        settlement: Settlement,
    ) -> bool:
        database.file(self.key, self.filed + 1, unfiled)
        last = self.filed + len(unfiled)
        ended = database.end(self.key, unfiled[-1], at=at, last=last, size=size)
        database.accounts.settle(self.key, self.stream, settlement)
        return ended

    def file(self, database: Database) -> int | None:
        """File the shown events; return the number of the last one."""
        if self.ending:  # the end files them
            return None
        unfiled = self.entry.events[self.filed :]
        database.file(self.key, self.filed + 1, unfiled)
        return self.filed + len(unfiled)
