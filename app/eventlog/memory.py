"""The log in this process's memory: the default, gone with the process."""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import Final, cast

from ..errors import ServiceError
from ..events import Event, StreamEnd
from ..ledger.accounts import NOTHING, Settlement
from .accounts import MemoryAccounts
from .contract import (
    PAGE,
    ChatBusy,
    Claim,
    EventLog,
    Follower,
    LogSize,
    Look,
    Placed,
    expired,
    may_see,
    unknown,
)
from .entries import Entries, Entry
from .listing import ListedStream, ListPosition, OwnerIndex, listing_of
from .peers import OnStop, ignore_stop
from .recovery import REMOVED, Close, OnEnded, close_free, closing_of, ignore_ended
from .stream_info import HIDDEN, Scoped, StreamInfo

UNLISTED: Final = ("", HIDDEN)
"""Owners whose streams are in no list."""

REMEMBERED_IDS = 10_000
"""How many removed streams are reported as expired, not unknown (about 150 bytes each)."""


class MemoryLog(EventLog):
    """An `EventLog` in memory.

    Ended streams are stored for `retention_s` seconds. When all streams together exceed
    `max_bytes`, the oldest ended ones are removed; if that does not suffice, `create` refuses.
    `max_stream_bytes` and `max_stream_events` limit one stream. Bytes are estimates of memory.
    `now` is a monotonic clock in seconds, `wall` returns unix seconds.
    """

    def __init__(
        self,
        *,
        retention_s: float,
        max_bytes: int,
        max_stream_bytes: int = 64 * 2**20,
        max_stream_events: int = 1_000_000,
        accounts: MemoryAccounts | None = None,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._retention_s = retention_s
        self._wall = wall
        self._entries = Entries(
            keep_s=retention_s,
            max_bytes=max_bytes,
            max_stream_bytes=max_stream_bytes,
            max_stream_events=max_stream_events,
            now=now,
            wall=wall,
            on_drop=self._forget,
        )
        self._on_ended: OnEnded = ignore_ended
        self._close: Close = close_free
        self._accounts = accounts or MemoryAccounts()
        self._gone: OrderedDict[str, str] = OrderedDict()
        """The owners of removed streams."""
        self._keys: dict[Scoped, Claim] = {}
        self._named: dict[Scoped, str] = {}
        """The stream of each name."""
        self._owned = OwnerIndex(wall)

    async def open(
        self,
        *,
        on_ended: OnEnded = ignore_ended,
        close: Close = close_free,
        on_stop: OnStop = ignore_stop,
    ) -> None:
        self._on_ended = on_ended
        self._close = close

    async def close(self) -> None:
        self._entries.close()

    def healthy(self) -> bool:
        return True

    def size(self) -> LogSize:
        return self._entries.measure_all()

    async def create(self, info: StreamInfo, *, over: str | None = None) -> Claim:
        # The key of a hidden stream is for logs that a process can lose.
        stream, key = info.id, None if info.owner == HIDDEN else info.scoped_key
        bound = None if key is None else await self.claimed(key)
        if bound is not None and bound.stream != over:
            return bound
        if info.alone:
            for name in info.scoped_names:
                for other in await self.named(name):
                    raise ChatBusy(other)
        self._entries.create(info)
        try:
            grant = self._accounts.reserve(info)
        except BaseException:
            self._entries.drop(stream)
            del self._gone[stream]  # there never was such a stream
            raise
        if key is not None:
            self._keys[key] = Claim(stream, info.digest)
        if info.names:
            self._named |= dict.fromkeys(info.scoped_names, stream)
        if info.owner not in UNLISTED:
            self._owned.add(info)
        return Claim(stream, info.digest, grant)

    async def claimed(self, key: Scoped) -> Claim | None:
        bound = self._keys.get(key)
        return bound if bound is not None and self._entries.find(bound.stream) else None

    async def info(self, stream: str) -> StreamInfo:
        return self._find(stream).info

    async def find(self, name: Scoped, after: int = 0, *, limit: int = 0) -> Look | None:
        stream = self._named.get(name)
        entry = None if stream is None else self._entries.find(stream)
        return None if stream is None or entry is None else Look(stream, entry.state())

    async def named(self, name: Scoped) -> Sequence[str]:
        infos = (self._find(stream).info for stream in self._entries.running())
        return [info.id for info in infos if info.names and name in info.scoped_names]

    async def forget_names(self, stream: str) -> None:
        self._forget_names(self._find(stream).info)

    def _forget_names(self, info: StreamInfo) -> None:
        for name in info.scoped_names if info.names else ():
            if self._named.get(name) == info.id:
                del self._named[name]

    async def list_streams(
        self, owner: str, after: ListPosition, *, limit: int
    ) -> Sequence[ListedStream]:
        self._entries.drop_expired()
        positions = self._owned.page(owner, after, limit=limit)
        return [self._listed(position) for position in positions]

    async def changed_owners(self, mark: float) -> tuple[float, Collection[str] | None]:
        return mark, ()

    def _listed(self, position: ListPosition) -> ListedStream:
        entry = self._find(position.stream)
        model, metadata = listing_of(entry.info)
        listed = ListedStream(position.stream, model, metadata, entry.started_at, position)
        if not position.ended:
            return listed
        end = cast(StreamEnd, entry.events[-1])
        last = len(entry.events)
        return listed._replace(ended_at=entry.ended_at, status=end.status, last=last)

    def push(self, stream: str, events: Sequence[Event]) -> bool:
        if type(events[-1]) is StreamEnd:
            return False
        try:
            self._entries.add(stream, events, size=self._entries.measure(stream, events))
        except (ServiceError, ValueError):
            return False
        return True

    async def append(
        self, stream: str, events: Sequence[Event], settlement: Settlement | None = None
    ) -> Placed:
        try:
            size = self._entries.measure(stream, events)
        except ValueError:
            self._find(stream)  # raises if it is unknown or expired
            raise
        ends = bool(events) and type(events[-1]) is StreamEnd
        if ends and (entry := self._entries.find_running(stream)) is not None:
            # Before a follower receives the end.
            self._accounts.settle(entry.info, settlement or NOTHING)
            if entry.info.owner not in UNLISTED:
                self._owned.add(entry.info, ended=True)
        self._entries.add(stream, events, size=size)
        return None

    def running(self) -> Collection[str]:
        return self._entries.running()

    def produced(self, stream: str) -> Sequence[Event]:
        entry = self._entries.find_running(stream)
        return () if entry is None else entry.events

    async def read(
        self, stream: str, after: int, *, timeout_s: float, limit: int = PAGE
    ) -> Sequence[Event]:
        return await self._find(stream).read(after, timeout_s=timeout_s, limit=limit)

    def follow(self, stream: str, after: int, follower: Follower) -> bool:
        return self._entries.follow(stream, after, follower)

    def unfollow(self, stream: str, follower: Follower) -> None:
        self._entries.unfollow(stream, follower)

    async def look(self, stream: str, after: int, *, limit: int, owner: str | None = None) -> Look:
        entry = self._entries.find(stream)
        if not may_see(owner, self._gone.get(stream) if entry is None else entry.info.owner):
            raise unknown(stream)
        return Look(stream, self._find(stream).state())

    async def delete(self, stream: str) -> None:
        entry = self._find(stream)
        ended = None
        if entry.ended_at is None and entry.events:
            orphan = entry.orphaned(end=REMOVED, ended_at=self._wall())
            ended, settlement = closing_of(orphan, self._close)
            self._accounts.settle(entry.info, settlement)
        self._entries.drop(stream)
        if ended is not None:
            self._on_ended(ended)

    def _find(self, stream: str) -> Entry:
        entry = self._entries.find(stream)
        if entry is not None:
            return entry
        if stream in self._gone:
            raise expired(stream, self._retention_s, owner=self._gone[stream])
        raise unknown(stream)

    def _forget(self, entry: Entry) -> None:
        stream = entry.info.id
        info = entry.info
        if info.owner not in UNLISTED:
            self._owned.remove(info)
        self._accounts.settle(info, NOTHING)  # one that never began
        key = None if info.owner == HIDDEN else info.scoped_key
        if key in self._keys and self._keys[key].stream == stream:
            del self._keys[key]
        self._forget_names(info)
        self._gone[stream] = info.owner
        while len(self._gone) > REMEMBERED_IDS:
            self._gone.popitem(last=False)
