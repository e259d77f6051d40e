"""Settlements: what streams and calls have cost, from the prices of the settings.

An attempt is charged when it ends; the log stores the sum with the `stream.end`.
"""

from collections.abc import Callable, Sequence
from functools import reduce

import msgspec
import structlog

from ..dialects.writing.token_estimate import tokens_of
from ..eventlog.recovery import Closing, OrphanedStream
from ..eventlog.stream_ended import Charge, StreamEnded
from ..events import Event, TokenCounts
from ..ledger.accounts import Reservation, ReservationRequest, Settlement
from ..ledger.hidden_output import HiddenRates
from ..ledger.prices import PriceBook
from ..ledger.rates import to_nano, to_usd
from ..policies.deadlines import Silence
from ..telemetry.row import pack_row, row_of
from .token_usage import add_counts, bound_usage, count_usage, estimate_answer

log = structlog.get_logger("seseragi.accounting")

FREE = Charge(None, 0)


class Settlements:
    """Charges attempts and settles streams; with `keeps_rows`, records are written."""

    def __init__(
        self,
        prices: PriceBook,
        *,
        keeps_rows: bool = False,
        records_away: Callable[[], bool] = lambda: False,
        hidden: HiddenRates | None = None,
    ) -> None:
        self._prices = prices
        self._hidden = HiddenRates() if hidden is None else hidden
        self.keeps_rows = keeps_rows
        self.records_away = records_away
        """Whether the records are unavailable now, so that rows wait."""

    def with_prices(self, prices: PriceBook) -> "Settlements":
        """Return the settlements with reloaded prices; measured rates are shared."""
        return Settlements(
            prices,
            keeps_rows=self.keeps_rows,
            records_away=self.records_away,
            hidden=self._hidden,
        )

    def charge(
        self,
        target: str,
        reported: TokenCounts | None,
        *,
        request: ReservationRequest | None,
        written: Sequence[Event] = (),
        complete: bool = False,
        silence: Silence | None = None,
    ) -> Charge:
        """Return the cost of an attempt that its provider may bill.

        It is based on the provider's counts; missing ones are estimated from the events that were
        `written`. `complete`: the provider has ended the answer, and may have counted all of it.
        `silence` is the time in which it may have generated hidden output; None for none.
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
        uncertain = cut is not None and bool(counts.estimated)
        return charge._replace(uncertain=True) if uncertain else charge

    def charge_last(self, charge: Charge, request: ReservationRequest | None) -> Charge:
        """Return an uncertain charge of a stream's last attempt: the reservation is left to it."""
        if request is None or not request.strict:
            return charge
        reserved = request.reservation(request.output_tokens)
        return max(charge, _charge_reservation(reserved, request), key=_weight)

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
        request = ended.info.reserve
        if lost.reserved is not None:
            charge = _charge_reservation(lost.reserved, request)
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

    def close(self, ended: StreamEnded, *, parts: Sequence[Charge] = ()) -> Closing:
        """Return an ended stream with the sum of its charges, and its settlement.

        `parts` are those for the parts of the answer, if it has several.
        """
        input_tokens = output_tokens = 0
        nano: int | None = 0
        known = False
        for counts, nano_usd, *_ in ended.charges:
            nano = None if nano is None or nano_usd is None else nano + nano_usd
            if counts is not None:
                known = True
                input_tokens += counts.input_tokens or 0
                output_tokens += counts.output_tokens or 0
        cost = to_usd(nano) if nano is not None and known else None
        answer = ended.charges[-1].counts if ended.charges else None
        if parts:
            answer = _sum_usage(parts)
        end = msgspec.structs.replace(ended.end, usage=answer or ended.end.usage, cost=cost)
        ended = msgspec.structs.replace(ended, end=end, nano_usd=nano)
        row = pack_row(row_of(ended)) if self.keeps_rows else b""
        return Closing(ended, Settlement(input_tokens, output_tokens, nano, row=row))


def _sum_usage(charges: Sequence[Charge]) -> TokenCounts | None:
    """Return the counts and the cost of several parts of an answer."""
    known = [charge.counts for charge in charges if charge.counts is not None]
    if not known:
        return None
    total = reduce(add_counts, known)
    nano = [charge.nano_usd for charge in charges]
    cost = None if None in nano else to_usd(sum(one or 0 for one in nano))
    return msgspec.structs.replace(total, cost=cost)


class Billing(msgspec.Struct, frozen=True, kw_only=True):
    """What a call needs to know its own cost."""

    settlements: Settlements
    request: ReservationRequest | None
    """What the call may use."""
    produced: Callable[[], Sequence[Event]]
    """Returns the events of all calls that have been passed on."""


def _charge_reservation(reserved: Reservation, request: ReservationRequest | None) -> Charge:
    """Return the charge for a whole reservation; without a cost if the price is unknown."""
    input_tokens = min(reserved.tokens, request.input_tokens if request is not None else 0)
    counts = TokenCounts(
        input_tokens=input_tokens,
        output_tokens=reserved.tokens - input_tokens,
        total_tokens=reserved.tokens,
        estimated=True,
    )
    if request is None or request.unpriced:
        return Charge(counts, None)
    return Charge(
        msgspec.structs.replace(counts, cost=to_usd(reserved.nano_usd)), reserved.nano_usd
    )


def _weight(charge: Charge) -> tuple[int, int]:
    counts = charge.counts
    tokens = 0 if counts is None else (counts.input_tokens or 0) + (counts.output_tokens or 0)
    return charge.nano_usd or 0, tokens
