"""Reservations and charges of streams, by the limits and prices of the settings.

It runs once when a stream begins and once when it ends; the log stores the numbers.
"""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import structlog

from ..dialects.writing.token_estimate import (
    estimate_tokens,
    has_media,
    has_unsized,
    tokens_of,
)
from ..errors import RequestError
from ..eventlog.recovery import Closing, OrphanedStream
from ..eventlog.stream_ended import Charge, StreamEnded
from ..eventlog.stream_info import StreamInfo
from ..events import Event, TokenCounts
from ..identity.principal import Principal
from ..ledger.accounts import Account, Grant, Reservation, ReservationRequest, Settlement
from ..ledger.config import LedgerConfig
from ..ledger.hidden_output import HiddenRates
from ..ledger.money import to_nano, to_usd
from ..ledger.prices import PriceBook
from ..requests import ChatRequest, OutputCeiling, TranslatedRequest
from ..telemetry.row import pack_row, row_of, unpack_row, with_end
from ..telemetry.trace_context import TRACEPARENT
from ..upstreams.routes import Route
from .deadlines import Silence
from .principal_accounts import REMEMBERED, PrincipalAccounts
from .token_usage import UNKNOWN_CONTEXT, bound_usage, count_usage, estimate_answer

MAX_MODEL = 200
"""Recorded characters of the model name in a request."""

LEAST_OUTPUT = 16
"""The minimum output tokens of a stream with a lowered limit; below, the request is refused."""

log = structlog.get_logger("seseragi.accounting")


FREE = Charge(None, 0)


class _Dearest(NamedTuple):
    """The prices of the most expensive target of a route, in nano-USD; see `rates.Ceiling`."""

    input: int
    output: int
    unpriced: bool
    """Whether the price of a target is unknown."""


class Accounting:
    """Reserves and charges by limits and prices; with `keeps_rows`, records are written."""

    def __init__(
        self,
        config: LedgerConfig,
        prices: PriceBook,
        *,
        keeps_rows: bool = False,
        records_away: Callable[[], bool] = lambda: False,
        wall: Callable[[], float] = time.time,
        hidden: HiddenRates | None = None,
    ) -> None:
        self.wall = wall
        """The clock of days and months: Unix time in seconds."""
        self.limits = config.limits
        self.accounts = PrincipalAccounts(config.limits)
        self._prices = prices
        self._hidden = HiddenRates() if hidden is None else hidden
        self.keeps_rows = keeps_rows
        self.records_away = records_away
        """Whether the records are unavailable now, so that rows wait."""

    def with_config(self, config: LedgerConfig, prices: PriceBook) -> "Accounting":
        """Return the accounting with reloaded limits and prices; measured rates are shared."""
        return Accounting(
            config,
            prices,
            keeps_rows=self.keeps_rows,
            records_away=self.records_away,
            wall=self.wall,
            hidden=self._hidden,
        )

    # Before a stream

    def request(
        self, principal: Principal, route: Route, chat: ChatRequest, *, now: float | None = None
    ) -> ReservationRequest:
        """Return the reservation for a stream.

        Raises:
            RequestError: `budget_exceeded`, there is a budget and a price is unknown.
        """
        accounts = self.accounts_of(principal)
        input_tokens = estimate_tokens(chat)
        asked = chat.limit
        output = self._longest(route) if asked is None else min(asked, self._most(route))
        longest = input_tokens
        budgeted = _limit_money(accounts)
        if budgeted and has_unsized(chat):
            longest = max(input_tokens, self._context(route))
        ceiling = self._ceiling(route, longest, budgeted=budgeted, service_tier=chat.tier)
        return ReservationRequest(
            accounts,
            self.wall() if now is None else now,
            input_tokens=input_tokens,
            output_tokens=output,
            least_output_tokens=min(output, LEAST_OUTPUT),
            choices=chat.n or 1,
            input_nano_usd=ceiling.input,
            output_nano_usd=ceiling.output,
            unpriced=ceiling.unpriced,
            unsized=not chat.is_plain
            and (
                has_media(chat)
                or _has_options(chat)
                or (isinstance(chat, TranslatedRequest) and chat.client_body is not None)
            ),
            limited=_limit_output(accounts) or (asked is not None and not _has_options(chat)),
        )

    def record(
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
        """Return the record of a stream that a principal starts now; `facts` are other fields."""
        return StreamInfo(
            stream,
            owner=owner,
            request_id=request_id,
            route=route,
            created_at=self.wall(),
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
        return self.accounts.of(principal)

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
        self,
        route: Route,
        input_tokens: int,
        *,
        budgeted: bool,
        service_tier: str | None = None,
    ) -> _Dearest:
        """Return the prices of the most expensive target, which a budget requires to be known."""
        input_nano, output_nano, unpriced = 0, 0, False
        for target in route.targets:
            price = self._prices.price_of(target.name)
            if price is not None:
                found = price.ceiling(input_tokens, service_tier=service_tier)
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
        return _Dearest(input_nano, output_nano, unpriced)

    def clamp(
        self, chat: ChatRequest, request: ReservationRequest, grant: Grant | None
    ) -> ChatRequest:
        """Return the request with a ceiling: the reserved length of an answer.

        No body built from it exceeds the ceiling, regardless of other fields.
        """
        if grant is None or not _limit_output(request.accounts):
            return chat
        asked = chat.limit is not None
        lowered = grant.output_tokens < request.output_tokens
        ceiling = OutputCeiling(
            grant.output_tokens, request.choices, explicit=asked, lowered=lowered
        )
        longest = grant.output_tokens if chat.limit is None else min(chat.limit, ceiling.tokens)
        if not isinstance(chat, TranslatedRequest):
            said = {name: getattr(chat, name) for name in ChatRequest.__struct_fields__}
            chat = TranslatedRequest(**said)
        # Every format renders the newer of the two.
        return msgspec.structs.replace(
            chat, max_tokens=None, max_completion_tokens=longest, ceiling=ceiling
        )

    # After an attempt, and at the end of a stream

    def charge(
        self,
        target: str,
        reported: TokenCounts | None,
        *,
        request: ReservationRequest | None,
        written: Sequence[Event] = (),
        complete: bool = False,
        silence: Silence | None = None,
        followed: bool = False,
    ) -> Charge:
        """Return the cost of an attempt that its provider may bill.

        It is based on the provider's counts; missing ones are estimated from the events that were
        `written`. `complete`: the provider has ended the answer, and may have counted all of it.
        `silence` is the time in which it may have generated hidden output; None for none.
        `followed`: another attempt takes over the reservation.
        """
        reported = self._bounded(target, reported, request=request, written=written)
        cut = None if complete else silence
        counts = count_usage(
            reported,
            request=request,
            answer=written,
            complete=complete,
            hidden=0 if cut is None else self._hidden.estimate(target, cut),
        )
        if silence is not None and silence.seconds and complete and not counts.estimated:
            shown = estimate_answer(written)
            self._hidden.measure(target, counts, shown=shown, silence=silence)
        charge = self.price(target, counts)
        if followed or cut is None or not counts.estimated or request is None or not request.strict:
            return charge
        return max(charge, _held(request.reservation(request.output_tokens), request), key=_weight)

    def _bounded(
        self,
        target: str,
        reported: TokenCounts | None,
        *,
        request: ReservationRequest | None,
        written: Sequence[Event],
    ) -> TokenCounts | None:
        """Return a provider's counts, lowered to the possible maximum of the call."""
        if reported is None or request is None:
            return reported
        price = self._prices.price_of(target)
        bounded = bound_usage(
            reported,
            request=request,
            context=None if price is None else price.context_length,
            written=written,
        )
        if bounded is not reported:
            log.warning(
                "provider counts more than is possible",
                upstream=target,
                input_tokens=reported.input_tokens,
                output_tokens=reported.output_tokens,
                most_input_tokens=bounded.input_tokens,
                most_output_tokens=bounded.output_tokens,
            )
        return bounded

    def estimate(
        self,
        target: str,
        reported: TokenCounts | None,
        *,
        request: ReservationRequest | None,
        output_tokens: int,
    ) -> Charge:
        """Return the cost so far of an attempt whose answer has so many tokens."""
        counts = count_usage(reported, request=request, answer=output_tokens, complete=False)
        return self.price(target, counts)

    def price(self, target: str, counts: TokenCounts) -> Charge:
        """Price counts; without a known price, use the provider's own cost."""
        price = self._prices.price_of(target)
        if price is not None:
            nano = price.cost(counts)
            counts = msgspec.structs.replace(counts, cost=to_usd(nano), cost_from=None)
            return Charge(counts, nano, price.version)
        if counts.cost is not None and counts.cost_from == "provider":
            return Charge(counts, to_nano(counts.cost), "provider")
        return Charge(counts, None)

    def request_call(
        self, principal: Principal, route: Route, input_tokens: int
    ) -> ReservationRequest:
        """Return the reservation for a call without output tokens: embeddings.

        Raises:
            RequestError: `budget_exceeded`, there is a budget and a price is unknown.
        """
        accounts = self.accounts_of(principal)
        budgeted = _limit_money(accounts)
        ceiling = self._ceiling(route, input_tokens, budgeted=budgeted)
        return ReservationRequest(
            accounts,
            self.wall(),
            input_tokens,
            least_output_tokens=0,
            input_nano_usd=ceiling.input,
            unpriced=ceiling.unpriced,
        )

    def list_price(self, target: str) -> tuple[int, int] | None:
        """Return the prices per million input and output tokens, in nano-USD, for a short input.

        Thread-safe; None if unknown.
        """
        price = self._prices.price_of(target)
        if price is None:
            return None
        rates = price.tariff.steps[0].rates
        return rates.input, rates.output

    def close_orphaned(self, lost: OrphanedStream) -> Closing:
        """Return the end and the settlement of an orphaned stream.

        Attempts that failed before the one that answered are unknown. For a stream without an
        answer, the input is counted, which may have been billed. A stream without stored counts
        costs its whole reservation.
        """
        ended = lost.ended
        if lost.spent is not None:
            return Closing(ended, _with_end(lost.spent, ended))
        request = ended.info.reserve
        if lost.reserved is not None:
            charge = _held(lost.reserved, request)
        elif ended.target is not None:
            counts = count_usage(
                ended.end.usage,
                request=request,
                answer=tokens_of(lost.weight),
                complete=ended.end.status == "completed",
            )
            charge = self.price(ended.target, counts)
        elif request is not None and ended.end.status != "completed":
            counts = count_usage(None, request=request, answer=0, complete=False)
            charge = Charge(counts, None if request.unpriced else request.input_nano_usd)
        else:
            charge = FREE
        return self.close(msgspec.structs.replace(ended, charges=(charge,)))

    def close(self, ended: StreamEnded) -> Closing:
        """Return an ended stream with the sum of its charges, and its settlement."""
        input_tokens = output_tokens = 0
        nano: int | None = 0
        known = False
        for counts, nano_usd, _ in ended.charges:
            nano = None if nano is None or nano_usd is None else nano + nano_usd
            if counts is not None:
                known = True
                input_tokens += counts.input_tokens or 0
                output_tokens += counts.output_tokens or 0
        cost = to_usd(nano) if nano is not None and known else None
        answer = ended.charges[-1].counts if ended.charges else None
        end = msgspec.structs.replace(ended.end, usage=answer or ended.end.usage, cost=cost)
        ended = msgspec.structs.replace(ended, end=end, nano_usd=nano)
        row = pack_row(row_of(ended)) if self.keeps_rows else b""
        return Closing(ended, Settlement(input_tokens, output_tokens, nano, row=row))


def _with_end(spent: Settlement, ended: StreamEnded) -> Settlement:
    """Return a producer's settlement with another end in its row."""
    if not spent.row:
        return spent
    row = pack_row(with_end(unpack_row(spent.row), ended))
    return msgspec.structs.replace(spent, row=row)


def _held(held: Reservation, request: ReservationRequest | None) -> Charge:
    """Return the charge for a whole reservation; without a cost if the price is unknown."""
    input_tokens = min(held.tokens, request.input_tokens if request is not None else 0)
    counts = TokenCounts(
        input_tokens=input_tokens,
        output_tokens=held.tokens - input_tokens,
        total_tokens=held.tokens,
        estimated=True,
    )
    if request is None or request.unpriced:
        return Charge(counts, None)
    return Charge(msgspec.structs.replace(counts, cost=to_usd(held.nano_usd)), held.nano_usd)


@lru_cache(REMEMBERED)
def _limit_money(accounts: tuple[Account, ...]) -> bool:
    return any(account.has_limit("nano_usd") for account in accounts)


@lru_cache(REMEMBERED)
def _limit_output(accounts: tuple[Account, ...]) -> bool:
    return any(account.has_limit("tokens", "nano_usd") for account in accounts)


def _has_options(chat: ChatRequest) -> bool:
    """Return whether a request has provider-specific fields."""
    return bool(chat.provider_options or (isinstance(chat, TranslatedRequest) and chat.extras))


def _weight(charge: Charge) -> tuple[int, int]:
    counts = charge.counts
    tokens = 0 if counts is None else (counts.input_tokens or 0) + (counts.output_tokens or 0)
    return charge.nano_usd or 0, tokens
