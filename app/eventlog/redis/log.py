"""The log in Redis, for many processes: each writes its own streams and reads all.

A process has the streams that it produces in memory, too: reading those costs what it costs
there, and they continue while Redis is away. Streams of others are read from Redis.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
from redis.exceptions import RedisError

from ...errors import RelayError, RequestError, ServiceError
from ...events import Event, Stopper
from ...ledger.accounts import NOTHING, AccountState, Settlement
from ..contract import (
    PAGE,
    STRIDE,
    Claim,
    EventLog,
    Follower,
    LogSize,
    LogState,
    LogUnusable,
    Look,
    Placed,
    expired,
    may_see,
    read_all,
)
from ..entries import Entries, Entry
from ..listing import ListedStream, ListPosition
from ..peers import (
    MAX_MESSAGES,
    MAX_READ_BYTES,
    Channel,
    OnStop,
    channel_full,
    check_message,
    ignore_stop,
)
from ..recovery import (
    REMOVED,
    Close,
    OnEnded,
    OrphanedStream,
    close_free,
    closing_of,
    ignore_ended,
    orphan_of,
)
from ..stream_ended import StreamEnded
from ..stream_info import Scoped, StreamInfo
from ..takeover import Heir, Orphan
from ..waiting_rows import RECORDS
from .account_scripts import account_key
from .accounts import Rows, hold_of, pack_settlement, state_from
from .address import RedisAddress
from .failures import away, check_server, conflict, parsing, result_of, why
from .link import OPEN_S, Away, CommandRefused, Link
from .orphans import Lease, OrphanCollector
from .owner import Owner
from .pages import Page, Pages
from .scripts import (
    ASK_STOP,
    DELETE,
    FORGET_NAME,
    MESSAGES,
    PUBLISH,
    TELL,
    channel_keys,
    idempotency_key,
    inbox_key,
    log_key,
    meta_key,
    name_key,
)
from .tails import BLOCK_S, INBOX_MESSAGES, INBOX_MS, Tails

KEEP_S = 10
"""How long an ended stream stays in memory, for readers near its end."""

PAUSE_S = 0.2
"""The pause before a reader looks again for a stream that its owner may restore."""

TAKEOVERS = 5
"""How often a create tries to take over a key whose stream is gone."""

CLOSE_S = 1.0
"""The time limit of the last writes."""


class RedisLog(EventLog):
    """An `EventLog` in Redis, with everything beside it.

    Ended streams are stored for `retention_s` seconds. `max_bytes` limits the memory of this
    process's streams, `max_stream_bytes` and `max_stream_events` one stream; `maxmemory` limits
    Redis. If a process does not renew its lease, others end its streams; readers of others'
    streams wait so long for a Redis that is away. `wall` returns unix seconds. Accounts go by the
    clock of Redis, without `redis_time` by that of the request.
    """

    def __init__(
        self,
        address: RedisAddress,
        *,
        retention_s: float,
        max_bytes: int,
        max_stream_bytes: int = 64 * 2**20,
        max_stream_events: int = 1_000_000,
        wall: Callable[[], float] = time.time,
        redis_time: bool = True,
        queues: Sequence[str] = (RECORDS,),
    ) -> None:
        self._address = address
        self._retention_s = retention_s
        self._wall = wall
        self._redis_time = redis_time
        self._lease = Lease(
            secrets.token_hex(8), s=address.lease_s, retention_s=retention_s, queues=queues
        )
        self._entries = Entries(
            keep_s=min(KEEP_S, retention_s),
            max_bytes=max_bytes,
            max_stream_bytes=max_stream_bytes,
            max_stream_events=max_stream_events,
            now=wall,
            wall=wall,
            on_drop=lambda entry: self._owner.forget(entry.info.id),
        )
        self._cutting: asyncio.TimerHandle | None = None
        self._stopping = False
        self._heir: Heir | None = None
        self._on_ended: OnEnded
        self._close: Close
        self._on_stop: OnStop
        self._link: Link
        self._tail_link: Link
        self._owner: Owner
        self._pages: Pages
        self._orphans: OrphanCollector
        self._rows: Rows
        self._tails: Tails
        self._back: asyncio.Event

    def give_to(self, heir: Heir) -> None:
        self._heir = heir

    async def hand_over(self, stream: str) -> None:
        local = self._owner.streams.get(stream)
        if local is not None and local.ended_at is None:  # else its end is on its way
            await self._owner.hand_over(local)

    async def open(
        self,
        *,
        on_ended: OnEnded = ignore_ended,
        close: Close = close_free,
        on_stop: OnStop = ignore_stop,
    ) -> None:
        self._on_ended = on_ended
        self._close = close
        self._on_stop = on_stop
        self._back = asyncio.Event()
        self._back.set()
        self._link = Link(self._address.connect, on_up=self._on_up, on_away=self._on_away)
        self._tail_link = Link(self._address.connect, slow_s=BLOCK_S, quiet=True)
        self._owner = Owner(
            self._link,
            self._entries,
            lease=self._lease,
            wall=self._wall,
            redis_time=self._redis_time,
            on_stop=on_stop,
        )
        self._pages = Pages(
            self._link,
            lease=self._lease,
            wall=self._wall,
            on_ended=on_ended,
            close=close,
            take=self._take,
        )
        self._rows = Rows(self._link, lease=self._lease)
        self._orphans = OrphanCollector(
            self._link, lease=self._lease, settled=self._pages.settled, end=self._pages.end_soon
        )
        self._tails = Tails(
            self._tail_link,
            self._link,
            lease=self._lease,
            on_message=self._on_message,
            on_orphan=self._pages.end_soon,
        )
        try:
            await self._link.open()
            async with asyncio.timeout(OPEN_S):
                await self._examine()
            await self._tail_link.open()
        except (RedisError, OSError, TimeoutError, Away, CommandRefused) as error:
            await self._close_links()
            raise LogUnusable(f"log: {why(error)}") from None
        except LogUnusable:
            await self._close_links()
            raise
        self._owner.open()
        self._tails.open()
        self._orphans.open()

    async def _examine(self) -> None:
        """Check that this Redis can be used; again if it was away meanwhile."""
        while True:
            try:
                await check_server(self._link)
            except Away:
                await self._back.wait()
            else:
                return

    async def close(self) -> None:
        await self._owner.close(within_s=CLOSE_S)
        await self._tails.close()
        await self._orphans.close()
        await self._pages.close()
        await self._close_links()
        self._entries.close()

    async def _close_links(self) -> None:
        if self._cutting is not None:
            self._cutting.cancel()
        await self._link.close()
        await self._tail_link.close()
        await self._address.close()

    def healthy(self) -> bool:
        parts = (self._link, self._owner, self._tails, self._orphans)
        return all(part.healthy for part in parts)

    def size(self) -> LogSize:
        return self._entries.measure_all()

    def _on_up(self) -> None:
        self._back.set()
        if self._cutting is not None:
            self._cutting.cancel()
            self._cutting = None
        self._owner.rewrite()

    def _on_away(self) -> None:
        self._back.clear()
        self._owner.show_all()
        loop = asyncio.get_running_loop()
        self._cutting = loop.call_later(self._lease.s, self._cut)

    def _cut(self) -> None:
        """Stop waiting for a Redis that has been away for as long as a lease."""
        self._tails.stop_all()
        self._owner.give_up("Redis is away")

    # Streams

    async def create(self, info: StreamInfo, *, over: str | None = None) -> Claim:
        claim, key = Claim(info.id, info.digest), info.scoped_key
        if info.alone and self._may_lack_keys():
            raise _unsettled("the chat's streams")
        if key is None:
            await self._create(info)
            return self._granted(claim, sure=not info.alone)
        if self._may_lack_keys():
            bound = await self.claimed(key)
            if bound is None or bound.stream == over:
                raise _unsettled("this Idempotency-Key")
            return bound
        value, replaced, old = " ".join(claim[:2]), "", ""
        for _ in range(TAKEOVERS):
            bond = {"key": key, "value": value, "over": replaced, "old": old}
            found = await self._create(info, **bond)
            if found == value:
                break
            bound = _claim(found)
            if bound.stream != over and await self._is_kept(bound.stream):
                return bound
            replaced, old = found, bound.stream
        else:
            raise away("other requests with this Idempotency-Key are in the way; try again")
        return self._granted(claim, sure=False)

    def _granted(self, claim: Claim, *, sure: bool) -> Claim:
        """Return the claim of a new stream with its reservation.

        Unless that is `sure`, the command may have been sent again, to a Redis without the keys.
        """
        if not sure and self._may_lack_keys():
            self._owner.abandon(self._owner.streams[claim.stream])
            raise _unsettled("this Idempotency-Key, or the chat's streams,")
        local = self._owner.streams.get(claim.stream)
        return claim if local is None else claim._replace(grant=local.grant)

    async def _create(self, info: StreamInfo, **claim: str) -> str:
        return await result_of(self._owner.create(info, **claim))

    def _may_lack_keys(self) -> bool:
        """Return whether owners may be about to restore keys that Redis has lost."""
        since_s = asyncio.get_running_loop().time() - self._link.replaced_at
        return since_s <= self._lease.settle_s

    async def claimed(self, key: Scoped) -> Claim | None:
        found: bytes | None = await result_of(self._link.send("GET", idempotency_key(key)))
        with parsing(idempotency_key(key)):
            claim = None if found is None else _claim(found.decode())
        return claim if claim is not None and await self._is_kept(claim.stream) else None

    async def info(self, stream: str) -> StreamInfo:
        entry = self._find(stream)
        return await self._pages.info(stream) if entry is None else entry.info

    async def find(self, name: Scoped, after: int = 0, *, limit: int = 0) -> Look | None:
        found = await self._pages.find(name_key(name), after, limit)
        if found is None:
            return None
        with contextlib.suppress(RequestError):
            if (state := self._state_here(found.stream)) is not None:
                return Look(found.stream, state)
            page = await self._pages.look_found(found, after, limit)
            return self._look_at(found.stream, page, after)
        return None

    async def named(self, name: Scoped) -> Sequence[str]:
        found: bytes | None = await result_of(self._link.send("GET", name_key(name)))
        return [stream for stream in (found or b"").decode().split(",") if stream]

    async def forget_names(self, stream: str) -> None:
        local = self._owner.streams.get(stream)
        for name in map(name_key, (await self.info(stream)).scoped_names):
            if local is not None:
                local.keys.pop(name, None)  # it is not restored
            forget = self._link.run(FORGET_NAME, [name], stream, self._lease.running_ms)
            await result_of(forget)

    async def list_streams(
        self, owner: str, after: ListPosition, *, limit: int
    ) -> Sequence[ListedStream]:
        return await self._pages.list_streams(owner, after, limit=limit) if owner else ()

    async def changed_owners(self, mark: float) -> tuple[float, Collection[str] | None]:
        return await self._pages.changed_owners(mark)

    def push(self, stream: str, events: Sequence[Event]) -> bool:
        local = self._owner.streams.get(stream)
        return local is not None and self._owner.push(local, events)

    async def append(
        self, stream: str, events: Sequence[Event], settlement: Settlement | None = None
    ) -> Placed:
        local = self._owner.streams.get(stream)
        if local is not None and local.ended_at is None:
            return await self._owner.append(local, events, settlement) if events else None
        if (lost := self._owner.taken_over.get(stream)) is not None:
            raise lost
        await self.state(stream)
        raise ValueError(f"stream {stream} has ended; nothing can be added to it")

    async def read(
        self, stream: str, after: int, *, timeout_s: float, limit: int = PAGE
    ) -> Sequence[Event]:
        entry = self._find(stream)
        if entry is not None:
            if after >= STRIDE:  # of an `Ending` that Redis has lost
                raise conflict(stream, len(entry.events))
            return await entry.read(after, timeout_s=timeout_s, limit=limit)
        self._check_waits(timeout_s)
        tail = self._tails.find(stream)
        if tail is None or not tail.covers(after):
            try:
                page = await self._pages.ask(stream, after, limit)
            except ServiceError:
                if timeout_s > 0 and await self._wait_for_redis(timeout_s):
                    return ()
                raise
            if after < page.last or page.ended_at is not None or timeout_s <= 0:
                return self._pages.events(stream, page, after)
            self._check_waits(timeout_s)  # it may have begun to shut down meanwhile
            tail = self._tails.find(stream) or self._tails.start(stream, page.last)
        return await tail.read(after, timeout_s=timeout_s, limit=limit)

    def _check_waits(self, timeout_s: float) -> None:
        if self._stopping and timeout_s > 0:
            raise away("the relay is shutting down; try again")

    def follow(self, stream: str, after: int, follower: Follower) -> bool:
        here, elsewhere = self._entries, self._tails
        return here.follow(stream, after, follower) or elsewhere.follow(stream, after, follower)

    def unfollow(self, stream: str, follower: Follower) -> None:
        self._entries.unfollow(stream, follower)
        self._tails.unfollow(stream, follower)

    async def look(self, stream: str, after: int, *, limit: int, owner: str | None = None) -> Look:
        whose = self._whose_here(stream)
        state = self._state_here(stream) if may_see(owner, whose) else None
        if state is not None:
            return Look(stream, state)
        page = await self._pages.look(stream, after, limit, owner=owner)
        return self._look_at(stream, page, after)

    def _whose_here(self, stream: str) -> str | None:
        """Return the owner of a stream that is in memory."""
        local = self._owner.streams.get(stream)
        entry = self._entries.find(stream) if local is None else local.entry
        return None if entry is None else entry.info.owner

    def _state_here(self, stream: str) -> LogState | None:
        """Return the state of a stream in memory."""
        local = self._owner.streams.get(stream)
        if local is not None and local.batches:  # readers elsewhere may have seen these
            ended_at = local.ended_at
            state = local.entry.state()
            return msgspec.structs.replace(
                state, last=local.taken, ended=ended_at is not None, ended_at=ended_at
            )
        entry = self._find(stream)
        return None if entry is None else entry.state()

    def _look_at(self, stream: str, page: Page, after: int) -> Look:
        events = self._pages.events(stream, page, after) if page.entries and page.has(after) else ()
        state = LogState(
            last=page.last,
            ended=page.ended_at is not None,
            started_at=page.started_at,
            ended_at=page.ended_at,
            kept=page.kept,
            settled=self._pages.settled(),
            owner=page.owner,
        )
        return Look(stream, state, events)

    async def delete(self, stream: str) -> None:
        local = self._owner.streams.get(stream)
        if local is not None and not local.taken:  # even if Redis is away
            return self._owner.abandon(local)
        while (found := await self._delete(stream)) == 0:
            pass  # it has begun meanwhile, which happens once
        what = "ended" if found and not found[1] else "gone"
        self._drop(stream, has_end=what == "ended")
        if found:
            self._tell(found[0].decode(errors="replace"), what, stream)

    async def _delete(self, stream: str) -> Any:
        """Remove a stream and settle it; return the reply of DELETE."""
        state, local = await self.state(stream), self._owner.streams.get(stream)
        settlement, seen = NOTHING, -1
        ended: StreamEnded | None = None
        if local is not None and local.ended_at is not None:  # Redis may not have the end yet
            settlement = local.settlement
        elif not state.ended and state.last == 0:
            seen = 0
        elif not state.ended:
            orphan = await self._removed(stream, state)
            if orphan is None:
                return await result_of(self._pages.remove_unreadable(stream, REMOVED))
            ended, settlement = closing_of(orphan, self._close)
        keys = [meta_key(stream), log_key(stream)]
        spent = pack_settlement(settlement, self._lease.queues)
        found: Any = await result_of(self._link.run(DELETE, keys, self._lease.meta_ms, spent, seen))
        if found and found[1]:
            if ended is not None:
                self._on_ended(ended)
            elif local is not None:  # this counts as its end
                local.settle()
        return found

    async def _removed(self, stream: str, state: LogState) -> OrphanedStream | None:
        """Return a removed stream as orphaned; None if it cannot be read."""
        try:
            info = await self.info(stream)
            events = self.produced(stream) or await read_all(self, stream, ending=False)
        except RelayError:
            return None
        if not events:
            return None
        times = {"started_at": state.started_at, "ended_at": self._wall()}
        return orphan_of(info, events, REMOVED, **times)

    def _drop(self, stream: str, *, has_end: bool) -> None:
        """Drop a removed stream from memory; `has_end`: it had ended."""
        self._owner.drop(stream, has_end=has_end)
        self._tails.stop(stream)

    def _tell(self, owner: str, what: str, stream: str) -> None:
        """Send a process a message about a stream."""
        self._link.run(TELL, [inbox_key(owner)], INBOX_MESSAGES, INBOX_MS, what, stream)

    def _on_message(self, what: str, stream: str) -> None:
        if what in ("gone", "ended"):
            self._drop(stream, has_end=what == "ended")
        self._on_stop(stream, "operator" if what == "operator" else "user")

    def running(self) -> Collection[str]:
        streams = self._owner.streams.items()
        return [name for name, local in streams if local.ended_at is None]

    # Accounts and rows

    def produced(self, stream: str) -> Sequence[Event]:
        local = self._owner.streams.get(stream)
        return () if local is None or local.ended_at is not None else local.events()

    async def read_accounts(self, names: Sequence[str]) -> list[AccountState]:
        keys = [account_key(name) for name in names]
        sent = [self._link.send("GET", key) for key in keys]
        states = []
        for key, reply in zip(keys, sent, strict=True):
            packed = await result_of(reply, what=key)
            with parsing(key):
                states.append(state_from(packed))
        return states

    async def rows(self, *, limit: int) -> list[tuple[str, bytes]]:
        return await self._rows.some(limit=limit)

    async def take_rows(self, queue: str, *, limit: int, for_s: float) -> list[tuple[str, bytes]]:
        return await self._rows.take(queue, limit=limit, for_s=for_s)

    async def put_back_row(self, queue: str, stream: str, row: bytes, *, after_s: float) -> None:
        await self._rows.put_back(queue, stream, row, after_s=after_s)

    async def forget_rows(self, streams: Sequence[str], *, queue: str = RECORDS) -> None:
        await self._rows.forget(streams, queue)

    async def count_rows(self, queue: str = RECORDS) -> int:
        return await self._rows.count(queue)

    # Others

    async def ask_stop(self, stream: str, by: Stopper = "user") -> None:
        owner: bytes | None = await result_of(self._link.run(ASK_STOP, [meta_key(stream)], by))
        if owner is not None:
            self._tell(owner.decode(errors="replace"), by, stream)

    def readers_here(self, stream: str) -> None:
        if stream not in self._owner.streams:
            self._tails.readers_here(stream)

    def readers_gone(self, stream: str) -> None:
        self._tails.readers_gone(stream)

    async def reader_lease_s(self, stream: str) -> float:
        return (await self._pages.ask(stream, 0, 0)).reader_lease_s

    def release_remote_readers(self) -> None:
        self._stopping = True
        self._tails.stop_all()

    async def publish(self, channel: Channel, name: str, message: bytes, *, for_s: float) -> None:
        check_message(message)
        for_ms = max(0, round(1000 * for_s))
        published = self._link.run(
            PUBLISH, channel_keys(channel), name, message, for_ms, MAX_MESSAGES
        )
        if not await result_of(published):
            raise channel_full()

    async def messages(self, channel: Channel) -> dict[str, bytes]:
        kept, until = channel_keys(channel)
        names: list[bytes] = await result_of(self._link.run(MESSAGES, [until]))
        found: dict[str, bytes] = {}
        size = 0
        for name in names:  # one by one: streams are written over the same connection
            (message,) = await result_of(self._link.send("HMGET", kept, name))
            size += len(message or b"")
            if size > MAX_READ_BYTES:
                break
            if message is not None:
                found[name.decode()] = message
        return found

    # In memory

    def _find(self, stream: str) -> Entry | None:
        entry = self._entries.find(stream)
        local = self._owner.streams.get(stream)
        if entry is not None or local is None:
            return entry
        # Redis is away and lacks its end, so it stays in memory for longer.
        if local.ended_at is not None and local.ended_at <= self._wall() - self._retention_s:
            self._owner.drop(stream)
            raise expired(stream, self._retention_s, owner=local.entry.info.owner)
        return local.entry

    # In Redis

    async def _take(
        self, info: StreamInfo, events: Sequence[Event], *, started_at: float, epoch: int
    ) -> bool:
        """Go on with an orphaned stream of this epoch, if the heir does; return whether it does."""
        if self._heir is None or not info.takeover:
            return False
        hold = await hold_of(self._link, info.id)
        granted = None
        if hold is not None and info.reserve is not None:
            granted = info.reserve.granted(hold.reserved)
        orphan = Orphan(info, events, started_at, granted)
        begin = self._heir(orphan)
        if begin is None or not await self._owner.take(orphan, epoch=epoch):
            return False
        begin()
        return True

    async def _wait_for_redis(self, timeout_s: float) -> bool:
        """Wait for Redis, or for owners to restore streams; False if there is no point."""
        if not self._link.away:
            await asyncio.sleep(min(timeout_s, PAUSE_S))
            return not self._pages.settled()
        left_s = self._link.changed_at + self._lease.s - asyncio.get_running_loop().time()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0, min(timeout_s, left_s))):
                await self._back.wait()
        return left_s > 0

    async def _is_kept(self, stream: str) -> bool:
        try:
            await self.state(stream)
        except RequestError:
            return False
        return True


def _unsettled(what: str) -> ServiceError:
    return away(
        f"Redis was restarted and may lack {what} until a relay has restored it; "
        "try again shortly with the same key"
    )


def _claim(value: str) -> Claim:
    stream, _, digest = value.partition(" ")
    return Claim(stream, digest)
