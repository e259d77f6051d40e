"""Reservations: what a stream may use and cost, from the limits and prices of the settings.

They are made once when a stream or call begins; the log stores the numbers.
"""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

import msgspec

from ..dialects.writing.token_estimate import estimate_tokens, has_media, has_unsized
from ..errors import RequestError
from ..eventlog.stream_info import StreamInfo
from ..identity.principal import Principal
from ..ledger.accounts import Account, Grant, ReservationRequest
from ..ledger.config import UNLIMITED, LimitsConfig, UsageLimits, over, smaller
from ..ledger.prices import PriceBook
from ..ledger.rates import Ceiling
from ..requests import ChatRequest, OutputCeiling
from ..telemetry.observer import TRACEPARENT
from ..upstreams.routes import Route
from .token_usage import UNKNOWN_CONTEXT

MAX_MODEL: Final = 200
"""Recorded characters of the model name in a request."""

LEAST_OUTPUT: Final = 16
"""The minimum output tokens of a stream with a lowered limit; below, the request is refused."""

REMEMBERED: Final = 4096
"""The maximum number of principals whose accounts are cached: about 1 KiB each."""


class Reservations:
    """Makes the reservations of principals' streams and calls.

    A principal has several accounts; the last one is the caller's: the user's, or the client
    secret's, else the key's; the relay's if authentication is off. Limits of a principal's key,
    issuer or client secret can only lower those of the settings: the lower one applies.
    """

    def __init__(
        self, limits: LimitsConfig, prices: PriceBook, *, wall: Callable[[], float] = time.time
    ) -> None:
        """Prepare them; `wall` is the clock of days and months: Unix time in seconds."""
        self.limits = limits
        self._prices = prices
        self._wall = wall
        self._cached = lru_cache(REMEMBERED)(self._make)

    def with_limits(self, limits: LimitsConfig, prices: PriceBook) -> "Reservations":
        """Return the reservations with reloaded limits and prices."""
        return Reservations(limits, prices, wall=self._wall)

    def request(self, principal: Principal, route: Route, chat: ChatRequest) -> ReservationRequest:
        """Return the reservation for a stream.

        Raises:
            RequestError: `budget_exceeded`, there is a budget and a price is unknown.
        """
        accounts = self.accounts_of(principal)
        input_tokens = estimate_tokens(chat)
        limit = chat.limit
        output = self._longest(route) if limit is None else min(limit, self._most(route))
        longest = input_tokens
        budgeted = _limit_money(accounts)
        if budgeted and has_unsized(chat):
            longest = max(input_tokens, self._context(route))
        dearest, unpriced = self._ceiling(route, longest, budgeted=budgeted, tier=chat.tier)
        again_tokens = again_nano_usd = 0
        if route.rescue or route.hedge:
            # The input of another call, and the text so far of an answer that it continues.
            again_tokens = longest + output if route.rescue else longest
            again, _ = self._ceiling(route, again_tokens, budgeted=budgeted, tier=chat.tier)
            again_nano_usd = again.input
        return ReservationRequest(
            accounts,
            self._wall(),
            input_tokens=input_tokens,
            output_tokens=output,
            least_output_tokens=min(output, LEAST_OUTPUT),
            choices=chat.n or 1,
            input_nano_usd=dearest.input,
            output_nano_usd=dearest.output,
            unpriced=unpriced,
            unsized=not chat.is_plain
            and (has_media(chat) or _has_options(chat) or chat.client_body is not None),
            limited=_limit_output(accounts) or (limit is not None and not _has_options(chat)),
            again_tokens=again_tokens,
            again_nano_usd=again_nano_usd,
        )

    def request_call(
        self, principal: Principal, route: Route, input_tokens: int, *, output_tokens: int = 0
    ) -> ReservationRequest:
        """Return the reservation for a call without a stream, such as embeddings.

        Money is reserved for `output_tokens`; they are not limited.

        Raises:
            RequestError: `budget_exceeded`, there is a budget and a price is unknown.
        """
        accounts = self.accounts_of(principal)
        dearest, unpriced = self._ceiling(route, input_tokens, budgeted=_limit_money(accounts))
        return ReservationRequest(
            accounts,
            self._wall(),
            input_tokens,
            least_output_tokens=0,
            input_nano_usd=dearest.input + output_tokens * dearest.output,
            unpriced=unpriced,
        )

    def stream_info(
        self,
        principal: Principal,
        stream: str,
        *,
        owner: str,
        request_id: str,
        route: str,
        reserve: ReservationRequest,
        model: str | None,
        client_format: str,
        **facts: Any,
    ) -> StreamInfo:
        """Return the info of a stream that a principal starts now; `facts` are other fields."""
        return StreamInfo(
            stream,
            owner=owner,
            request_id=request_id,
            route=route,
            created_at=self._wall(),
            reserve=reserve,
            tenant=principal.tenant,
            user=principal.user,
            key_name=principal.key,
            model=(model or "")[:MAX_MODEL],
            client_format=client_format,
            traceparent=TRACEPARENT.get(),
            **facts,
        )

    def accounts_of(self, principal: Principal) -> tuple[Account, ...]:
        """Return the accounts that a principal's streams draw on."""
        return self._cached(
            principal.tenant,
            principal.key,
            principal.user,
            principal.secret,
            principal.key_limits,
            principal.user_limits,
        )

    def _make(
        self,
        tenant: str,
        key: str,
        user: str,
        secret: str,
        key_limits: UsageLimits,
        user_limits: UsageLimits,
    ) -> tuple[Account, ...]:
        accounts = [self.relay()]
        if tenant:
            accounts.append(self.tenant(tenant))
        if key:
            accounts.append(self.key(key, key_limits))
        if secret:
            limits = smaller(self.limits.user, user_limits)
            accounts.append(Account.of(f"secret:{quote(secret, safe='')}", limits))
        elif user:
            accounts.append(self.user(tenant, user, user_limits))
        return tuple(accounts)

    def relay(self) -> Account:
        """Return the account of the relay."""
        return Account.of("relay", self.limits.relay)

    def tenant(self, name: str) -> Account:
        """Return the account of a tenant."""
        limits = self.limits
        own = over(limits.tenants.get(name, UNLIMITED), limits.tenant)
        return Account.of(f"tenant:{quote(name, safe='')}", own)

    def key(self, name: str, own: UsageLimits = UNLIMITED) -> Account:
        """Return the account of a key, which may have limits of its own."""
        return Account.of(f"key:{quote(name, safe='')}", smaller(self.limits.key, own))

    def user(self, tenant: str, name: str, own: UsageLimits = UNLIMITED) -> Account:
        """Return the account of a user, for whom a credential may have limits."""
        parts = ":".join(quote(part, safe="") for part in (tenant, name))
        return Account.of(f"user:{parts}", smaller(self.limits.user, own))

    def _longest(self, route: Route) -> int:
        """Return the output limit of a request without one of its own."""
        default = self.limits.max_output_tokens
        longest = 0
        for target in route.targets:
            longest = max(longest, target.upstream.max_output_tokens or default)
        return min(default, longest or default)

    def _most(self, route: Route) -> int:
        """Return the highest output limit that a request may set."""
        limits = [target.upstream.max_output_tokens for target in route.targets]
        known = [limit for limit in limits if limit is not None]
        return max(known) if len(known) == len(limits) > 0 else self._context(route)

    def _context(self, route: Route) -> int:
        """Return the maximum context length of a route's models, in tokens."""
        largest = 0
        for target in route.targets:
            price = self._prices.price_of(target.name)
            known = None if price is None else price.context_length
            largest = max(largest, known or UNKNOWN_CONTEXT)
        return largest or UNKNOWN_CONTEXT

    def _ceiling(
        self, route: Route, input_tokens: int, *, budgeted: bool, tier: str | None = None
    ) -> tuple[Ceiling, bool]:
        """Return the prices of the most expensive target, and whether one is unknown.

        A budget requires all to be known.
        """
        input_nano, output_nano, unpriced = 0, 0, False
        for target in route.targets:
            price = self._prices.price_of(target.name)
            if price is not None:
                found = price.ceiling(input_tokens, service_tier=tier)
                input_nano = max(input_nano, found.input)
                output_nano = max(output_nano, found.output)
            elif budgeted:
                raise RequestError(
                    "budget_exceeded",
                    f"the price of {target.name!r} is unknown, so its budget cannot be checked; "
                    "add a [[price]]",
                )
            else:
                unpriced = True
        return Ceiling(input_nano, output_nano), unpriced

    def clamp(
        self, chat: ChatRequest, request: ReservationRequest, grant: Grant | None
    ) -> ChatRequest:
        """Return the request with a ceiling: the reserved length of an answer.

        No body built from it exceeds the ceiling, regardless of other fields.
        """
        if grant is None or not _limit_output(request.accounts):
            return chat
        lowered = grant.output_tokens < request.output_tokens
        ceiling = OutputCeiling(
            grant.output_tokens, request.choices, explicit=chat.limit is not None, lowered=lowered
        )
        longest = grant.output_tokens if chat.limit is None else min(chat.limit, ceiling.tokens)
        # Every format renders the newer of the two.
        return msgspec.structs.replace(chat, ceiling=ceiling, **{_limit_field(chat): longest})


def continue_reservation(
    request: ReservationRequest | None, rest: ChatRequest
) -> ReservationRequest | None:
    """Return the part of a reservation that is for the request of the `rest` of an answer."""
    if request is None:
        return None
    input_tokens = estimate_tokens(rest)
    used = max(0, input_tokens - request.input_tokens)
    return msgspec.structs.replace(
        request,
        input_tokens=input_tokens,
        output_tokens=max(1, request.output_tokens - used),
        input_nano_usd=request.again_nano_usd,
        again_tokens=0,
        again_nano_usd=0,
    )


@lru_cache(REMEMBERED)
def _limit_money(accounts: tuple[Account, ...]) -> bool:
    return any(account.has_limit("nano_usd") for account in accounts)


@lru_cache(REMEMBERED)
def _limit_output(accounts: tuple[Account, ...]) -> bool:
    return any(account.has_limit("tokens", "nano_usd") for account in accounts)


def _has_options(chat: ChatRequest) -> bool:
    """Return whether a request has provider-specific fields."""
    return bool(chat.provider_options or chat.extras)


def _limit_field(chat: ChatRequest) -> str:
    """Return the field of the output limit that a client has used, else the usual one."""
    return "max_tokens" if chat.max_completion_tokens is None else "max_completion_tokens"
