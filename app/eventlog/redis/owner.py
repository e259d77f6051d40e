"""Writes the streams that run in this process to Redis, and renews their leases.

All events of a running stream are in memory. `acked` is the last event that Redis has
acknowledged; later ones are sent until it acknowledges them. So a lost reply, a new connection,
and a Redis that came back empty or without its last writes are one case: Redis returns how far
it is, and the rest is sent again.

Events are shown to readers once Redis has them, unless Redis is away.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog

from ...errors import CODES, ServiceError
from ...events import ErrorInfo, Event, StreamEnd, encode
from ...ledger.accounts import NOTHING, Settlement
from ..contract import ChatBusy, Placed, expired
from ..entries import Entries
from ..listing import pack_listing
from ..pace import Pace
from ..peers import OnStop
from ..stream_info import StreamInfo, pack_info
from ..supervision import Supervisor, wait_for
from ..takeover import Orphan, StreamTaken
from .accounts import grant_from, pack_request, refuse
from .failures import away, parsing
from .link import Away, Broken, CommandRefused, Link, Part
from .local_stream import Batch, LocalStream
from .orphans import Lease
from .scripts import (
    ABANDON,
    APPEND,
    BEAT,
    BEHIND,
    CLAIM,
    CREATE,
    FENCED,
    GONE,
    MISSING,
    OWNERS,
    RENEW,
    STOP,
    STOP_BY_OPERATOR,
    TAKE,
    idempotency_key,
    is_claim,
    meta_key,
    name_key,
    running_key,
)

STREAMS_AT_ONCE = 100
BYTES_AT_ONCE = 2**22
"""About the size of one script call: Redis does nothing else while it runs."""

PUSHED = 64
"""How many batches of a stream may wait for Redis before its producer waits too."""

TAKEN_OVER_IDS = 1000
"""How many streams that others ended are remembered as such."""

ABANDONED = 10_000
"""How many streams to be taken back are remembered."""

NEVER_BEGAN = StreamEnd(
    "failed",
    "error",
    usage=None,
    error=ErrorInfo(
        "overloaded",
        "the event log could not be reached as the stream began; try again",
        retryable=CODES["overloaded"].retryable,
        retry_after_s=2,
    ),
    ended_by="relay",
)
"""The end of a stream that is taken back although others may have seen it."""

log = structlog.get_logger("seseragi.eventlog")


class Owner:
    """Writes the streams of this process and renews their leases.

    `on_stop` receives a stream that another process has stopped, ended or removed.
    """

    def __init__(
        self,
        link: Link,
        entries: Entries,
        *,
        lease: Lease,
        wall: Callable[[], float],
        redis_time: bool,
        on_stop: OnStop,
    ) -> None:
        self.streams: dict[str, LocalStream] = {}
        self._ended: OrderedDict[str, LocalStream] = OrderedDict()
        """Streams whose end Redis has, while they are in memory: see `forget`."""
        self._link = link
        self._entries = entries
        self._lease = lease
        self._wall = wall
        self._redis_time = redis_time
        self._on_stop = on_stop
        self._abandoned: OrderedDict[str, LocalStream] = OrderedDict()
        """Streams to be taken back that Redis may have."""
        self._dirty: dict[str, LocalStream] = {}
        self._due = asyncio.Event()
        self._gathering: asyncio.TimerHandle | None = None
        """Sets `_due` for events that no append waits for."""
        self._gathered = 0
        """Batches for the next write."""
        self._pace = Pace()
        self._renewal_due = asyncio.Event()
        self._tasks = Supervisor()
        self.taken_over: OrderedDict[str, ServiceError] = OrderedDict()
        """The last streams that others have ended or go on with; the error for their producers."""
        self._renewed_at = 0.0
        """When the last renewal of all leases began, by the clock of the event loop."""
        self.refused = False
        """Whether Redis is connected and refuses writes."""
        self.full = False
        """Whether it refuses them because its memory is full."""

    def open(self) -> None:
        self._renewed_at = asyncio.get_running_loop().time()
        self._tasks = Supervisor()
        self._tasks.keep("redis writer", self._keep_writing, on_failure=self._fail_writing)
        self._tasks.keep(
            "redis leases", self._keep_leases, on_failure=lambda _: self._renewal_due.set()
        )

    async def close(self, *, within_s: float) -> None:
        """Write pending events, within a time limit, and return the leases."""
        deadline = asyncio.get_running_loop().time() + within_s
        while any(map(self._is_due, self.streams.values())) and not self._link.away:
            if asyncio.get_running_loop().time() >= deadline:
                break
            await asyncio.sleep(0.01)
        await self._tasks.close()
        left = [local for local in self.streams.values() if local.ended_at is None]
        with contextlib.suppress(Away, CommandRefused, TimeoutError):
            async with asyncio.timeout(within_s):
                for at in range(0, len(left), STREAMS_AT_ONCE):
                    await self._renew(left[at : at + STREAMS_AT_ONCE], ms=0)
                await self._beat(ms=0)

    @property
    def healthy(self) -> bool:
        """Whether Redis takes writes, or is only full, and the tasks run.

        A full Redis still serves its streams, and running ones continue: every replica refuses
        new streams until some have expired.
        """
        return (self.full or not self.refused) and self._tasks.healthy

    def _is_due(self, local: LocalStream) -> bool:
        return local.acked < local.taken

    # Streams

    async def create(
        self,
        info: StreamInfo,
        *,
        key: str = "",
        value: str = "",
        over: str = "",
        old: str = "",
    ) -> str:
        """Open a stream in Redis and in memory, and bind its names and the claim `key`, if given.

        The claim's `value` may replace the value `over` of the stream `old`. Returns the claim's
        value; if that is another, no stream was opened. If this raises, whatever Redis may have
        done is taken back. The reservation is the stream's `grant`.

        Raises:
            ChatBusy: another stream of a name runs, and this one is to run alone.
            LimitReached: an account lacks room for the reservation.
        """
        if self._link.away:
            raise Away
        stream = info.id
        local = LocalStream(stream, self._entries.create(info))
        names = [name_key(name) for name in info.scoped_names]
        local.keys |= dict.fromkeys(names, stream)
        keys = []
        if key:
            local.keys[idempotency_key(key)] = value
            keys.append(idempotency_key(key))
        if over:
            keys.append(meta_key(old))
        try:
            if local.is_strict:
                local.server = self._link.run_id
            bonds: list[Part] = [value, over, self._lease.meta_ms, int(info.alone), local.server]
            bonds += names
            found = await self._create(local, *bonds, keys=keys)
            if found == 0:  # this process slept, and others have removed it
                raise away("the stream was lost before it began; try again")
            if isinstance(found, list) and found[0] == -2:
                raise ChatBusy(found[1].decode())
            if isinstance(found, list) and info.reserve is not None:
                if found[0] == -1:
                    refuse(found[1], found[2], info.reserve)
                local.grant = grant_from(found, info.reserve)
            with parsing(keys[0] if keys else meta_key(stream)):
                bound = found.decode() if isinstance(found, bytes) else value
        except (Away, Broken, asyncio.CancelledError):  # the script may run all the same
            self.abandon(local)
            raise
        except BaseException:
            self._entries.drop(stream)
            raise
        if bound == value:
            self.streams[stream] = local
        else:
            self._entries.drop(stream)
        return bound

    def _create(
        self, local: LocalStream, *bonds: Part, keys: Sequence[str] = ()
    ) -> "asyncio.Future[int | bytes | list[Any]]":
        lease, info = self._lease, local.entry.info
        started = repr(local.entry.started_at)
        parts: list[Part] = [lease.owner, local.epoch, started, lease.ms, lease.running_ms]
        given = None if local.grant is None else local.grant.output_tokens
        reserve = pack_request(info, given=given, redis_time=self._redis_time)
        facts = info.without_request()
        kept = pack_info(facts) if reserve and facts is not info else b""
        listed = pack_listing(info) if info.owner else b""
        parts += [lease.running_log_ms, pack_info(info), info.owner, reserve, kept, listed, *bonds]
        return self._link.run(CREATE, [*local.own_keys, *keys], *parts)

    async def take(self, orphan: Orphan, *, epoch: int) -> bool:
        """Go on with an orphaned stream that was read in this epoch; return whether it is ours.

        Raises:
            ServiceError: `overloaded`, running streams take all the memory.
        """
        lease, info = self._lease, orphan.info
        stream, last = info.id, len(orphan.events)
        entry = self._entries.take(info, orphan.events, started_at=orphan.started_at)
        local = LocalStream(stream, entry)
        local.epoch, local.started, local.server = epoch + 1, True, self._link.run_id
        local.taken = local.acked = last
        local.keys |= dict.fromkeys(map(name_key, info.scoped_names), stream)
        if (key := info.scoped_key) is not None:
            local.keys[idempotency_key(key)] = f"{stream} {info.digest}"
        parts: list[Part] = [lease.owner, epoch, last, lease.ms, lease.running_log_ms]
        parts += [lease.running_ms, local.server]
        taken = False
        try:
            taken = bool(await self._link.run(TAKE, [*local.own_keys, OWNERS], *parts))
        finally:
            if taken:
                self.streams[stream] = local
                self.taken_over.pop(stream, None)
            else:
                self._entries.drop(stream)
        return taken

    async def hand_over(self, local: LocalStream) -> None:
        """Return the lease of a stream that this process no longer produces, and drop it."""
        with contextlib.suppress(Away, CommandRefused):
            await self._renew([local], ms=0)
        if self.streams.get(local.stream) is local:
            self._lose(local, local.acked, "")

    def abandon(self, local: LocalStream) -> None:
        """Take back a stream for which no provider was called, and none will be.

        Commands for it may still be on their way; it is taken back before and after them.
        """
        local.settle(away())
        self.drop(local.stream)
        self._abandoned[local.stream] = local
        if len(self._abandoned) > ABANDONED:
            self._abandoned.popitem(last=False)
        self._send_abandoned(local)

    def _send_abandoned(self, local: LocalStream) -> None:
        lease = self._lease
        claims = [(key, value) for key, value in local.keys.items() if is_claim(value)]
        keys = [*local.own_keys, *(key for key, _ in claims)]
        parts: list[Part] = [lease.owner, repr(self._wall()), lease.log_ms, lease.meta_ms]
        parts += [encode(NEVER_BEGAN), *(value for _, value in claims)]
        done = self._link.run(ABANDON, keys, *parts)
        done.add_done_callback(partial(self._on_abandoned, local.stream))

    def _on_abandoned(self, stream: str, done: "asyncio.Future[int]") -> None:
        if not isinstance(done.exception(), Away | Broken):  # then `rewrite` tries again
            self._abandoned.pop(stream, None)

    def push(self, local: LocalStream, events: Sequence[Event]) -> bool:
        """Append events without a wait; False if they cannot be added or Redis is far behind."""
        if local.ended_at is not None or len(local.batches) >= PUSHED:
            return False
        try:
            self._take(local, events, None)
        except (ServiceError, ValueError):
            return False
        return True

    async def append(
        self, local: LocalStream, events: Sequence[Event], settlement: Settlement | None = None
    ) -> Placed:
        """Do `EventLog.append`: return once readers may see the events."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._take(local, events, done, settlement)
        except ServiceError:
            while local.batches:  # so that a read returns all that was taken
                local.batches[-1].done = local.batches[-1].done or done
                await asyncio.wait({local.batches[-1].done})
            raise
        await done
        return local.placed if type(events[-1]) is StreamEnd else None

    def _take(
        self,
        local: LocalStream,
        events: Sequence[Event],
        done: "asyncio.Future[None] | None",
        settlement: Settlement | None = None,
    ) -> None:
        memory = self._entries.measure(local.stream, events)
        local.taken += len(events)
        batch = Batch(events, last=local.taken, memory=memory, at=self._wall(), done=done)
        local.batches.append(batch)
        if type(events[-1]) is StreamEnd:
            local.ended_at = batch.at
            local.settlement = settlement or NOTHING
        self._dirty[local.stream] = local
        self._gathered += 1
        if done is not None:
            self._due.set()
        elif self._gathering is None:
            loop = asyncio.get_running_loop()
            self._gathering = loop.call_at(self._pace.due, self._due.set)
        if self._link.away or self.refused:
            self._show_first(local)

    def drop(self, stream: str, *, has_end: bool = False) -> None:
        """Drop a removed stream; `has_end`: Redis had its end, which is settled."""
        local = self.streams.pop(stream, None)
        self._dirty.pop(stream, None)
        if local is not None:
            owner = local.entry.info.owner
            gone = None if has_end else expired(stream, self._lease.retention_s, owner=owner)
            local.settle(gone)
        if self._entries.find(stream) is not None:
            self._entries.drop(stream)

    # Showing events to readers

    def show_all(self) -> None:
        """Show all events that wait for Redis: it is away."""
        for local in list(self.streams.values()):
            self._show_first(local)

    def _show_first(self, local: LocalStream) -> None:
        """Show the events that Redis lacks, unless it has never had one of the stream."""
        if not local.started:
            if local.batches:
                self.abandon(local)
        elif not local.is_strict:
            self._show(local, local.taken)

    def _show(self, local: LocalStream, last: int) -> None:
        batches = local.batches
        while batches and batches[0].last <= last:
            batch = batches.popleft()
            self._entries.add(local.stream, batch.events, size=batch.memory, ended_at=batch.at)
            if batch.done is not None and not batch.done.done():
                batch.done.set_result(None)

    # Writing

    def rewrite(self) -> None:
        """Ask a Redis that is back how much it has of every stream in memory.

        All leases are renewed at once: others wait only for a moment before they end streams.
        """
        for stream, local in self._ended.items():
            self.streams.setdefault(stream, local)
        self._ended.clear()
        for local in self._abandoned.values():
            self._send_abandoned(local)
        self._dirty |= self.streams
        if self.streams:  # Redis may lack the last ones
            self._link.send("SADD", running_key(self._lease.owner), *self.streams)
        self._due.set()
        self._renewal_due.set()

    async def _keep_writing(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            if self._gathering is not None:
                self._gathering.cancel()
                self._gathering = None
            if self._link.away:
                continue  # until `rewrite`
            streams, self._dirty = self._dirty, {}
            self._pace.note(asyncio.get_running_loop().time(), self._gathered)
            self._gathered = 0
            try:
                while streams:
                    await self._write(streams)
                self.refused = self.full = False
            except Away:
                pass
            except CommandRefused as error:
                self._refused(error)
                await asyncio.sleep(1)
                self._due.set()
            finally:  # what is left is written next time
                self._dirty |= streams

    def _fail_writing(self, _: BaseException) -> None:
        """Show all events: the writer has failed, and nobody may wait for it."""
        self._due.set()
        self.refused = True
        self.show_all()

    def _refused(self, error: CommandRefused) -> None:
        log.error("Redis refuses writes", error=str(error))
        self.refused, self.full = True, error.memory
        self.show_all()
        self.give_up("Redis refuses its events")

    def give_up(self, why: str) -> None:
        """Give up the streams that others may take over: their readers wait for Redis."""
        for local in list(self.streams.values()):
            if local.is_strict and local.started:
                self._lose(local, local.acked, why)

    async def _write(self, streams: dict[str, LocalStream]) -> None:
        """Write the pending events of some streams, and remove those from `runs`."""
        lease = self._lease
        keys: list[str] = []
        parts: list[Part] = [lease.owner, lease.running_log_ms, lease.log_ms, lease.meta_ms]
        written_streams: list[LocalStream] = []
        size = 0
        for local in streams.values():
            written = local.unsent(BYTES_AT_ONCE)
            keys += local.own_keys
            ending = local.ending(len(written), lease.queues)
            parts += (local.epoch, local.acked + 1, ending, len(written))
            parts += written
            written_streams.append(local)
            size += sum(map(len, written))
            if len(written_streams) >= STREAMS_AT_ONCE or size >= BYTES_AT_ONCE:
                break
        replies = await self._link.run(APPEND, keys, *parts)
        for local, reply in zip(written_streams, replies, strict=True):
            if self.streams.get(local.stream) is local:
                what, number = (0, reply) if isinstance(reply, int) else reply
                if what in (0, STOP, STOP_BY_OPERATOR):
                    self._on_written(local, number)
                if what != 0:
                    await self._on_status(local, what, number)
            del streams[local.stream]

    def _on_written(self, local: LocalStream, number: int) -> None:
        """Show the events that Redis has now; `number` is that of the last one."""
        local.acked = number
        local.started = local.started or number > 0
        self._show(local, number)
        if local.is_strict and number >= len(local.entry.events):
            local.server = self._link.run_id
        if number == local.taken:
            if local.ended_at is not None:
                self._done(local)
        elif local.stream not in self._dirty:  # it has more than is sent at once
            self._again(local)

    async def _on_status(self, local: LocalStream, what: int, number: int) -> None:
        """Process a reply that is not the plain number."""
        if what in (STOP, STOP_BY_OPERATOR) and local.ended_at is None:
            self._on_stop(local.stream, "user" if what == STOP else "operator")
        elif what == BEHIND:
            _warn(local, "Redis has lost events", last=number)
            local.acked = number
            if number == 0:  # the log is gone, with the info before its events
                await self._create(local)
            self._again(local)
        elif what == MISSING and not local.started:
            self.abandon(local)
        elif what == MISSING:
            _warn(local, "Redis has lost a stream")
            await self._restore(local)
        elif what == FENCED:
            self._lose(local, number)
        elif what == GONE:
            self.drop(local.stream, has_end=number == 1)
            self._on_stop(local.stream, "user")

    def _again(self, local: LocalStream) -> None:
        self._dirty[local.stream] = local
        self._due.set()

    def _done(self, local: LocalStream) -> None:
        del self.streams[local.stream]
        if self._entries.find(local.stream) is not None:
            self._ended[local.stream] = local
        local.settle()

    def forget(self, stream: str) -> None:
        """Forget a stream that has left the memory."""
        self._ended.pop(stream, None)

    async def _restore(self, local: LocalStream) -> None:
        """Create a stream that Redis has lost again, with its keys.

        One that another process may have taken over is left to that.
        """
        since_s = asyncio.get_running_loop().time() - self._renewed_at
        if local.is_strict and since_s > self._lease.s:
            self._lose(local, local.acked, "its lease is over")
            return
        local.acked = 0
        await self._create(local)
        for key, value in local.keys.items():
            times = (self._lease.running_ms, self._lease.meta_ms)
            await self._link.run(CLAIM, [key], value, *times)
        self._again(local)

    def _lose(self, local: LocalStream, kept: int, why: str = "its lease was over") -> None:
        """Give up a stream that another process has ended or goes on with, or may.

        Readers that have not seen more of it than Redis has continue there. Without a reason it is
        given up on purpose.
        """
        if why:
            _warn(local, "stream was given up", why=why, kept=kept)
        self.streams.pop(local.stream, None)
        self._dirty.pop(local.stream, None)
        error = StreamTaken() if local.is_strict else taken_over()
        self.taken_over[local.stream] = error
        if len(self.taken_over) > TAKEN_OVER_IDS:
            self.taken_over.popitem(last=False)
        local.settle(error)
        if self._entries.find(local.stream) is not None:
            self._entries.drop(local.stream)
        self._on_stop(local.stream, "user")

    # Leases

    async def _keep_leases(self) -> None:
        while True:
            await wait_for(self._renewal_due, self._lease.renew_s)
            began_at = asyncio.get_running_loop().time()
            with contextlib.suppress(Away, CommandRefused):
                await self._beat(ms=self._lease.ms)
            streams = list(self.streams.values())
            for at in range(0, len(streams), STREAMS_AT_ONCE):
                try:
                    await self._renew(streams[at : at + STREAMS_AT_ONCE], ms=self._lease.ms)
                except Away:
                    break
                except CommandRefused as error:
                    self._refused(error)
            else:
                self._renewed_at = began_at

    async def _beat(self, *, ms: int) -> None:
        """Extend the lease of this process."""
        await self._link.run(BEAT, [OWNERS], self._lease.owner, ms, self._lease.running_ms)

    async def _renew(self, streams: Sequence[LocalStream], *, ms: int) -> None:
        lease = self._lease
        keys = [key for local in streams for key in local.own_keys]
        parts: list[Part] = [lease.owner, ms, lease.running_log_ms, lease.running_ms]
        for local in streams:
            parts += (local.epoch, local.server)
        renewed = self._link.run(RENEW, keys, *parts)
        for local in streams:
            for key in local.keys:
                self._link.send("PEXPIRE", key, lease.running_ms)
        for local, reply in zip(streams, await renewed, strict=True):
            if local.stream in self.streams and reply != 0:
                await self._on_status(local, *reply)


def _warn(local: LocalStream, what: str, **fields: object) -> None:
    """Log an incident of a stream, with the id of its request."""
    request_id = local.entry.info.request_id
    log.warning(what, request_id=request_id, stream=local.stream, **fields)


def taken_over() -> ServiceError:
    """Return the error for the producer of a stream that another process has ended."""
    return ServiceError("producer_lost", "the stream was ended elsewhere: its lease was over")
