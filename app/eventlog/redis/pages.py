"""Reads streams from Redis, and ends those it finds orphaned."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import structlog

from ...errors import ServiceError
from ...events import Event, StreamEnd, decode, encode
from ...ledger.accounts import NOTHING
from ..contract import PAGE, STRIDE, Ending, before_ending, expired, unknown
from ..listing import ListedStream, ListPosition, unpack_listing
from ..recovery import UNREADABLE, Close, closing_of, end_orphan, orphan_of
from ..stream_ended import StreamEnded
from ..stream_info import StreamInfo, unpack_info
from .accounts import hold_of, pack_settlement
from .failures import away, conflict, parsing, result_of
from .link import Away, CommandRefused, Link, Part
from .orphans import Lease
from .scripts import (
    CHANGED,
    CHANGED_OWNERS,
    DELETE,
    END,
    INFO_ID,
    LIST,
    list_key,
    log_key,
    meta_key,
)
from .scripts import PAGE as PAGE_SCRIPT
from .tails import number_of

PAGE_BYTES = 2**18
"""The limit of one read, and at most 64 events more."""

log = structlog.get_logger("seseragi.eventlog")


class Page(NamedTuple):
    """The meta of a stream in Redis, and some events."""

    started_at: float
    ended_at: float | None
    last: int
    epoch: int
    gone: bool
    kept: int | None
    owner: str
    lease_s: float
    reader_lease_s: float
    entries: Sequence[tuple[bytes, Sequence[bytes]]]

    @property
    def orphaned(self) -> bool:
        """Whether its owner is dead and it has not been ended."""
        return self.ended_at is None and not self.gone and self.lease_s < 0

    def events(self, after: int) -> list[Event]:
        """Return the events after the cursor: those before an `Ending`, or those of it.

        Raises:
            ValueError: they do not follow the cursor.
        """
        if not self.entries:
            if after < self.last:
                raise ValueError("all events are missing")
            return []
        first, before = number_of(self.entries[0][0]), 0
        if self.kept is not None:
            before = before_ending(self.kept)
        if first == before + 1 and after == self.kept:
            return Ending(_decoded(self.entries), after=before)
        if first != after + 1:
            raise ValueError("events are missing")
        own = len(self.entries) if self.kept is None or after >= before else self.kept - after
        entries = self.entries[:own]
        if number_of(entries[-1][0]) != after + len(entries):
            raise ValueError("events are missing")
        return _decoded(entries)

    def has(self, cursor: int) -> bool:
        """Return whether a cursor names an event that exists or may follow."""
        if self.kept is None:
            return cursor <= self.last if self.ended_at is not None else cursor < STRIDE
        return cursor <= self.kept or before_ending(self.kept) < cursor <= self.last


class Found(NamedTuple):
    """The stream of a key, and its page."""

    stream: str
    page: Page | None


def _info(stream: str, found: Sequence[Any], page: Page) -> StreamInfo:
    data = found[0][1][1] if found else None
    return unpack_info(data, stream, started_at=page.started_at)


def _listed(row: Sequence[Any], after: ListPosition) -> ListedStream:
    """Read a row of LIST; without a status, if the stream has ended and cannot be read."""
    stream, at = row[0].decode(), float(row[1])
    listed = ListedStream(
        stream, *unpack_listing(row[5]), float(row[2]), ListPosition(after.ended, at, stream)
    )
    with contextlib.suppress(ValueError, msgspec.MsgspecError):
        for end in _decoded(row[6]):
            if isinstance(end, StreamEnd):
                return listed._replace(ended_at=float(row[3]), status=end.status, last=row[4])
    return listed


def _decoded(entries: Sequence[tuple[bytes, Sequence[bytes]]]) -> list[Event]:
    return [decode(fields[1]) for _, fields in entries]


class Pages:
    """Reads streams from Redis. `wall` returns unix seconds.

    `take` goes on with an orphaned stream, if this process can. `close` prices those that are ended
    here; `on_ended` receives them.
    """

    def __init__(
        self,
        link: Link,
        *,
        lease: Lease,
        wall: Callable[[], float],
        on_ended: Callable[[StreamEnded], None],
        close: Close,
        take: Callable[..., Awaitable[bool]],
    ) -> None:
        self._link = link
        self._lease = lease
        self._wall = wall
        self._on_ended = on_ended
        self._close = close
        self._take = take
        self._ending: dict[str, asyncio.Task[None]] = {}

    async def close(self) -> None:
        for task in self._ending.values():
            task.cancel()
        await asyncio.gather(*self._ending.values(), return_exceptions=True)

    async def ask(self, stream: str, after: int, limit: int) -> Page:
        """Do `look` for a reader with this cursor.

        Raises:
            RequestError: `conflict`, the cursor names an event that was lost.
        """
        page = await self.look(stream, after, limit)
        if not page.has(after):
            if page.kept is None and not self.settled():
                raise away()
            raise conflict(stream, page.last if page.kept is None else page.kept)
        return page

    async def look(self, stream: str, after: int, limit: int, *, owner: str | None = None) -> Page:
        """Read a stream; an orphaned one is ended first. See `EventLog.look`."""
        page = await result_of(self._ask(stream, after, limit, owner=owner), what=meta_key(stream))
        return await self._check(stream, page, after, limit)

    async def find(self, key: str, after: int, limit: int) -> Found | None:
        """Read the stream of a key, which may be orphaned or expired."""
        return await result_of(self._find(key, after, limit), what=key)

    async def look_found(self, found: Found, after: int, limit: int) -> Page:
        """Do `look` for a found stream."""
        return await self._check(found.stream, found.page, after, limit)

    async def _check(self, stream: str, page: Page | None, after: int, limit: int) -> Page:
        if page is not None and page.orphaned and self.settled():
            await asyncio.shield(self.end_soon(stream))
            page = await result_of(self._ask(stream, after, limit))
        if page is None:
            if not self.settled():  # its owner may be about to restore it
                raise away()
            raise unknown(stream)
        until = self._wall() - self._lease.retention_s
        if page.gone or (page.ended_at is not None and page.ended_at <= until):
            raise expired(stream, self._lease.retention_s, owner=page.owner)
        return page

    async def list_streams(
        self, owner: str, after: ListPosition, *, limit: int
    ) -> list[ListedStream]:
        """Do `EventLog.list_streams`; orphaned streams are ended first."""
        least = f"({self._wall() - self._lease.retention_s!r}" if after.ended else "-inf"
        place = (repr(after.at), after.stream) if after.stream else ("+inf", "")
        key, ended = list_key(owner, ended=after.ended), "1" if after.ended else ""
        ask = partial(self._link.run, LIST, [key], owner, ended, *place, least, limit)
        rows: list[Any] = await result_of(ask())
        orphaned = [stream.decode() for stream, *_, is_orphaned in rows if is_orphaned]
        if orphaned and self.settled():
            await asyncio.gather(*(asyncio.shield(self.end_soon(stream)) for stream in orphaned))
            rows = await result_of(ask())
        with parsing(key):
            listed = [_listed(row, after) for row in rows]
        return [one for one in listed if one.status or not after.ended]

    async def changed_owners(self, mark: float) -> tuple[float, Collection[str] | None]:
        """Do `EventLog.changed_owners`."""
        newest, owners = await result_of(self._link.run(CHANGED_OWNERS, [CHANGED], repr(mark)))
        return float(newest), None if owners is None else [owner.decode() for owner in owners]

    async def info(self, stream: str) -> StreamInfo:
        """Return the info that a stream was created with."""
        sent = self._send_info(stream)  # in the same round trip
        page = await self.look(stream, 0, 0)
        return _info(stream, await result_of(sent), page)

    def _send_info(self, stream: str) -> "asyncio.Future[list[Any]]":
        return self._link.send("XRANGE", log_key(stream), INFO_ID, INFO_ID)

    async def _ask(
        self, stream: str, after: int, limit: int, *, owner: str | None = None
    ) -> Page | None:
        keys = [meta_key(stream), log_key(stream)]
        whose = () if owner is None else (owner,)
        _, *fields = await self._link.run(PAGE_SCRIPT, keys, after, limit, PAGE_BYTES, *whose)
        return self._page(stream, fields)

    async def _find(self, key: str, after: int, limit: int) -> Found | None:
        found: list[Any] | None = await self._link.run(PAGE_SCRIPT, [key], after, limit, PAGE_BYTES)
        if found is None:
            return None
        with parsing(key):
            stream: str = found[0].decode()
        return Found(stream, self._page(stream, found[1:]))

    @staticmethod
    def _page(stream: str, fields: Sequence[Any]) -> Page | None:
        if not fields:
            return None
        with parsing(meta_key(stream)):
            started, ended, last, epoch, gone, kept, owner, lease_ms, attended_ms, entries = fields
            return Page(
                started_at=float(started),
                ended_at=float(ended) if ended else None,
                last=last,
                epoch=epoch,
                gone=bool(gone),
                kept=kept if kept >= 0 else None,
                owner=owner.decode(),
                lease_s=lease_ms / 1000,
                reader_lease_s=attended_ms / 1000,
                entries=entries,
            )

    def settled(self) -> bool:
        """Return whether owners have had time to reconnect to a Redis that was away."""
        since_s = asyncio.get_running_loop().time() - self._link.changed_at
        return since_s > self._lease.settle_s

    def events(self, stream: str, page: Page, after: int) -> list[Event]:
        """Return the events of a page; a stream with missing events is reported as expired."""
        try:
            return page.events(after)
        except (ValueError, msgspec.MsgspecError) as error:
            log.error("stream in Redis cannot be read", stream=stream, error=str(error))
            raise expired(stream, self._lease.retention_s, owner=page.owner) from None

    # Orphaned streams

    def end_soon(self, stream: str) -> "asyncio.Task[None]":
        """End a stream whose owner is lost; whoever asks while that is done waits for the same."""
        task = self._ending.get(stream)
        if task is None:
            task = self._ending[stream] = asyncio.create_task(self._end(stream))
            task.add_done_callback(partial(self._ended, stream))
        return task

    def _ended(self, stream: str, task: "asyncio.Task[None]") -> None:
        self._ending.pop(stream, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(
                "lost stream could not be ended; it is tried again",
                stream=stream,
                error=type(error).__name__,
                exc_info=error,
            )

    async def _end(self, stream: str) -> None:
        try:
            if self.settled():
                await self._end_orphan(stream)
        except (Away, ServiceError):
            pass  # already logged
        except CommandRefused as error:
            log.error(
                "lost stream could not be ended; it is tried again", stream=stream, error=str(error)
            )

    async def _end_orphan(self, stream: str) -> None:
        """End a stream, or remove it if events are missing."""
        events: list[Event] = []
        page = await self._ask(stream, 0, PAGE)
        try:
            while page is not None and page.entries:
                events += page.events(len(events))
                page = await self._ask(stream, len(events), PAGE)
        except (ValueError, msgspec.MsgspecError):
            page = None if page is None else page._replace(last=-1)
        if page is not None and page.orphaned and len(events) == page.last:
            await self._end_whole(stream, page, events)
        elif page is None or page.gone or page.orphaned:
            await self.remove_unreadable(stream, UNREADABLE)

    async def _end_whole(self, stream: str, page: Page, events: Sequence[Event]) -> None:
        """Go on with a stream that has these events, or end it."""
        lease, now = self._lease, self._wall()
        info = _info(stream, await self._send_info(stream), page)
        ending, closing = list[Event](), None
        if events and await self._take(info, events, started_at=page.started_at, epoch=page.epoch):
            log.warning("stream of a lost process taken over", stream=stream)
            return
        if events:  # else no provider was called: see `LocalStream.started`
            ending, closing = end_orphan(
                info, events, self._close, started_at=page.started_at, ended_at=now
            )
        spent = pack_settlement(NOTHING if closing is None else closing.settlement, lease.queues)
        times: list[Part] = [repr(now), lease.log_ms, lease.meta_ms, spent]
        seen = (page.epoch, page.last)
        keys = [meta_key(stream), log_key(stream)]
        if await self._link.run(END, keys, lease.owner, *seen, *times, *map(encode, ending)):
            request_id = info.request_id
            log.warning("stream of a lost process ended", request_id=request_id, stream=stream)
            if closing is not None:
                self._on_ended(closing.ended)

    async def remove_unreadable(self, stream: str, end: StreamEnd) -> list[Any] | None:
        """Remove a stream with missing events; its reservation becomes its cost.

        Returns the reply of DELETE.
        """
        info: StreamInfo | None = None
        sent = self._send_info(stream)
        hold = await hold_of(self._link, stream)
        page = await self._ask(stream, 0, 0)
        if hold is not None:
            info = hold.info
        elif page is not None and not page.gone:
            info = _info(stream, await sent, page)
        if info is None:
            return None
        started_at = info.created_at if page is None or page.gone else page.started_at
        orphan = orphan_of(info, (), end, started_at=started_at, ended_at=self._wall())
        closing = closing_of(orphan._replace(reserved=hold and hold.reserved), self._close)
        keys = [meta_key(stream), log_key(stream)]
        spent = pack_settlement(closing.settlement, self._lease.queues)
        found: list[Any] | None = await self._link.run(DELETE, keys, self._lease.meta_ms, spent, -1)
        if found is not None and found[1]:
            log.error(
                "stream in Redis cannot be read and is removed",
                request_id=info.request_id,
                stream=stream,
            )
            self._on_ended(closing.ended)
        return found
