"""The log in Redis, for many processes: each writes its own streams and reads all.

Streams that are produced here are in memory too, and live reading of them costs what it
costs there. Those of others are read from Redis. While Redis is away, the former go on.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import structlog
from redis.exceptions import RedisError

from app.errors import RequestError, ServiceError
from app.eventlog import PAGE, Claim, Follower, LogState, LogUnusable
from app.eventlog.entries import Entries, Entry, expired, unknown
from app.eventlog.recovery import LOST, ending_of
from app.eventlog.redis.address import Address
from app.eventlog.redis.lease import Lease
from app.eventlog.redis.link import Away, Link, Refused
from app.eventlog.redis.owner import Owner, lost
from app.eventlog.redis.scripts import (
    ASK_STOP,
    DELETE,
    END,
    claim_key,
    inbox_key,
    log_key,
    meta_key,
    name_key,
)
from app.eventlog.redis.scripts import (
    PAGE as PAGE_SCRIPT,
)
from app.eventlog.redis.tails import BLOCK_S, INBOX_MESSAGES, INBOX_MS, Tails, number_of
from app.events import Event, decode, encode

KEEP_S = 10
"""How long an ended stream stays in memory, for the readers that are near its end."""

PAUSE_S = 0.2
"""When a reader looks again for a stream that Redis may be told of anew."""

CLOSE_S = 1.0
"""How long the last writes may take."""

OLDEST = 7
"""The first version of Redis whose scripts may look at the clock and then write."""

T = TypeVar("T")
log = structlog.get_logger("seseragi.eventlog")


class _Page(NamedTuple):
    """What Redis has of a stream: all of it that matters, and some events."""

    started_at: float
    ended_at: float | None
    last: int
    epoch: int
    gone: bool
    kept: int
    forked: bool
    lease_s: float
    attended_s: float
    entries: Sequence[tuple[bytes, Sequence[bytes]]]

    @property
    def lost(self) -> bool:
        """Whether its owner is lost and nobody has ended it."""
        return self.ended_at is None and not self.gone and self.lease_s < 0

    def events(self, after: int) -> list[Event]:
        """Give the events, which come after the cursor.

        Raises:
            ValueError: they do not follow it.
        """
        if self.entries and number_of(self.entries[0][0]) != after + 1:
            raise ValueError("events are missing")
        return [decode(fields[1]) for _, fields in self.entries]


class RedisLog:
    """An `EventLog` in Redis, which other processes share.

    Streams that have ended are kept for `retention_s` seconds. `max_bytes` is the memory of
    those that are produced here, one of which may have `max_stream_bytes` and
    `max_stream_events`; how much Redis holds is for its own `maxmemory` to say. A stream is
    ended for a process that has not said for the time of its lease that it lives, and so long
    readers of others' streams wait for a Redis that is away. `wall` tells unix seconds.
    """

    def __init__(
        self,
        address: Address,
        *,
        retention_s: float,
        max_bytes: int,
        max_stream_bytes: int = 64 * 2**20,
        max_stream_events: int = 1_000_000,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._address = address
        self._retention_s = retention_s
        self._wall = wall
        self._stop: Callable[[str], None] = lambda _: None
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._lease = Lease(secrets.token_hex(8), s=address.lease_s, retention_s=retention_s)
        self._entries = Entries(
            keep_s=min(KEEP_S, retention_s),
            max_bytes=max_bytes,
            max_stream_bytes=max_stream_bytes,
            max_stream_events=max_stream_events,
            now=wall,
            wall=wall,
            on_drop=lambda _: None,
        )
        self._cutting: asyncio.TimerHandle | None = None
        self._stopping = False
        self._link: Link
        self._tail_link: Link
        self._owner: Owner
        self._tails: Tails
        self._back: asyncio.Event

    # Its life

    async def open(self) -> None:
        self._back = asyncio.Event()
        self._back.set()
        self._link = Link(self._address.connect, on_up=self._on_up, on_away=self._on_away)
        self._tail_link = Link(self._address.connect, slow_s=BLOCK_S, quiet=True)
        self._owner = Owner(
            self._link,
            self._entries,
            lease=self._lease,
            wall=self._wall,
            on_stop=lambda stream: self._stop(stream),
        )
        self._tails = Tails(
            self._tail_link,
            self._link,
            lease=self._lease,
            on_message=self._hear,
            on_lost=self._end_soon,
        )
        try:
            await self._link.open()
            await self._check()
            await self._tail_link.open()
        except (RedisError, OSError, TimeoutError) as error:
            await self._close_links()
            raise LogUnusable(f"log: {_why(error)}") from None
        except LogUnusable:
            await self._close_links()
            raise
        self._owner.open()
        self._tails.open()

    async def _check(self) -> None:
        """Refuse a Redis that cannot do what is needed, and warn of what it may do."""
        info = (await self._link.send("INFO")).decode()
        facts = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
        version = facts.get("valkey_version") or facts.get("redis_version", "0")
        if int(version.partition(".")[0]) < OLDEST:
            raise LogUnusable(f"log: this Redis is {version}; version {OLDEST} or later is needed")
        if facts.get("role") == "slave":
            raise LogUnusable("log: this Redis is a replica that takes no writes; give its master")
        if facts.get("cluster_enabled", "0") != "0":
            raise LogUnusable("log: this Redis is a cluster, which is not supported; give one set")
        if facts.get("maxmemory_policy", "noeviction") != "noeviction":
            log.warning(
                "Redis may evict running streams; set maxmemory-policy to noeviction",
                policy=facts["maxmemory_policy"],
            )

    async def close(self) -> None:
        await self._owner.close(within_s=CLOSE_S)
        await self._tails.close()
        for task in self._ending.values():
            task.cancel()
        await asyncio.gather(*self._ending.values(), return_exceptions=True)
        await self._close_links()
        self._entries.close()

    async def _close_links(self) -> None:
        if self._cutting is not None:
            self._cutting.cancel()
        await self._link.close()
        await self._tail_link.close()
        await self._address.close()

    def healthy(self) -> bool:
        return not (self._link.away or self._owner.refused)

    def on_stop(self, stop: Callable[[str], None]) -> None:
        self._stop = stop

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
        self._cutting = loop.call_later(self._lease.s, self._tails.stop_all)

    # Streams

    async def create(self, stream: str, *, key: str | None = None, digest: str = "") -> Claim:
        try:
            run = await _asked(self._owner.create(stream))
        except asyncio.CancelledError:  # which the script survives
            self._discard(stream)
            raise
        claim = Claim(stream, digest)
        if key is None:
            return claim
        try:
            bound = await self._bind(run.stream, key, claim)
        except BaseException:
            self._discard(stream)
            raise
        if bound.stream != stream:
            self._discard(stream)
        return bound

    async def _bind(self, stream: str, key: str, claim: Claim) -> Claim:
        """Let a key lead to a stream unless it leads to one that is kept."""
        value, over = " ".join(claim), ""
        while True:
            run = self._owner.runs[stream]
            found = (await _asked(self._owner.claim(run, key, value, over=over))).decode()
            if found == value:
                return claim
            bound = _claim(found)
            if await self._is_kept(bound.stream):
                return bound
            over = found

    def _discard(self, stream: str) -> None:
        """Take back a stream that nobody has heard of."""
        self._owner.drop(stream)
        self._link.send("DEL", meta_key(stream), log_key(stream))

    async def claimed(self, key: str) -> Claim | None:
        found: bytes | None = await _asked(self._link.send("GET", claim_key(key)))
        claim = None if found is None else _claim(found.decode())
        return claim if claim is not None and await self._is_kept(claim.stream) else None

    async def name(self, name: str, stream: str) -> None:
        await self.state(stream)
        await _asked(self._owner.name(name, stream))

    async def find(self, name: str) -> str | None:
        found: bytes | None = await _asked(self._link.send("GET", name_key(name)))
        if found is None:
            return None
        stream = found.decode()
        return stream if await self._is_kept(stream) else None

    def push(self, stream: str, events: Sequence[Event]) -> bool:
        run = self._owner.runs.get(stream)
        return run is not None and self._owner.push(run, events)

    async def append(self, stream: str, events: Sequence[Event]) -> None:
        run = self._owner.runs.get(stream)
        if run is not None and run.ended_at is None:
            if events:
                await self._owner.append(run, events)
            return
        if stream in self._owner.lost:
            raise lost()
        await self.state(stream)
        raise ValueError(f"stream {stream} has ended; nothing can be added to it")

    async def read(
        self, stream: str, after: int, *, timeout_s: float, limit: int = PAGE
    ) -> Sequence[Event]:
        entry = self._find(stream)
        if entry is not None:
            return await entry.read(after, timeout_s=timeout_s, limit=limit)
        if self._stopping and timeout_s > 0:
            raise away("the relay is shutting down; try again")
        tail = self._tails.find(stream)
        if tail is None or not tail.covers(after):
            try:
                page = await self._page(stream, after, limit)
            except ServiceError:
                if timeout_s > 0 and await self._bide(timeout_s):
                    return ()
                raise
            if page.entries or page.ended_at is not None or timeout_s <= 0:
                return self._events(stream, page, after)
            tail = self._tails.find(stream) or self._tails.start(stream, page.last)
        if after >= tail.last and not tail.ended and timeout_s > 0:
            await tail.wait(timeout_s)
        return tail.after(after, limit) if tail.covers(after) else ()

    def follow(self, stream: str, after: int, follower: Follower) -> bool:
        if self._entries.follow(stream, after, follower):
            return True
        tail = self._tails.find(stream)
        if tail is None or tail.ended or after != tail.last:
            return False
        tail.followers.append(follower)
        return True

    def unfollow(self, stream: str, follower: Follower) -> None:
        self._entries.unfollow(stream, follower)
        tail = self._tails.find(stream)
        if tail is not None and follower in tail.followers:
            tail.followers.remove(follower)

    async def state(self, stream: str) -> LogState:
        run = self._owner.runs.get(stream)
        if run is not None and run.batches:  # readers elsewhere may have seen them before
            ended_at = run.ended_at
            return LogState(run.taken, ended_at is not None, run.entry.started_at, ended_at)
        entry = self._find(stream)
        if entry is not None:
            return entry.state()
        page = await self._page(stream, 0, 0)
        return LogState(
            last=page.last,
            ended=page.ended_at is not None,
            started_at=page.started_at,
            ended_at=page.ended_at,
            kept=page.kept if page.forked else None,
            settled=self._settled(),
        )

    async def delete(self, stream: str) -> None:
        await self.state(stream)
        keys = [meta_key(stream), log_key(stream)]
        owner: bytes | None = await _asked(self._link.run(DELETE, keys, self._lease.meta_ms))
        self._drop(stream)
        if owner is not None:
            self._tell(owner.decode(), "gone", stream)

    def _drop(self, stream: str) -> None:
        """Let go of all that is in memory of a stream which has been removed."""
        self._owner.drop(stream)
        self._tails.stop(stream)

    def _tell(self, owner: str, what: str, stream: str) -> None:
        """Tell a process something about a stream of its own."""
        inbox = inbox_key(owner)
        self._link.send("XADD", inbox, "MAXLEN", "~", INBOX_MESSAGES, "*", what, stream)
        self._link.send("PEXPIRE", inbox, INBOX_MS)

    def _hear(self, what: str, stream: str) -> None:
        if what == "gone":
            self._drop(stream)
        self._stop(stream)

    # Others

    async def ask_stop(self, stream: str) -> None:
        owner: bytes | None = await _asked(self._link.run(ASK_STOP, [meta_key(stream)]))
        if owner is not None:
            self._tell(owner.decode(), "stop", stream)

    def attend(self, stream: str) -> None:
        if stream not in self._owner.runs:
            self._tails.attend(stream)

    def leave(self, stream: str) -> None:
        self._tails.leave(stream)

    async def attended_s(self, stream: str) -> float:
        return (await self._page(stream, 0, 0)).attended_s

    def send_away(self) -> None:
        self._stopping = True
        self._tails.stop_all()

    # In memory

    def _find(self, stream: str) -> Entry | None:
        entry = self._entries.find(stream)
        run = self._owner.runs.get(stream)
        if entry is not None or run is None:
            return entry
        # Its end is not in Redis yet, which is away for longer than it is kept otherwise.
        if run.ended_at is not None and run.ended_at <= self._wall() - self._retention_s:
            self._owner.drop(stream)
            raise expired(stream, self._retention_s)
        return run.entry

    # In Redis

    async def _bide(self, timeout_s: float) -> bool:
        """Wait for Redis, or for what owners have to write to it; False if there is no point."""
        if not self._link.away:
            await asyncio.sleep(min(timeout_s, PAUSE_S))
            return not self._settled()
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

    async def _page(self, stream: str, after: int, limit: int) -> _Page:
        """Ask Redis for a stream, which is ended first if its owner is lost.

        Raises what every call does that names a stream.
        """
        page = await _asked(self._ask(stream, after, limit))
        if page is not None and page.lost and self._settled():
            await asyncio.shield(self._end_soon(stream))
            page = await _asked(self._ask(stream, after, limit))
        if page is None:
            if not self._settled():  # its owner may be about to write it again
                raise away()
            raise unknown(stream)
        until = self._wall() - self._retention_s
        if page.gone or (page.ended_at is not None and page.ended_at <= until):
            raise expired(stream, self._retention_s)
        ahead = page.ended_at is not None and after > page.last and self._settled()
        if ahead or (page.forked and after > page.kept):
            raise conflict(stream, page.kept if page.forked else page.last)
        return page

    async def _ask(self, stream: str, after: int, limit: int) -> _Page | None:
        keys = [meta_key(stream), log_key(stream)]
        found: list[Any] | None = await self._link.run(PAGE_SCRIPT, keys, after, limit)
        if found is None:
            return None
        started, ended, last, epoch, gone, kept, forked, lease_ms, attended_ms, entries = found
        return _Page(
            started_at=float(started),
            ended_at=float(ended) if ended else None,
            last=last,
            epoch=epoch,
            gone=bool(gone),
            kept=kept,
            forked=bool(forked),
            lease_s=lease_ms / 1000,
            attended_s=attended_ms / 1000,
            entries=entries,
        )

    def _settled(self) -> bool:
        """Tell whether owners have had the time to come back to a Redis that was away."""
        since_s = asyncio.get_running_loop().time() - self._link.changed_at
        return since_s > self._lease.settle_s

    def _events(self, stream: str, page: _Page, after: int) -> list[Event]:
        try:
            return page.events(after)
        except (ValueError, msgspec.MsgspecError) as error:
            log.error("stream in Redis cannot be read", stream=stream, error=str(error))
            raise expired(stream, self._retention_s) from None

    # Streams whose owner is lost

    def _end_soon(self, stream: str) -> "asyncio.Task[None]":
        """End a stream whose owner is lost; whoever asks while that is done waits for the same."""
        task = self._ending.get(stream)
        if task is None:
            task = self._ending[stream] = asyncio.create_task(self._end(stream))
            task.add_done_callback(lambda _: self._ending.pop(stream, None))
        return task

    async def _end(self, stream: str) -> None:
        with contextlib.suppress(Away, Refused):
            if self._settled():
                await self._end_lost(stream)

    async def _end_lost(self, stream: str) -> None:
        events: list[Event] = []
        page = await self._ask(stream, 0, PAGE)
        try:
            while page is not None and page.entries:
                events += page.events(len(events))
                page = await self._ask(stream, len(events), PAGE)
        except (ValueError, msgspec.MsgspecError):
            page = None if page is None else page._replace(last=-1)
        if page is None or not page.lost:
            return
        keys = [meta_key(stream), log_key(stream)]
        lease = self._lease
        if len(events) != page.last:
            log.error("lost stream in Redis cannot be read and is removed", stream=stream)
            await self._link.run(DELETE, keys, lease.meta_ms)
            return
        ending = ending_of(events, status="interrupted", error=LOST)
        times = (repr(self._wall()), lease.log_ms, lease.meta_ms)
        if await self._link.run(
            END, keys, lease.owner, page.epoch, page.last, *times, *map(encode, ending)
        ):
            log.warning("stream of a lost process ended", stream=stream)


async def _asked(reply: Awaitable[T]) -> T:
    """Wait for Redis, and say in words of the log what is the matter with it."""
    try:
        return await reply
    except Away:
        raise away() from None
    except Refused as error:
        log.error("Redis refused a command", error=str(error))
        if error.full:
            raise _full() from None
        raise ServiceError("internal", "the event log failed; its log tells more") from None


def _claim(value: str) -> Claim:
    stream, _, digest = value.partition(" ")
    return Claim(stream, digest)


def away(why: str = "the event log cannot be reached; try again shortly") -> ServiceError:
    """What is answered that needs Redis while it cannot be reached."""
    return ServiceError("overloaded", why, retry_after_s=2)


def _full() -> ServiceError:
    return ServiceError(
        "overloaded", "the event log takes nothing at the moment; try again", retry_after_s=5
    )


def conflict(stream: str, last: int) -> RequestError:
    """What a reader is told that has seen events which were lost with their owner."""
    return RequestError(
        "conflict",
        f"stream {stream} was kept up to event {last} only: what you have seen after it was "
        "lost before it could be stored; read it again from the beginning",
    )


def _why(error: Exception) -> str:
    """Say what is wrong with a Redis that cannot be used, without its URL."""
    text = str(error)
    if isinstance(error, TimeoutError):
        return "Redis does not answer; check the URL and that it runs"
    for sign, told in (
        ("WRONGPASS", "Redis refuses the user name or password"),
        ("invalid username-password", "Redis refuses the user name or password"),
        ("NOAUTH", "Redis asks for a password; put it into the URL"),
        ("Authentication required", "Redis asks for a password; put it into the URL"),
        ("NOPERM", "the user has not all the rights that are needed in Redis"),
        ("No master", "the Sentinels know no such master"),
        ("DB index", "Redis has no database of this number"),
    ):
        if sign.lower() in text.lower():
            return told
    return f"Redis cannot be used: {text}"
