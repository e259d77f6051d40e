"""Calls without a stream, such as embeddings, from admission to end.

In the log such a call is a hidden stream: its id is never sent, and its owner is not a principal.
So its cost is reserved and settled in the same steps, and the same recovery ends it if its process
is lost.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from ..errors import RelayError, ServiceError, shutting_down
from ..eventlog.stream_info import HIDDEN, StreamInfo
from ..hooks.contract import Hook
from ..identity.principal import Principal, check_may
from ..ledger.accounts import ReservationRequest
from ..upstreams.routes import Route
from .parts import Parts
from .shutdown import STOP_S, Shutdown
from .via import RequestSource

Spawn = Callable[[Coroutine[Any, Any, None]], object]

T = TypeVar("T")


class CallContext(msgspec.Struct, frozen=True, kw_only=True):
    """The caller of a call without a stream, and the parts of the relay that make the call."""

    principal: Principal
    request_id: str
    kind: str
    """The value in the records instead of a client format."""
    headers: Mapping[str, str]
    """Additional headers of calls to upstreams."""
    parts: Parts
    """As at the begin of the call: a reload replaces some of them."""
    streams: set[str]
    """The hidden streams of the running calls of this process."""
    spawn: Spawn

    def hooks_of(self, route: Route) -> Sequence[Hook]:
        """Return the hooks on requests of a route."""
        hooks = self.parts.hooks
        return () if hooks is None else hooks.of(route.name, "request")

    async def create(self, route: str, reserve: ReservationRequest, *, model: str) -> StreamInfo:
        """Make a reservation by a hidden stream; return its info.

        With a key, its own id, the log can detect a stream that never began.

        Raises:
            LimitReached: a usage limit would be exceeded.
            ServiceError: `overloaded`, the log failed.
        """
        stream = f"st_{secrets.token_urlsafe(16)}"
        info = self.parts.reservations.stream_info(
            self.principal,
            stream,
            owner=HIDDEN,
            request_id=self.request_id,
            route=route,
            reserve=reserve,
            model=model,
            client_format=self.kind,
            key=stream,
        )
        try:
            await self.parts.event_log.create(info)
        except asyncio.CancelledError:
            self.spawn(self.delete(stream))
            raise
        except ServiceError as error:
            raise unavailable(error) from None
        self.streams.add(stream)
        return info

    async def delete(self, stream: str) -> None:
        """Delete a hidden stream."""
        self.streams.discard(stream)
        with contextlib.suppress(RelayError):
            await self.parts.event_log.delete(stream)

    @contextlib.asynccontextmanager
    async def counted(self) -> AsyncIterator[None]:
        """Count a free call as a request and a running stream, if those are limited.

        Raises:
            LimitReached: there are too many.
            ServiceError: `overloaded`, the log failed.
        """
        accounts = tuple(
            account.only("requests", "streams")
            for account in self.parts.reservations.accounts_of(self.principal)
        )
        if not any(account.has_limit() for account in accounts):
            yield
            return
        reserve = ReservationRequest(accounts, self.parts.clock.wall(), least_output_tokens=0)
        info = await self.create("", reserve, model="")
        try:
            yield
        finally:
            await self.delete(info.id)


def unavailable(error: RelayError) -> RelayError:
    """Return the error of a call that the log cannot count."""
    if error.code != "internal":
        return error
    return ServiceError(
        "overloaded",
        "the event log failed, so the call cannot be counted; try again",
        retry_after_s=1,
    )


class Calls:
    """Makes calls without a stream; a running call counts as a stream."""

    def __init__(self, parts: Parts, shutdown: Shutdown, *, spawn: Spawn) -> None:
        self._parts = parts
        self._shutdown = shutdown
        self._spawn = spawn
        self.streams: set[str] = set()
        """The hidden streams of running calls."""
        self.count = 0
        """The number of running calls."""

    async def ask(
        self,
        work: Callable[[CallContext], Coroutine[Any, Any, T]],
        principal: Principal,
        *,
        origin: RequestSource,
        kind: str,
        request_id: str = "",
    ) -> T:
        """Make a call for a principal; `kind` stands for the client format in the records.

        Raises:
            RequestError: `forbidden`, the credential is a stream token.
            ServiceError: `overloaded`, there are too many streams, or the relay is shutting
                down; `rate_limited`, the client has reached a limit.
            RelayError: an exception of `work`.
        """
        check_may(principal)
        if self._shutdown.draining:
            raise shutting_down()
        parts = self._parts
        parts.admission.enter(origin.address)
        self.count += 1
        context = CallContext(
            principal=principal,
            request_id=request_id,
            kind=kind,
            headers=parts.via_name.headers(origin),
            parts=msgspec.structs.replace(parts),
            streams=self.streams,
            spawn=self._spawn,
        )
        working = asyncio.ensure_future(work(context))
        wait = asyncio.Event()
        working.add_done_callback(partial(self._ended, origin.address, wait))
        self._shutdown.waits.add(wait)
        try:
            await wait.wait()
            if not working.done():
                raise shutting_down()
            return working.result()
        finally:
            self._shutdown.waits.discard(wait)
            if not working.done():  # its cost is settled before its end counts
                working.cancel()
                await asyncio.wait({working}, timeout=STOP_S)

    def _ended(self, address: str, wait: asyncio.Event, _: "asyncio.Task[Any]") -> None:
        wait.set()
        self._parts.admission.leave(address)
        self.count -= 1
        self._shutdown.check_drained()
