"""Writes the streams that this process produces to the file.

Events are shown to readers after their commit. A `stream.end` that cannot be written is shown as
a restart would make it, and written later.
"""

import contextlib
from collections.abc import Callable, Sequence
from functools import partial

import structlog

from ...errors import ServiceError
from ...events import Event, StreamEnd
from ...ledger.accounts import Settlement
from ..contract import Placed, expired
from ..entries import Entries, Entry, size_of
from ..recovery import Close, OnEnded, end_orphan
from ..takeover import Orphan
from .database import Database, Durable, Gone
from .local_stream import REMOVED, Batch, LocalStream
from .writer import Writer

FULL_RETRY_S = 10
"""When to try again once the disk is full."""

FILED_EVENTS = 1_000
FILED_BYTES = 2**16
"""How much of a running stream is filed at once."""

PUSHED = 64
"""How many batches of a stream may wait for their commit before its producer waits too."""

log = structlog.get_logger("seseragi.eventlog")


class Owner:
    """The streams of this process, in memory and in the file.

    `close` prices orphaned streams; `on_ended` receives them. `wall` returns unix seconds.
    """

    def __init__(
        self,
        database: Database,
        writer: Writer,
        entries: Entries,
        *,
        retention_s: float,
        wall: Callable[[], float],
        on_ended: OnEnded,
        close: Close,
    ) -> None:
        self.streams: dict[str, LocalStream] = {}
        """Those that run."""
        self.unwritten: dict[str, LocalStream] = {}
        """Those whose end could not be written and is written later."""
        self.file_size = database.stored_bytes()
        """Bytes of events in the file, of streams that were not removed."""
        self._database = database
        self._writer = writer
        self._entries = entries
        self._retention_s = retention_s
        self._wall = wall
        self._on_ended = on_ended
        self._close = close

    @property
    def size(self) -> int:
        """The bytes in the file of the streams that run here."""
        return sum(local.size for local in (*self.streams.values(), *self.unwritten.values()))

    def add(self, stream: str, local: LocalStream) -> None:
        """Add a stream that was created."""
        self.streams[stream] = local
        self.file_size += local.size

    async def take(self, orphan: Orphan, *, process: int) -> bool:
        """Go on with a stream of a dead process; return whether it is ours.

        Raises:
            ServiceError: `overloaded`, running streams take all the memory; `internal`.
        """
        stream, last = orphan.info.id, len(orphan.events)
        if self._entries.find(stream) is not None:
            return False  # it is being taken
        info = orphan.info.without_request()
        entry = self._entries.take(info, orphan.events, started_at=orphan.started_at)
        work = partial(self._database.take, stream, process=process, last=last)
        taken = None
        try:
            taken = await self._writer.write(work, partial(self._on_taken, orphan, entry))
        finally:
            if taken is None:
                self._entries.drop(stream)
        return taken is not None

    def _on_taken(self, orphan: Orphan, entry: Entry, taken: tuple[int, int] | None) -> None:
        if taken is not None:
            key, size = taken
            bound = orphan.info.key is not None
            local = LocalStream(key, entry, bound=bound, size=size, strict=True)
            local.last = local.filed = len(orphan.events)
            self.add(orphan.info.id, local)

    def find_unwritten(self, stream: str) -> Entry | None:
        """Return a stream whose end is not written yet.

        Raises:
            StreamExpired: it is older than the retention.
        """
        if stream not in self.unwritten:
            return None
        entry = self.unwritten[stream].entry
        if entry.ended_at is not None and entry.ended_at <= self._wall() - self._retention_s:
            raise self._expired(stream, entry)
        return entry

    def drop(self, gone: Gone) -> None:
        """Drop streams that were removed from the file."""
        self.file_size -= gone.size
        for stream in gone.ids:
            local = self.streams.pop(stream, None) or self.unwritten.pop(stream, None)
            if local is not None:
                self.file_size -= local.size
            if self._entries.find(stream) is not None:
                self._entries.drop(stream)
        for ended in gone.ended_streams:
            self._on_ended(ended)

    def drop_removed(self, stream: str) -> None:
        """Drop a stream that another process has removed."""
        self.drop(Gone([stream], 0))
        self._writer.post(partial(self._database.forget_removed, stream))

    # Appending

    def push(self, stream: str, events: Sequence[Event]) -> bool:
        """Do `EventLog.push`."""
        local = self.streams.get(stream)
        if local is None or not local.last or local.ending or type(events[-1]) is StreamEnd:
            return False
        if local.write_error is not None or len(local.batches) >= PUSHED:
            return False
        try:
            self._take(local, events)
        except (ServiceError, ValueError):
            return False
        return True

    async def append(
        self, local: LocalStream, events: Sequence[Event], settlement: Settlement | None
    ) -> Placed:
        """Do `EventLog.append`."""
        if local.write_error is not None and local.batches:
            await local.batches[-1].wait()  # which fails, too
        if local.write_error is not None:
            error, local.write_error = local.write_error, None
            raise error
        if not events:
            return None
        try:
            batch = self._take(local, events, settlement, urgent=True)
        except ServiceError:
            if local.batches:  # so that a read returns all that was taken
                await local.batches[-1].wait()
            raise
        await batch.wait()
        return None

    def _take(
        self,
        local: LocalStream,
        events: Sequence[Event],
        settlement: Settlement | None = None,
        *,
        urgent: bool = False,
    ) -> Batch:
        memory = self._entries.measure(local.stream, events)
        batch = Batch(local, events, memory=memory, at=self._wall(), settlement=settlement)
        local.last += len(events)
        local.ending = batch.ends
        local.batches.append(batch)
        # The upstream is called once the first event is stored.
        work = Durable if local.bound and batch.first == 1 else partial
        store = work(local.store, self._database, batch)
        self._writer.submit(store, partial(self._stored, batch), urgent=urgent)
        return batch

    # After a commit

    def _stored(self, batch: Batch, size: int | None, error: BaseException | None) -> None:
        local = batch.local
        local.batches.popleft()
        if size == REMOVED and self.streams.get(local.stream) is local:
            self.drop_removed(local.stream)
        if self.streams.get(local.stream) is not local:
            batch.settle(self._expired(local.stream, local.entry))
        elif size is not None:
            local.size += size
            self.file_size += size
            self._entries.add(local.stream, batch.events, size=batch.memory, ended_at=batch.at)
            if batch.ends:
                del self.streams[local.stream]
            else:
                self._file_soon(local)
            batch.settle()
        elif batch.ends and local.write_error is None and not local.strict:
            self.unwritten[local.stream] = local
            self._show_orphaned(batch)
            batch.settle(explain(error))
        else:
            error = local.write_error = local.write_error or explain(error)
            local.last = len(local.entry.events)
            local.ending = False
            if batch.settle(error) and not local.batches:
                local.write_error = None

    def _expired(self, stream: str, entry: Entry) -> Exception:
        return expired(stream, self._retention_s, owner=entry.info.owner)

    def _show_orphaned(self, batch: Batch) -> None:
        """End a stream whose end could not be written as a restart would, by its stored events.

        So an id names the same end, with the same cost, whether it is written later or the process
        is killed.
        """
        local, entry = batch.local, batch.local.entry
        times = {"started_at": entry.started_at, "ended_at": batch.at}
        ending, local.closing = end_orphan(entry.info, entry.events, self._close, **times)
        self._entries.add(local.stream, ending, size=size_of(ending), ended_at=batch.at)
        del self.streams[local.stream]

    def _file_soon(self, local: LocalStream) -> None:
        """File a stream that has enough unfiled events."""
        count = len(local.entry.events) - local.filed
        size = local.size - local.filed_size
        if local.filing or (count < FILED_EVENTS and size < FILED_BYTES):
            return
        local.filing = True
        local.filed_size = local.size
        self._writer.submit(partial(local.file, self._database), partial(self._on_filed, local))

    def _on_filed(self, local: LocalStream, last: int | None, error: BaseException | None) -> None:
        local.filing = False
        if error is None and last is not None:
            local.filed = last

    # Ends that could not be written

    async def retry_unwritten(self) -> None:
        """Try again to write the ends that could not be written."""
        for stream, local in list(self.unwritten.items()):
            with contextlib.suppress(ServiceError):
                tell = partial(self._on_written, stream, local)
                await self._writer.write(partial(local.end_late, self._database), tell)

    def _on_written(self, stream: str, local: LocalStream, ended: bool) -> None:
        self.unwritten.pop(stream, None)
        if ended:
            self._on_ended(local.closing.ended)

    def forget_unwritten(self, local: LocalStream) -> Gone:
        """Remove a stream whose end could not be written, and settle it; in the writer's thread.

        Its end may be written before it is this work's turn.
        """
        runs = self._database.runs(local.stream)
        ended, settlement = local.closing
        self._database.accounts.settle(local.key, local.stream, settlement)
        gone = self._database.forget(local.stream, now=self._wall())
        return gone._replace(ended_streams=[ended] if runs else [])


def explain(error: BaseException | None) -> ServiceError:
    """Log a failed write, and return the error for its stream."""
    log.error("the event log cannot be written", error=repr(error))
    if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
        return ServiceError(
            "overloaded",
            "the event log could not be written: the disk is full; try again when there is room",
            retry_after_s=FULL_RETRY_S,
        )
    return ServiceError("internal", "the event log could not be written")
