"""All running relays of this process: start, read, cancel, drain.

Which streams run here and who reads them is known here only; what they said is in the log.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import structlog

from ..admission import LOCAL, Admission, RequestMemory, Shares
from ..deadlines import Limits
from ..errors import RelayError, RequestError, ServiceError
from ..eventlog import (
    Claim,
    EventLog,
    Follower,
    LogState,
    StreamExpired,
    cursor_after,
    read_all,
)
from ..eventlog.entries import unknown
from ..eventlog.lost import LostStream
from ..eventlog.record import StreamRecord, scoped
from ..events import Event, StreamEnd, StreamTarget
from ..identity.principal import Principal
from ..requests import ChatRequest
from ..telemetry.observer import Ended, Observer, Observers, Readers, Refused
from ..upstreams.client import Client
from ..upstreams.routes import Health, Listed, Route, Upstreams
from .relay import Relay, outcome_of, shut_down
from .single_call import Asking

BATCH = 256
"""How many events a reader that catches up is given at once."""

STOP_S = 2.0
"""How long relays may take to write their ends when everything stops."""

STOP_ELSEWHERE_S = 3.0
"""How long another process may take to end a stream, until it is left to the log."""

PSEUDONYM = r"seseragi-[0-9a-f]{8}"
"""What a process calls itself in headers (RFC 9110, 7.6.3)."""

START_S = 3.0
"""How long a stream that was found by its key may take to begin, until that is left to the next
request: the process that was to begin it may be lost."""

TRIES = 3
"""How often a request takes over a key whose stream has failed or never began."""

ASK_AGAIN_S = 5.0
"""When the log is asked again who reads a stream elsewhere, if it could not tell."""


T = TypeVar("T")

log = structlog.get_logger("seseragi.hub")


class HubLimits(msgspec.Struct, frozen=True):
    """How much this process takes on."""

    max_streams: int = 2000
    max_readers: int = 200
    """Readers of one stream at once."""


class Origin(msgspec.Struct, frozen=True):
    """Where a request has come from."""

    address: str = LOCAL
    """Whose share it takes."""
    via: str = ""
    """What it has passed, as that header says it."""
    relays: tuple[str, ...] = ()
    """The relays among that."""


class StartOptions(msgspec.Struct, frozen=True):
    """How a stream is started, beside what is asked."""

    linger_s: float | None
    """Once its last reader has left it is cancelled after so long; None lets it run."""
    labels: Mapping[str, str] | None = None
    """What its `stream.start` is to say."""
    name: str | None = None
    """What it is found by."""
    names_of: Sequence[Callable[[str], str]] = ()
    """The same, where it is made of the stream's id."""
    request: bytes = b""
    """What it keeps of the request."""
    origin: Origin = Origin()
    memory: RequestMemory | None = None
    """What is taken for the request; the stream that it starts keeps and releases it."""


class _Run:
    """A stream that is being produced here, and who reads it."""

    __slots__ = ("address", "linger_s", "relay", "task", "timer")

    def __init__(self, relay: Relay, *, linger_s: float | None, address: str) -> None:
        self.relay = relay
        self.address = address
        self.linger_s = linger_s
        self.timer: asyncio.TimerHandle | None = None
        self.task = asyncio.create_task(relay.run(), name=f"relay {relay.stream}")


class Reader:
    """One reader of one stream; it counts as one until `leave`."""

    __slots__ = ("_log", "_on_leave", "drain", "found", "stream")

    def __init__(
        self,
        stream: str,
        event_log: EventLog,
        on_leave: Callable[[str, float | None], None],
        *,
        drain: Callable[[float], Awaitable[None]],
        found: LogState,
    ) -> None:
        self.stream = stream
        self.drain = drain
        """`Hub.drain_once`, for a server that tells of its stop only those that it serves."""
        self.found = found
        """How far the stream was when it was looked up for this reader."""
        self._log = event_log
        self._on_leave: Callable[[str, float | None], None] | None = on_leave

    async def read(self, after: int, *, timeout_s: float) -> Sequence[Event]:
        """Return events after the cursor; see `EventLog.read`."""
        return await self._log.read(self.stream, after, timeout_s=timeout_s, limit=BATCH)

    def follow(self, after: int, follower: Follower) -> bool:
        """Have a reader that has caught up told of what is appended; see `EventLog.follow`."""
        return self._log.follow(self.stream, after, follower)

    def unfollow(self, follower: Follower) -> None:
        """Tell it no more. Unknown followers are ignored."""
        self._log.unfollow(self.stream, follower)

    async def read_all(self, *, ending: bool = True) -> Sequence[Event]:
        """Return all events so far, on request without an `Ending`."""
        return await read_all(self._log, self.stream, ending=ending)

    def leave(self, *, linger_s: float | None = None) -> None:
        """Say that nobody reads here any more; only the first call counts.

        `linger_s` is how long the stream goes on if this was its last reader, in place of
        what it was started with. A stream that is to run to its end does so all the same.
        """
        on_leave, self._on_leave = self._on_leave, None
        if on_leave is not None:
            on_leave(self.stream, linger_s)


class Opened(NamedTuple):
    """A stream that a request has started, or found."""

    reader: Reader
    outcome: "asyncio.Future[RelayError | None] | None"
    """`Relay.committed`, or the like of a stream that runs elsewhere; None for one that has
    ended, and where it was not asked for."""


class OwnedStream:
    """One stream of whoever asks; `state` is how far it was when it was looked up."""

    __slots__ = ("_hub", "_log", "id", "state")

    def __init__(self, hub: "Hub", stream: str, state: LogState) -> None:
        self.id = stream
        self.state = state
        self._hub = hub
        self._log = hub._log

    def attach(self, address: str) -> Opened:
        """Add a reader to the stream, which keeps a running one alive.

        Raises:
            ServiceError: `overloaded`, the stream has too many readers; `rate_limited`, its
                client reads too many streams.
        """
        return self._hub._attach(self.id, self.state, address)

    async def look(self) -> LogState:
        """Return how far it is now."""
        return await self._log.state(self.id)

    async def events(self) -> Sequence[Event]:
        """Return all events so far, without waiting.

        Raises:
            RequestError: `stream_expired`.
        """
        return await read_all(self._log, self.id)

    async def read_start(self) -> Sequence[Event]:
        """Return the first event, if there is one yet."""
        return await self._log.read(self.id, 0, timeout_s=0, limit=1)

    async def record(self) -> StreamRecord:
        """Return what it was started with.

        Raises:
            RequestError: `stream_expired`.
        """
        return await self._log.record(self.id)

    async def cancel(self) -> None:
        """Stop the generation; one that has ended stays as it is.

        Returns when the `stream.end` is in the log, or when a process that is to write it
        takes too long: it may be lost, and the log ends the stream soon.
        """
        if await self._hub._stop_here(self.id) or self.state.ended:
            return
        await self._log.ask_stop(self.id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_ELSEWHERE_S):
                await self._await_end()

    async def _await_end(self) -> None:
        state = await self.look()
        while not state.ended:
            await self._log.read(self.id, state.last, timeout_s=0.5)
            state = await self.look()

    async def delete(self) -> None:
        """Stop the generation and forget what it said."""
        await self.cancel()
        await self._log.delete(self.id)


class OwnedStreams:
    """The streams of one owner: what starts, finds, reads and ends any goes through here.

    Those of others are answered as if there never were any. A request of this id asks.
    """

    def __init__(self, hub: "Hub", owner: str, *, request_id: str) -> None:
        self._hub = hub
        self._log = hub._log
        self._owner = owner
        self._request_id = request_id

    async def get(self, stream: str) -> OwnedStream:
        """Look a stream up.

        Raises:
            RequestError: `not_found` or `stream_expired`.
        """
        try:
            state = await self._log.state(stream)
        except StreamExpired as error:
            if error.owner == self._owner:
                raise
            raise unknown(stream) from None
        if state.owner != self._owner:
            raise unknown(stream)
        return OwnedStream(self._hub, stream, state)

    async def find(self, name: str) -> OwnedStream | None:
        """Look up the stream that was started last under a name; None where none is kept."""
        stream = await self._log.find(scoped(self._owner, name))
        if stream is None:
            return None
        try:
            return await self.get(stream)
        except RequestError:  # it has gone just now
            return None

    async def admit(self, address: str, *, key: str | None, relays: Sequence[str]) -> None:
        """Refuse a request, before its body is read, that can start nothing here and now.

        One whose `key` has started a stream is let in: it will be given that.

        Raises:
            RequestError: `invalid_request`, this relay has sent it itself.
            ServiceError: `overloaded`, too many streams or about to stop; `rate_limited`,
                the client has its share.
        """
        try:
            if self._hub._pseudonym in relays:
                raise RequestError(
                    "invalid_request",
                    "the request has come back to the relay that sent it: an upstream of it is the "
                    "relay itself, or leads there; check the base URLs",
                )
            try:
                self._hub._check_running()
                self._hub.admission.check_streams(address)
                self._hub.admission.count_start(address)
            except ServiceError:
                if key is None or await self._claimed(key) is None:
                    raise
        except RelayError as error:
            self._refuse(error)
            raise

    async def start(
        self, request: ChatRequest, terms: StartOptions, *, key: str | None = None, digest: str = ""
    ) -> Opened:
        """Start a generation; the caller is its first reader.

        A `key` that has started one already, for a request of the same `digest`, is given
        that stream instead, once it has begun, so that the upstream may have been called for
        it. Another request with the key leaves that stream as it is.

        Raises:
            RequestError: `model_not_found`, `idempotency_mismatch`.
            ServiceError: `overloaded`, too many streams or about to stop; `rate_limited`,
                the client has its share.
        """
        try:
            return await self._start(request, terms, key=key, digest=digest)
        except RelayError as error:
            self._refuse(error, request.model)
            raise

    async def _start(
        self, request: ChatRequest, terms: StartOptions, *, key: str | None, digest: str
    ) -> Opened:
        hub = self._hub
        stream, address = f"st_{secrets.token_urlsafe(16)}", terms.origin.address
        try:
            hub._check_running()
            route = hub.upstreams.resolve(request.model)
            hub.admission.enter(address)
        except RelayError:
            claim = None if key is None else await self._claimed(key)
            if claim is None or await self._may_try_again(claim.stream):
                raise
            _check_digest(claim, key, digest)
        else:
            record = self._record(stream, terms, route=route.name, key=key, digest=digest)
            claim = None
            try:
                claim = await self._claim(record)
            finally:
                if claim is None or claim.stream != stream:
                    hub.admission.leave(address)
            if claim.stream == stream:
                return await hub._run(record, request, terms, route=route)
        found = await self.get(claim.stream)
        opened = found.attach(address)
        if opened.outcome is None and not found.state.ended:
            return opened._replace(outcome=hub._spawn(self._outcome(claim.stream)))
        return opened

    async def _outcome(self, stream: str) -> RelayError | None:
        """Return what `Relay.committed` does, of a stream that runs elsewhere."""
        after = 0
        while True:
            try:
                events = await self._log.read(stream, after, timeout_s=1)
            except RelayError as error:
                return error
            for event in events:
                if isinstance(event, StreamTarget):
                    return None
                if isinstance(event, StreamEnd):
                    return outcome_of(event)
            after = cursor_after(after, events)

    async def _claim(self, record: StreamRecord) -> Claim:
        """Open a stream, unless the key leads to one already, and that to an answer."""
        claim = await self._log.create(record)
        for _ in range(TRIES):
            _check_digest(claim, record.key, record.digest)
            if claim.stream == record.id or not await self._may_try_again(claim.stream):
                return claim
            claim = await self._log.create(record, over=claim.stream)
        _check_digest(claim, record.key, record.digest)
        return claim

    async def _may_try_again(self, stream: str) -> bool:
        """Return whether the key of a stream is free again.

        It is if the stream is gone, or if the relay that ran it has seen it fail before
        anything visible, of what may have passed. A stream that was interrupted may have been
        paid for.

        Raises:
            ServiceError: `overloaded`, the stream has not begun; nobody can tell yet whether
                it will.
        """
        try:
            first = await self._read_start(stream)
        except RequestError:
            return True
        end = first[-1]
        if not isinstance(end, StreamEnd) or end.status != "failed":
            return False
        began = any(isinstance(event, StreamTarget) for event in first)
        return not began and bool(end.error and end.error.retryable)

    async def _read_start(self, stream: str) -> Sequence[Event]:
        """Return the first events of a stream, as soon as there is one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_S
        while (left_s := deadline - loop.time()) > 0:
            if first := await self._log.read(stream, 0, timeout_s=left_s, limit=BATCH):
                return first
        raise ServiceError(
            "overloaded",
            "the stream that this Idempotency-Key has asked for has not begun, and the relay that "
            "was to begin it may be lost; try again with the same key",
            retry_after_s=2,
        )

    async def _claimed(self, key: str) -> Claim | None:
        return await self._log.claimed(scoped(self._owner, key))

    def _record(
        self, stream: str, terms: StartOptions, *, route: str, key: str | None, digest: str
    ) -> StreamRecord:
        names = [make(stream) for make in terms.names_of]
        return StreamRecord(
            stream,
            self._owner,
            self._request_id,
            route,
            key=key,
            digest=digest,
            names=tuple(names if terms.name is None else [*names, terms.name]),
            labels=dict(terms.labels) if terms.labels else None,
            created_at=time.time(),
            request=terms.request,
        )

    def _refuse(self, error: RelayError, model: str | None = None) -> None:
        """Tell the observers of a request that is refused."""
        self._hub._observer.refused(Refused(self._owner, self._request_id, model, error))


class Hub:
    """Starts relays, counts their readers, and ends what nobody waits for."""

    def __init__(
        self,
        *,
        upstreams: Upstreams,
        client: Client,
        event_log: EventLog,
        limits: Limits,
        capacity: HubLimits,
        shares: Shares,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.upstreams = upstreams
        self.admission = Admission(shares, max_streams=capacity.max_streams, clock=time.monotonic)
        self.draining = False
        self._log = event_log
        self._client = client
        self._limits = limits
        self._capacity = capacity
        self._observer = Observers(observers)
        self._runs: dict[str, _Run] = {}
        self._untold: dict[str, Relay] = {}
        """Those that are over, and whose end the log does not have in its place yet."""
        self._readers: dict[str, int] = {}
        self._asked = 0
        """What is done that makes no stream."""
        self.stopping = asyncio.Event()
        """Set once nothing is waited for any more."""
        self._drained = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pseudonym = f"seseragi-{secrets.token_hex(4)}"
        """The name of this process in headers."""

    def _spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _check_running(self) -> None:
        if self.draining:
            raise _shutting_down()

    async def _run(
        self, record: StreamRecord, request: ChatRequest, terms: StartOptions, *, route: Route
    ) -> Opened:
        """Run a stream that has been opened and counted."""
        stream, origin, keyed = record.id, terms.origin, record.key is not None
        try:
            for name in record.names:
                await self._log.name(scoped(record.owner, name), stream)
            if self.stopping.is_set():
                raise _shutting_down()
        except BaseException:
            self.admission.leave(origin.address)
            await self._drop(stream)
            raise
        relay = Relay(
            record,
            request,
            route=route,
            upstreams=self.upstreams,
            client=self._client,
            event_log=self._log,
            limits=self._limits,
            observer=self._observer,
            headers=self._headers(origin),
            memory=terms.memory,
        )
        run = _Run(relay, linger_s=terms.linger_s, address=origin.address)
        self._runs[stream] = run
        run.task.add_done_callback(lambda _: self._ended(stream))
        state = LogState(0, ended=False, owner=record.owner)
        opened = self._opened(stream, state, origin.address)
        if keyed:
            try:
                await self._await_start(run)
            except BaseException:
                opened.reader.leave()
                raise
        return opened

    def _headers(self, origin: Origin) -> dict[str, str]:
        """Return the headers by which a call can be known that comes back."""
        return {
            "via": f"{origin.via}, 1.1 {self._pseudonym}".removeprefix(", "),
            "cdn-loop": ", ".join((*origin.relays, self._pseudonym)),
        }

    async def ask(self, work: Callable[[Asking], Coroutine[Any, Any, T]], *, origin: Origin) -> T:
        """Do what makes no stream; while it lasts it counts as one.

        Raises:
            ServiceError: `overloaded`, there are too many streams, or the relay stops;
                `rate_limited`, the client has its share.
            RelayError: what the work raises.
        """
        self._check_running()
        self.admission.enter(origin.address)
        self._asked += 1
        headers = self._headers(origin)
        asking = Asking(self.upstreams, self._client, limits=self._limits, headers=headers)
        working = asyncio.ensure_future(work(asking))
        stopped = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise _shutting_down()
            return working.result()
        finally:
            working.cancel()
            stopped.cancel()
            self.admission.leave(origin.address)
            self._asked -= 1
            self._check_drained()

    async def _await_start(self, run: _Run) -> None:
        """Wait until a stream is sure to be found again by its key.

        Raises:
            ServiceError: the log has not taken its first event. Nobody has been called for it,
                and the key is free.
        """
        await asyncio.wait({run.relay.begun})
        if (error := run.relay.begun.result()) is not None:
            raise error

    async def _drop(self, stream: str) -> None:
        """Remove a stream that has not begun and will not, as far as the log can be reached."""
        with contextlib.suppress(RelayError):
            await self._log.delete(stream)

    def streams_of(self, principal: Principal, *, request_id: str = "") -> OwnedStreams:
        """Return the streams of whoever asks, by a request of this id."""
        return OwnedStreams(self, principal.owner, request_id=request_id)

    @property
    def readiness(self) -> Literal["ready", "draining", "log failing"]:
        """Whether new streams can be taken, and if not, why."""
        if self.draining:
            return "draining"
        return "ready" if self._log.healthy() else "log failing"

    def health(self) -> list[Health]:
        """Return how the targets fare."""
        return self.upstreams.health(now=asyncio.get_running_loop().time())

    async def _stop_here(self, stream: str) -> bool:
        """Stop a generation of this process and wait for its end; False if it runs elsewhere."""
        run = self._runs.get(stream)
        if run is None:
            return False
        run.relay.stop("cancelled")
        await asyncio.wait({run.task})
        return True

    async def models(self) -> list[Listed]:
        """List the models that clients may name, the default first."""
        return await self.upstreams.models(self._client)

    async def drain(self, drain_s: float) -> None:
        """Take no new streams, let the running ones end, stop those that have not in time."""
        self.draining = True
        log.info("draining", streams=len(self._runs), drain_s=drain_s)
        if self._runs or self._asked:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(drain_s):
                    await self._drained.wait()
        await self._stop_all()

    async def drain_once(self, drain_s: float) -> None:
        """Do what `drain` does, unless that is being done."""
        if not self.draining:
            await self.drain(drain_s)

    def stop_now(self) -> None:
        """Cut a running `drain` short."""
        self._drained.set()

    async def open(self) -> None:
        """Make the log ready.

        Raises:
            LogUnusable: the place of the log cannot be used.
        """
        self._log.on_ended(self._on_ended)
        await self._log.open()
        self._log.on_stop(self._stop)

    async def close(self) -> None:
        """Stop everything, close the HTTP client and the log."""
        self.draining = True
        await self._stop_all()
        for task in self._tasks:
            task.cancel()
        await self._client.aclose()
        await self._log.close()

    async def _stop_all(self) -> None:
        self.stopping.set()
        runs = list(self._runs.values())
        for run in runs:
            run.relay.stop("interrupted", shut_down())
        if runs:
            await asyncio.wait([run.task for run in runs], timeout=STOP_S)
        self._log.release_remote_readers()

    def _attach(self, stream: str, state: LogState, address: str) -> Opened:
        self.admission.check_readers(address)
        readers = self._readers.get(stream, 0)
        if readers >= self._capacity.max_readers:
            raise ServiceError(
                "overloaded",
                f"the stream has {readers} readers, which is the limit",
                retry_after_s=5,
            )
        return self._opened(stream, state, address)

    def _opened(self, stream: str, state: LogState, address: str) -> Opened:
        before = self._readers.get(stream, 0)
        self._readers[stream] = before + 1
        self.admission.add_reader(address)
        self._observer.reader_joined(Readers(stream, state.owner, before + 1))
        leave = partial(self._detach, address, state.owner)
        reader = Reader(stream, self._log, leave, drain=self.drain_once, found=state)
        run = self._runs.get(stream)
        if run is None:
            if not before:
                self._log.readers_here(stream)
            return Opened(reader, None)
        if run.timer is not None:
            run.timer.cancel()
            run.timer = None
        return Opened(reader, run.relay.committed)

    def _detach(self, address: str, owner: str, stream: str, linger_s: float | None) -> None:
        self.admission.remove_reader(address)
        self._readers[stream] -= 1
        self._observer.reader_left(Readers(stream, owner, self._readers[stream]))
        if self._readers[stream]:
            return
        del self._readers[stream]
        self._log.readers_gone(stream)
        run = self._runs.get(stream)
        if run is not None and run.linger_s is not None:
            self._linger(run, run.linger_s if linger_s is None else linger_s)

    def _linger(self, run: _Run, linger_s: float, *, wait_s: float | None = None) -> None:
        """Look after a time whether anybody reads the stream, unless somebody comes here."""
        loop = asyncio.get_running_loop()
        run.timer = loop.call_later(
            linger_s if wait_s is None else wait_s,
            lambda: self._spawn(self._stop_unattended(run, linger_s)),
        )

    async def _stop_unattended(self, run: _Run, linger_s: float) -> None:
        """Cancel a stream that nobody has read for its time, in other processes either."""
        stream = run.relay.stream
        try:
            left_s = linger_s + await self._log.reader_lease_s(stream)
        except RelayError:
            left_s = min(linger_s, ASK_AGAIN_S)
        if stream in self._readers:
            return
        if left_s <= 0:
            run.relay.stop("cancelled")
        elif stream in self._runs:
            self._linger(run, linger_s, wait_s=left_s)

    def _stop(self, stream: str) -> None:
        """Stop what somebody else has asked to stop, or has ended."""
        self._untold.pop(stream, None)
        if (run := self._runs.get(stream)) is not None:
            run.relay.stop("cancelled")

    def _on_ended(self, stream: str, lost: LostStream | None) -> None:
        """Report of a stream whose end the log has in its place now."""
        if lost is not None:
            self._observer.ended(Ended.of_lost(lost))
        elif (run := self._runs.get(stream)) is not None:
            run.relay.keep()
        elif (relay := self._untold.pop(stream, None)) is not None:
            relay.keep()

    def _ended(self, stream: str) -> None:
        run = self._runs.pop(stream)
        if run.relay.untold:
            self._untold[stream] = run.relay
        self.admission.leave(run.address)
        if run.timer is not None:
            run.timer.cancel()
        self._check_drained()

    def _check_drained(self) -> None:
        if self.draining and not (self._runs or self._asked):
            self._drained.set()


def _check_digest(claim: Claim, key: str | None, digest: str) -> None:
    """Refuse a key that another request has used."""
    if claim.digest != digest:
        raise RequestError(
            "idempotency_mismatch",
            f"the Idempotency-Key {key!r} was used with another request; take a new key",
        )


def _shutting_down() -> ServiceError:
    return ServiceError("overloaded", "the relay is shutting down; try again", retry_after_s=2)
