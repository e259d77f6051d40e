"""Settlements: what streams and calls have cost, from the prices of the settings.

An attempt is charged when it ends; the log stores the sum with the `stream.end`.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import msgspec
import structlog

from ..dialects.writing.token_estimate import tokens_of
from ..eventlog.recovery import Closing, OrphanedStream
from ..eventlog.stream_ended import Charge, StreamEnded
from ..eventlog.stream_info import StreamInfo
from ..events import EndedBy, Event, StreamEnd, TokenCounts, Usage
from ..ledger.accounts import Reservation, ReservationRequest, Settlement
from ..ledger.hidden_output import HiddenRates
from ..ledger.money import to_nano, to_usd
from ..ledger.prices import PriceBook
from ..requests import ChatRequest, OutputCeiling, TranslatedRequest
from ..telemetry.activity import ReaderCounts
from ..telemetry.row import pack_row, row_of
from .attempt import Attempt
from .content import Content
from .deadlines import Silence
from .reservation import continue_reservation
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
        return max(
            charge,
            _charge_reservation(request.reservation(request.output_tokens), request),
            key=_weight,
        )

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
        for counts, nano_usd, _ in ended.charges:
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


class Settled(NamedTuple):
    """The end of a run, settled."""

    events: Sequence[Event]
    """The last events; the `stream.end` has the cost of the stream."""
    settlement: Settlement
    ended: StreamEnded


class RunSettlement(msgspec.Struct, kw_only=True):
    """Charges the attempts of one run, and settles its end."""

    info: StreamInfo
    settlements: Settlements
    produced: Callable[[], Sequence[Event]]
    """Returns the stream's events in the log."""
    original: Sequence[Event] | None
    """The provider's events, if hooks may have changed those in the log."""
    readers: ReaderCounts
    wall: Callable[[], float]
    """Unix time."""
    started_at: float
    """By the clock of the event loop."""
    ceiling: OutputCeiling | None
    """The output ceiling of the request, if limits of usage set one."""
    content: Content | None
    """The request, if it is recorded or traced."""
    records_content: bool
    traces_content: bool
    followed: list[Charge] = []
    """The charges of attempts that another one followed."""
    parts: list[Charge] = []
    """Those of attempts whose answer another one continued."""
    continued: ReservationRequest | None = None
    """What the attempt that continues may use; None before it."""
    seam: int = 0
    """The number of events before that attempt."""
    last: Charge | None = None

    @property
    def spent_nano_usd(self) -> int | None:
        """The cost of all attempts that another one followed; None if a price is unknown."""
        spent = [charge.nano_usd for charge in self.followed]
        return None if None in spent else sum(nano or 0 for nano in spent)

    def charge_followed(
        self, attempt: Attempt, end: StreamEnd, events: Sequence[Event], *, now: float
    ) -> None:
        """Charge a failed attempt with these last events, which another one follows."""
        self.followed.append(self._charge(attempt, end, events, now=now, followed=True))

    def charge_dropped(self, attempt: Attempt, events: Sequence[Event], *, now: float) -> None:
        """Charge an attempt that was cancelled then, since another one answered."""
        end = events[-1] if events else None
        if not isinstance(end, StreamEnd):
            end = StreamEnd("cancelled", "cancelled")
        charge = self._charge(
            attempt, end, events, now=now, stopped=True, followed=True, alone=True
        )
        self.followed.append(charge)

    def charge_part(
        self,
        attempt: Attempt,
        end: StreamEnd,
        events: Sequence[Event],
        *,
        now: float,
        seam: int,
    ) -> None:
        """Charge an attempt that failed within its answer, which another one continues.

        `seam` is the number of events in the log before that one's.
        """
        charge = self._charge(attempt, end, events, now=now, began=True, followed=True)
        self.followed.append(charge)
        self.parts.append(charge)
        self.seam = seam

    def continue_with(self, rest: ChatRequest) -> None:
        """Charge the next attempts for the rest of the answer."""
        self.continued = continue_reservation(self.info.reserve, rest)
        self.ceiling = rest.ceiling if isinstance(rest, TranslatedRequest) else None

    def settle(
        self,
        attempt: Attempt,
        end: StreamEnd,
        events: Sequence[Event],
        *,
        now: float,
        logged: int,
        first_event_s: float | None,
        stopped_by: EndedBy | None,
    ) -> Settled:
        """Return the end of the stream: these events of its last attempt, after `logged` ones."""
        if self.last is None:
            # Once: if the log refuses this end, another follows with less information.
            began, stopped = first_event_s is not None, stopped_by is not None
            answered, last = end, events
            if self.original is not None:
                last = ()
                if self.original and isinstance(self.original[-1], StreamEnd):
                    answered = self.original[-1]  # of an answer that was stopped meanwhile
            self.last = self._charge(attempt, answered, last, now=now, began=began, stopped=stopped)
        ended_by, rescued = self._ended_by(attempt, end, stopped_by), bool(self.parts)
        if ended_by != end.ended_by or rescued:
            end = msgspec.structs.replace(end, ended_by=ended_by, rescued=rescued)
            events = [*events[:-1], end]
        # Rows that wait for an unavailable database must be small.
        recorded = self.records_content and not self.settlements.records_away()
        content = b""
        if self.content is not None and (recorded or self.traces_content):
            content = self.content.pack([*self.produced(), *events])
        deadlines = attempt.deadlines
        ended, settlement = self.settlements.close(
            StreamEnded(
                info=self.info,
                end=end,
                charges=[*self.followed, self.last],
                target=attempt.target.name,
                answered_model=attempt.parser.model or attempt.target.model,
                attempts=1 + len(self.followed),
                started_at=self.info.created_at,
                ended_at=self.wall(),
                duration_s=now - self.started_at,
                first_event_s=first_event_s,
                longest_gap_s=deadlines.longest_gap_s if deadlines else None,
                readers=self.readers.readers,
                resumes=self.readers.resumes,
                events=logged + len(events),
                reply=attempt.reply(),
                content=content if recorded else b"",
                traced_content=content if self.traces_content else b"",
            ),
            parts=[*self.parts, self.last] if self.parts else (),
        )
        if attempt.target.replays and end.usage is not None:
            # It has the cost of the recorded stream.
            return Settled(events, settlement, msgspec.structs.replace(ended, end=end))
        last = [*events[:-1], ended.end]
        for at in reversed(range(len(last))):
            if isinstance(event := last[at], Usage):
                if self.parts and ended.end.usage is not None:
                    event = Usage(*msgspec.structs.astuple(ended.end.usage))
                last[at] = _with_cost(event, ended.end.usage)
                break  # there is at most one
        return Settled(last, settlement, ended)

    def _ended_by(
        self, attempt: Attempt, end: StreamEnd, stopped_by: EndedBy | None
    ) -> EndedBy | None:
        """Return the cause of the end; None for a complete answer.

        The only place that decides it, except for streams with a lost producer.
        """
        ceiling = self.ceiling
        if end.status == "completed":
            if end.finish_reason != "length" or ceiling is None:
                return None
            if ceiling.explicit and not ceiling.lowered:
                return None
            counts = end.usage
            used = None if counts is None or counts.estimated else counts.output_tokens
            return "budget" if used is None or used >= ceiling.tokens else None
        if stopped_by is not None:
            return stopped_by
        if end.ended_by is not None:  # from a recording
            return end.ended_by
        if attempt.late:
            return "deadline"
        error = end.error
        if attempt.head is None and error and not error.code.startswith("upstream_"):
            return "relay"
        return "provider"

    def _charge(
        self,
        attempt: Attempt,
        end: StreamEnd,
        events: Sequence[Event],
        *,
        now: float,
        began: bool = False,
        stopped: bool = False,
        followed: bool = False,
        alone: bool = False,
    ) -> Charge:
        """Return the cost of an attempt that ended with these events; charge its first sending.

        `FREE` if the provider refused it before any billable output. `alone`: the events in the log
        are another attempt's.
        """
        request, parser = self.continued or self.info.reserve, attempt.parser
        deadlines, silence = attempt.deadlines, None
        if attempt.resent:  # its provider may have taken the first request too
            first = self.settlements.charge(attempt.target.name, None, request=request)
            self.followed.append(first)
        reported = end.usage or parser.usage
        if reported is None and ((parser.refused and not began) or not attempt.billable):
            return FREE
        completed, early = end.status == "completed", parser.counted_early
        ended_itself = parser.refused or (completed and early)
        # A client may leave before the head, while the model thinks; a provider without a head by
        # its deadline has most likely generated nothing.
        if deadlines is not None and (deadlines.taken or stopped) and not ended_itself:
            silence = deadlines.silence(now)
        before = self.produced() if self.original is None else self.original
        written = [*events] if alone else [*before, *events]
        return self.settlements.charge(
            attempt.target.name,
            reported,
            request=request,
            written=written[self.seam :] if self.seam and not alone else written,
            complete=completed and not early,
            silence=silence,
            followed=followed,
        )


def _sum_usage(charges: Sequence[Charge]) -> TokenCounts | None:
    """Return the counts and the cost of several parts of an answer."""
    known = [charge.counts for charge in charges if charge.counts is not None]
    if not known:
        return None
    total = reduce(add_counts, known)
    nano = [charge.nano_usd for charge in charges]
    cost = None if None in nano else to_usd(sum(one or 0 for one in nano))
    return msgspec.structs.replace(total, cost=cost)


def _with_cost(event: Usage, counts: TokenCounts | None) -> Usage:
    """Return an event with the cost of its counts; without a cost if estimates are billed."""
    if counts is None or counts.estimated:
        return msgspec.structs.replace(event, cost=None, cost_from=None)
    return msgspec.structs.replace(event, cost=counts.cost, cost_from=counts.cost_from)


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
