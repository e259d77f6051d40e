"""All running relays of this process: start, read, cancel, drain.

Which streams run here is known here only; what they said is in the log.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import structlog

from ..admission import LOCAL, Admission, RequestMemory, Shares
from ..deadlines import Limits
from ..errors import RelayError, RequestError, ServiceError, shutting_down
from ..eventlog import (
    Claim,
    EventLog,
    LogState,
    Look,
    StreamExpired,
    read_all,
)
from ..eventlog.entries import unknown
from ..eventlog.lost import LostStream
from ..eventlog.record import StreamRecord, scoped
from ..events import Event
from ..identity.principal import Principal
from ..requests import ChatRequest
from ..telemetry.observer import Ended, Observer, Observers, Refused
from ..upstreams.client import Client
from ..upstreams.routes import Health, Listed, Route, Upstreams
from .claims import await_outcome, check_digest, claim_key, may_try_again
from .readers import BATCH, Attendance, Reader
from .relay import Relay, shut_down
from .single_call import Asking

STOP_S = 2.0
"""How long relays may take to write their ends when everything stops."""

STOP_ELSEWHERE_S = 3.0
"""How long another process may take to end a stream, until it is left to the log."""

PSEUDONYM = r"seseragi-[0-9a-f]{8}"
"""What a process calls itself in headers (RFC 9110, 7.6.3)."""

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
    """Seconds after which it is cancelled once its last reader has left; None lets it run."""
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
    """A stream that is being produced here."""

    __slots__ = ("address", "relay", "task")

    def __init__(self, relay: Relay, *, address: str) -> None:
        self.relay = relay
        self.address = address
        self.task = asyncio.create_task(relay.run(), name=f"relay {relay.stream}")


class Opened(NamedTuple):
    """A stream that a request has started, or found."""

    reader: Reader
    outcome: "asyncio.Future[RelayError | None] | None"
    """`Relay.committed`, or the like of a stream that runs elsewhere; None for one that has
    ended, and where it was not asked for."""


class OwnedStream:
    """One stream of whoever asks; `state` is how far it was when it was looked up.

    `after` is the cursor with which that was done, and which its reader is expected to have.
    Each method raises a RequestError, `forbidden`, if a stream token does not allow it.
    """

    __slots__ = ("_after", "_found", "_hub", "_log", "_principal", "id", "state")

    def __init__(
        self, hub: "Hub", found: Look, principal: Principal, *, after: int | None = None
    ) -> None:
        self.id = found.stream
        self.state = found.state
        self._found: Look | None = found
        self._after = after or 0
        self._hub = hub
        self._log = hub._log
        self._principal = principal

    @property
    def readable(self) -> bool:
        """Whether who asks may be told what the stream says."""
        return self._principal.may != "stop"

    def attach(self, address: str) -> Opened:
        """Add a reader to the stream, which keeps a running one alive.

        Raises:
            ServiceError: `overloaded`, the stream has too many readers; `rate_limited`, its
                client reads too many streams.
        """
        _check_may(self._principal, "read")
        found = self._found or Look(self.id, self.state)
        return self._hub._attach(found, address, after=self._after)

    async def look(self) -> LogState:
        """Return how far it is now."""
        _check_may(self._principal, "read")
        return await self._log.state(self.id)

    async def events(self) -> Sequence[Event]:
        """Return all events so far, without waiting.

        Raises:
            RequestError: `stream_expired`.
        """
        _check_may(self._principal, "read")
        if self._found is None or self._after:
            return await read_all(self._log, self.id)
        first, last = self._found.events, self.state.last
        return await read_all(self._log, self.id, first=first, last=last)

    async def read_start(self) -> Sequence[Event]:
        """Return the first event, if there is one yet."""
        _check_may(self._principal, "read")
        if self._found is not None and self._found.events and not self._after:
            return self._found.events[:1]
        return await self._log.read(self.id, 0, timeout_s=0, limit=1)

    async def record(self) -> StreamRecord:
        """Return what it was started with.

        Raises:
            RequestError: `stream_expired`.
        """
        _check_may(self._principal)
        return await self._log.record(self.id)

    async def cancel(self) -> None:
        """Stop the generation; one that has ended stays as it is.

        Returns when the `stream.end` is in the log, or when a process that is to write it
        takes too long: it may be lost, and the log ends the stream soon.
        """
        _check_may(self._principal, "stop")
        self._found = None  # it is to be read anew
        if await self._hub._stop_here(self.id) or self.state.ended:
            return
        await self._log.ask_stop(self.id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_ELSEWHERE_S):
                await self._await_end()

    async def _await_end(self) -> None:
        state = await self._log.state(self.id)
        while not state.ended:
            await self._log.read(self.id, state.last, timeout_s=0.5)
            state = await self._log.state(self.id)

    async def delete(self) -> None:
        """Stop the generation and forget what it said."""
        _check_may(self._principal)
        await self.cancel()
        await self._log.delete(self.id)


class OwnedStreams:
    """The streams of one owner: what starts, finds, reads and ends any goes through here.

    Those of others are answered as if there never were any, and so are all but its own to a
    stream token. An admin reaches those of others by their ids (`get`), and by nothing else.
    `request_id` is that of the request that asks.
    """

    def __init__(self, hub: "Hub", principal: Principal, *, request_id: str) -> None:
        self._hub = hub
        self._log = hub._log
        self._principal = principal
        self._owner = principal.owner
        self._reaches_all = "admin" in principal.roles
        self._request_id = request_id

    async def get(self, stream: str, *, after: int | None = None) -> OwnedStream:
        """Look a stream up, with its first events after a cursor if it is to be read from there.

        Raises:
            RequestError: `not_found` or `stream_expired`.
        """
        if self._principal.stream not in (None, stream):
            raise unknown(stream)
        whose = None if self._reaches_all else self._owner
        try:
            found = await self._log.look(stream, after or 0, limit=_limit(after), owner=whose)
        except StreamExpired as error:
            if whose in (None, error.owner):
                raise
            raise unknown(stream) from None
        if whose not in (None, found.state.owner):
            raise unknown(stream)
        return OwnedStream(self._hub, found, self._principal, after=after)

    async def find(self, name: str, *, after: int | None = None) -> OwnedStream | None:
        """Look up the stream that was started last under a name; None where none is kept.

        Raises:
            RequestError: `forbidden`, a stream token asks.
        """
        _check_may(self._principal)
        named = scoped(self._owner, name)
        found = await self._log.find(named, after or 0, limit=_limit(after))
        if found is None or found.state.owner != self._owner:
            return None
        return OwnedStream(self._hub, found, self._principal, after=after)

    async def admit(self, address: str, *, key: str | None, relays: Sequence[str]) -> None:
        """Refuse a request, before its body is read, that can start nothing here and now.

        One whose `key` has started a stream is let in: it will be given that.

        Raises:
            RequestError: `invalid_request`, this relay has sent it itself; `forbidden`, a
                stream token asks.
            ServiceError: `overloaded`, too many streams or about to stop; `rate_limited`,
                the client has its share.
        """
        try:
            _check_may(self._principal)
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
            RequestError: `model_not_found`, `idempotency_mismatch`; `forbidden`, who asks may
                not use the model, or start anything.
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
        _check_may(self._principal)
        hub = self._hub
        stream, address = f"st_{secrets.token_urlsafe(16)}", terms.origin.address
        try:
            hub._check_running()
            route = hub.upstreams.resolve_for(self._principal, request.model)
            hub.admission.enter(address)
        except RelayError:
            claim = None if key is None else await self._claimed(key)
            if claim is None or await may_try_again(self._log, claim.stream):
                raise
            check_digest(claim, key, digest)
        else:
            record = self._record(stream, terms, route=route.name, key=key, digest=digest)
            claim = None
            try:
                claim = await claim_key(self._log, record)
            finally:
                if claim is None or claim.stream != stream:
                    hub.admission.leave(address)
            if claim.stream == stream:
                return await hub._run(record, request, terms, route=route)
        found = await self.get(claim.stream, after=0)
        opened = found.attach(address)
        if opened.outcome is None and not found.state.ended:
            return opened._replace(outcome=hub._spawn(await_outcome(self._log, claim.stream)))
        return opened

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
    """Starts relays, and stops those that somebody has stopped or that nobody reads."""

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
        self._observer = Observers(observers)
        self._runs: dict[str, _Run] = {}
        self._untold: dict[str, Relay] = {}
        """Those that are over, and whose end the log does not have in its place yet."""
        self._asked = 0
        """How many calls go on that make no stream."""
        self.stopping = asyncio.Event()
        """Set once nothing is waited for any more."""
        self._drained = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pseudonym = f"seseragi-{secrets.token_hex(4)}"
        """The name of this process in headers."""
        self._attendance = Attendance(
            event_log,
            self.admission,
            self._observer,
            max_readers=capacity.max_readers,
            drain=self.drain_once,
            spawn=self._spawn,
        )

    def _spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _check_running(self) -> None:
        if self.draining:
            raise shutting_down()

    async def _run(
        self, record: StreamRecord, request: ChatRequest, terms: StartOptions, *, route: Route
    ) -> Opened:
        """Run a stream that has been opened and counted."""
        stream, origin, keyed = record.id, terms.origin, record.key is not None
        try:
            for name in record.names:
                await self._log.name(scoped(record.owner, name), stream)
            if self.stopping.is_set():
                raise shutting_down()
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
        run = _Run(relay, address=origin.address)
        self._runs[stream] = run
        self._attendance.begin(
            stream, linger_s=terms.linger_s, stop=partial(relay.stop, "cancelled")
        )
        run.task.add_done_callback(lambda _: self._ended(stream))
        found = Look(stream, LogState(0, ended=False, owner=record.owner))
        opened = self._join(found, origin.address)
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

    async def ask(
        self,
        work: Callable[[Asking], Coroutine[Any, Any, T]],
        principal: Principal,
        *,
        origin: Origin,
    ) -> T:
        """Do a call that makes no stream, such as embeddings; while it lasts it counts as a stream.

        Raises:
            RequestError: `forbidden`, a stream token asks.
            ServiceError: `overloaded`, there are too many streams, or the relay stops;
                `rate_limited`, the client has its share.
            RelayError: what the work raises.
        """
        _check_may(principal)
        self._check_running()
        self.admission.enter(origin.address)
        self._asked += 1
        headers = self._headers(origin)
        asking = Asking(
            self.upstreams, self._client, principal, limits=self._limits, headers=headers
        )
        working = asyncio.ensure_future(work(asking))
        stopped = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise shutting_down()
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
        return OwnedStreams(self, principal, request_id=request_id)

    @property
    def readiness(self) -> Literal["ready", "draining", "log failing"]:
        """Whether new streams can be taken, and if not, why."""
        if self.draining:
            return "draining"
        return "ready" if self._log.healthy() else "log failing"

    def health(self, principal: Principal) -> list[Health]:
        """Return the health of every target.

        Raises:
            RequestError: `forbidden`, who asks may not use all of them, or is a stream token.
        """
        _check_may(principal)
        if principal.models is not None:
            raise RequestError(
                "forbidden", "how targets fare is told to credentials that may use every model"
            )
        return self.upstreams.health(now=asyncio.get_running_loop().time())

    async def _stop_here(self, stream: str) -> bool:
        """Stop a generation of this process and wait for its end; False if it runs elsewhere."""
        run = self._runs.get(stream)
        if run is None:
            return False
        run.relay.stop("cancelled")
        await asyncio.wait({run.task})
        return True

    async def models(self, principal: Principal) -> list[Listed]:
        """List the models that who asks may name, the default first.

        Raises:
            RequestError: `forbidden`, a stream token asks.
        """
        _check_may(principal)
        models = await self.upstreams.models(self._client)
        return [model for model in models if principal.may_use(model.name)]

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

    def _attach(self, found: Look, address: str, *, after: int) -> Opened:
        self._attendance.check(found.stream, address)
        return self._join(found, address, after=after)

    def _join(self, found: Look, address: str, *, after: int = 0) -> Opened:
        reader = self._attendance.join(found, address, after=after)
        run = self._runs.get(found.stream)
        return Opened(reader, None if run is None else run.relay.committed)

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
        self._attendance.end(stream)
        self._check_drained()

    def _check_drained(self) -> None:
        if self.draining and not (self._runs or self._asked):
            self._drained.set()


def _limit(after: int | None) -> int:
    """Return how many events a look is to give to who has this cursor, if to read from there."""
    return 0 if after is None else BATCH


def _check_may(principal: Principal, what: Literal["read", "stop"] | None = None) -> None:
    """Refuse what a stream token is not for: it may read or stop, and nothing else."""
    if principal.may not in ("all", what) or (what is None and principal.stream is not None):
        raise RequestError(
            "forbidden",
            f"the stream token may {principal.may} its stream and nothing else; send a key or a "
            "client secret",
        )
