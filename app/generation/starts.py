"""The start of a stream: its route, its reservation, its creation in the log."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from ..errors import RelayError, shutting_down
from ..eventlog import Claim
from ..eventlog.contract import ChatBusy
from ..eventlog.stream_info import scoped
from ..events import Notice
from ..hooks.contract import Hooks
from ..hooks.text_walk import check_request
from ..identity.principal import Principal
from ..ledger.usage import most_spent
from ..requests import ChatRequest
from ..upstreams.routes import Route, Spent
from .cassette_recorder import CassetteChoice, CassetteRecorder
from .idempotency import await_outcome, check_digest, claim_key, may_try_again
from .parts import Parts
from .runs import Opened, Runs
from .shutdown import Shutdown
from .start_options import StartOptions
from .takeover import pack_request
from .via import RequestSource, came_back

Outcome = Coroutine[Any, Any, RelayError | None]


class Starts:
    """Starts streams for principals."""

    def __init__(
        self,
        parts: Parts,
        runs: Runs,
        shutdown: Shutdown,
        *,
        spawn: Callable[[Outcome], "asyncio.Task[RelayError | None]"],
        cassette_recorder: CassetteRecorder | None,
    ) -> None:
        self._parts = parts
        self._upstreams = parts.upstreams
        self._log = parts.event_log
        self._admission = parts.admission
        self._via_name = parts.via_name
        self._runs = runs
        self._shutdown = shutdown
        self._spawn = spawn
        self._cassette_recorder = cassette_recorder

    def admit(self, origin: RequestSource) -> None:
        """Refuse a request that cannot start a stream here now; count it otherwise.

        Raises:
            RequestError: `invalid_request`, this relay has sent it itself.
            ServiceError: `overloaded`, too many streams or shutting down; `rate_limited`, the
                client has reached a limit.
        """
        if self._via_name.name in origin.relays:
            raise came_back()
        if self._shutdown.draining:
            raise shutting_down()
        self._admission.check_streams(origin.address)
        self._admission.count_start(origin.address)

    async def claimed(self, owner: str, key: str) -> Claim | None:
        """Look up the stream that a key has started, if any."""
        return await self._log.claimed(scoped(owner, key))

    async def start(
        self,
        principal: Principal,
        request: ChatRequest,
        options: StartOptions,
        *,
        owner: str,
        request_id: str,
        key: str | None,
        digest: str,
        stop: Callable[[str], Awaitable[None]],
    ) -> Opened | Claim:
        """Start a generation, or find the one that its key has started; return a reader.

        `owner` is the principal's; `stop` stops a stream that this one replaces.

        Raises:
            ChatBusy: another stream of the chat runs and is not to be replaced, or does not end.
            RequestError: `model_not_found`, `idempotency_mismatch`; `forbidden`, the credential may
                not use the model.
            ServiceError: `overloaded`, too many streams or shutting down; `rate_limited`, the
                client has reached a limit.
        """
        stream, address = f"st_{secrets.token_urlsafe(16)}", options.origin.address
        try:
            if self._shutdown.draining:
                raise shutting_down()
            choice = await self._choose(principal, request)
            route = choice.route
            if route.spent is not None:
                route = await self._spend_less(principal, route, route.spent)
            if route.changes is not None:
                request = route.changes.prepare(request)
            if self._parts.hooks is not None:
                route, request, options = await self._check(
                    self._parts.hooks, route, request, options, stream
                )
            reserve = self._parts.reservations.request(principal, route, request)
            self._admission.enter(address)
        except RelayError:
            earlier = None if key is None else await self.claimed(owner, key)
            if earlier is None or await may_try_again(self._log, earlier.stream):
                raise
            check_digest(earlier, key, digest)
            return earlier
        names = [make(stream) for make in options.names_of]
        info = self._parts.reservations.stream_info(
            principal,
            stream,
            owner=owner,
            request_id=request_id,
            route=route.name,
            reserve=reserve,
            model=request.model,
            client_format=options.client_format,
            key=key,
            digest=digest,
            names=tuple(names if options.name is None else [*names, options.name]),
            labels=dict(options.labels) if options.labels else None,
            metadata=dict(options.metadata) if owner and options.metadata else None,
            alone=request.overlap in ("refuse", "replace"),
            request=options.request,
            takeover=pack_request(request, options) if route.takeover else b"",
            request_digest=choice.digest,
        )
        claim, stopped = None, ""
        try:
            while claim is None:
                create = self._log.create(info) if key is None else claim_key(self._log, info)
                try:
                    claim = await create
                except ChatBusy as busy:
                    if request.overlap != "replace" or busy.stream == stopped:
                        raise
                    stopped = busy.stream
                    await stop(stopped)
        finally:
            if claim is None or claim.stream != stream:
                self._admission.leave(address)
        if claim.stream != stream:
            return claim
        if claim.grant is not None and claim.grant.output_tokens != reserve.output_tokens:
            granted = msgspec.structs.replace(reserve, output_tokens=claim.grant.output_tokens)
            info = msgspec.structs.replace(info, reserve=granted)
        clamped = self._parts.reservations.clamp(request, reserve, claim.grant)
        opened = await self._runs.begin(info, clamped, options, route=route)
        if choice.records and self._cassette_recorder is not None:
            self._cassette_recorder.record(self._log, info, choice, request)
        return msgspec.structs.replace(opened, grant=claim.grant, cassette=choice.cassette)

    def outcome_elsewhere(self, stream: str) -> "asyncio.Future[RelayError | None]":
        """Return the equivalent of `Run.outcome` for a stream of another process."""
        outcome: asyncio.Future[RelayError | None] = asyncio.Future()

        def tell(found: "asyncio.Task[RelayError | None]") -> None:
            if not (outcome.done() or found.cancelled()):
                outcome.set_result(found.result())

        self._spawn(await_outcome(self._log, stream)).add_done_callback(tell)
        return outcome

    async def _spend_less(self, principal: Principal, route: Route, spent: Spent) -> Route:
        """Return the route with its other target, once a budget's share has been spent."""
        parts = self._parts
        accounts = [
            account
            for account in parts.reservations.accounts_of(principal)
            if account.has_limit("nano_usd")
        ]
        if not accounts:
            return route
        states = await parts.accounts.read_accounts([account.name for account in accounts])
        share = most_spent(accounts, states, parts.clock.wall())
        if share is None or share.used < spent.share:
            return route
        # Not how much of it: it may be the budget of others too.
        what = f"{spent.share:.0%} of the {share.kind}'s {share.limit} is spent"
        notice = Notice("budget", f"{what}; {spent.target.name!r} answers")
        route = self._upstreams.with_targets(route, (spent.target,))
        return msgspec.structs.replace(route, hedge=None, rescue=False, notices=(notice,))

    async def _check(
        self, hooks: Hooks, route: Route, request: ChatRequest, options: StartOptions, stream: str
    ) -> tuple[Route, ChatRequest, StartOptions]:
        """Return a request that hooks have checked, what is stored of it, and its route."""
        own = hooks.of(route.name, "request")
        if not own:
            return route, request, options
        kept = options.labels, options.metadata, options.request.decode()
        (request, labels, metadata, stored), notes = await check_request(
            own, request, *kept, route=route.name, stream=stream
        )
        options = msgspec.structs.replace(
            options, labels=labels, metadata=metadata, request=stored.encode()
        )
        notices = (*route.notices, *(Notice("hook", note) for note in notes))
        return msgspec.structs.replace(route, notices=notices), request, options

    async def _choose(self, principal: Principal, request: ChatRequest) -> CassetteChoice:
        """Return the route that answers a request, or the cassette that replaces it."""
        route = self._upstreams.resolve_for(principal, request.model)
        if self._cassette_recorder is None:
            return CassetteChoice(route)
        return await self._cassette_recorder.choose(
            route, self._upstreams.public_name(route), request
        )
