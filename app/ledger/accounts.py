"""Accounts of the relay, tenants, keys and users: reservations, spending and limits.

A stream draws on several accounts: the relay's, its tenant's, its key's, its user's. `reserve`
checks all of them and takes from all or none; `settle` replaces a stream's reservation by its
cost. Each log does both atomically with the stream's own start and end, so that neither
happens twice and no reservation leaks.

Days and months are UTC, by the event log's clock if that has one of its own. A stream counts in
the period that is current in its account: also one that began in an earlier period, or whose clock
is behind. A minute is the last twelve spans of five seconds and the current one: at least 60
seconds, so that no 60 seconds exceed a limit, and at most 65.

`AccountState.turn` alone decides which periods are current, for all logs; the script of Redis
mirrors it. A step of a clock frees no budget that was current within a day, and a clock that was
ahead, by a year even, locks no account for longer than its day, month or minute:

- A period that begins within a day of the clock stays current.
- When a later one is left by a step back (the clock was ahead, or is behind), the period of the
  clock becomes current and retains that usage. If it was current before, its own counts again too.
- When the clock returns to the period that it left, its usage counts there.
- Spans ahead by more than `SKEW_S` count as the current one, also once when the clock returns.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from ..errors import RequestError
from .config import LIMITS, Limit, UsageLimits
from .rates import to_nano, to_usd

SPAN_S: Final = 5
SPANS: Final = 13
"""The number of spans in a minute, including the current one."""

DAY_S: Final = 86_400

SKEW_S: Final = 60
"""The maximum clock difference within a minute: later spans come from a wrong clock."""

STREAMS_RETRY_S: Final = 2.0
"""Retry-After for a concurrency limit."""


class Account(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One account and its limits, a field for each of `LIMITS`, with money in nano-USD.

    None: no limit.
    """

    name: str
    """`relay`, or `tenant:`, `key:`, `user:` and the name, each part quoted."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    streams: int | None = None
    nano_usd_per_day: int | None = None
    nano_usd_per_month: int | None = None
    strict: bool = False
    """See `UsageLimits.strict`."""

    @classmethod
    def of(cls, name: str, limits: UsageLimits) -> "Account":
        """Return the account of a name with the limits of the settings."""
        found = {}
        for limit in LIMITS:
            value = getattr(limits, limit.name)
            found[limit.field] = (
                value if value is None or limit.counts != "nano_usd" else to_nano(value)
            )
        return cls(name, strict=bool(limits.strict), **found)

    def has_limit(self, *counts: str) -> bool:
        """Return whether it limits one of these; without arguments, anything."""
        return any(
            getattr(self, limit.field) is not None
            for limit in LIMITS
            if not counts or limit.counts in counts
        )

    @property
    def counts_minutes(self) -> bool:
        """Whether it has a limit per minute."""
        for limit in LIMITS:
            if limit.per == "minute" and getattr(self, limit.field) is not None:
                return True
        return False

    def only(self, *counts: str) -> "Account":
        """Return the account without limits of anything else."""
        others = {limit.field: None for limit in LIMITS if limit.counts not in counts}
        return msgspec.structs.replace(self, **others)


class ReservationRequest(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A reservation to make before a stream starts.

    The answer may have `output_tokens`, or fewer if less is left, but at least
    `least_output_tokens`. Prices are those of the most expensive target, in nano-USD.
    """

    accounts: tuple[Account, ...]
    at: float
    """The time of the request, in unix seconds."""
    input_tokens: int = 0
    output_tokens: int = 0
    least_output_tokens: int = 1
    choices: int = 1
    """The maximum number of answers of that length."""
    input_nano_usd: int = 0
    """Of the whole input, and of the call."""
    output_nano_usd: int = 0
    """Per token of one answer."""
    unpriced: bool = False
    """Whether a target's price is unknown, so that it may cost more than reserved."""
    unsized: bool = False
    """Whether the input may far exceed the estimate: images, files, a provider's tools."""
    limited: bool = False
    """Whether the provider received `output_tokens` as the maximum output."""
    again_tokens: int = 0
    again_nano_usd: int = 0
    """The input of a second call, which may continue the answer."""

    @property
    def day(self) -> int:
        """The day of the stream, in days since 1970."""
        return int(self.at // DAY_S)

    @property
    def span(self) -> int:
        """The span of five seconds of the stream."""
        return int(self.at // SPAN_S)

    @property
    def strict(self) -> bool:
        """Whether any account is strict: a stream has the same cost in each."""
        return any(account.strict for account in self.accounts)

    def need(self, limit: Limit) -> tuple[int, int]:
        """Return what a stream takes of a limit: at its start, and per token of an answer."""
        match limit.counts:
            case "streams" | "requests":
                return 1, 0
            case "tokens":
                return self.input_tokens + self.again_tokens, self.choices
            case "nano_usd":
                return (
                    self.input_nano_usd + self.again_nano_usd,
                    self.output_nano_usd * self.choices,
                )

    def reservation(self, output_tokens: int) -> "Reservation":
        """Return the reservation for a stream with this maximum output."""
        output = output_tokens * self.choices
        return Reservation(
            tokens=self.input_tokens + self.again_tokens + output,
            nano_usd=self.input_nano_usd + self.again_nano_usd + output * self.output_nano_usd,
        )

    def granted(self, reserved: "Reservation") -> int:
        """Return the maximum output of a stream with this reservation."""
        return (reserved.tokens - self.input_tokens - self.again_tokens) // self.choices


class Reservation(NamedTuple):
    """The amount reserved for a running stream, in each of its accounts."""

    tokens: int
    nano_usd: int


class RateLimitState(NamedTuple):
    """Usage of an account against a limit per minute."""

    limit: int
    remaining: int
    reset_s: float
    """Seconds until all of it is available again, without further use."""


class Grant(NamedTuple):
    """The result of a successful reservation."""

    output_tokens: int
    """The maximum output that was reserved, per choice."""
    requests: RateLimitState | None = None
    tokens: RateLimitState | None = None
    """Usage of the caller's account; None without such a limit."""


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """The cost of a stream, with money in nano-USD."""

    input_tokens: int = 0
    output_tokens: int = 0
    nano_usd: int | None = 0
    """None: a price is unknown."""
    streams: int = 1
    """0 for a stream that never started."""
    row: bytes = b""
    """The row that the log stores until it is in the records; empty: none."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


NOTHING: Final = Settlement(streams=0)
"""For a stream without any upstream call."""


class LimitReached(RequestError):
    """A stream exceeds a limit: `rate_limited`, or `budget_exceeded` for money."""

    def __init__(
        self,
        account: str,
        limit: Limit,
        message: str,
        *,
        retry_after_s: float,
        rate_limit: RateLimitState | None = None,
    ) -> None:
        code = "budget_exceeded" if limit.counts == "nano_usd" else "rate_limited"
        super().__init__(code, message, retry_after_s=retry_after_s)
        self.account = account
        self.limit = limit
        self.rate_limit = rate_limit
        """Usage of the caller's account, if the limit is one per minute."""


class Period(msgspec.Struct, array_like=True):
    """Usage of one day or month, and reservations of running streams."""

    number: int = 0
    """Of the day or month."""
    requests: int = 0
    """Ended streams."""
    input_tokens: int = 0
    output_tokens: int = 0
    nano_usd: int = 0
    unpriced: int = 0
    """Streams of unknown price."""
    held_nano_usd: int = 0
    """Reserved for running streams, whenever they began."""
    other: int = 0
    """The period before this one; or a later one that a clock has left by a step back."""
    other_nano_usd: int = 0
    """What was used in the earlier of both before the later one began."""

    def turn(self, number: int, *, latest: int) -> bool:
        """Make a period the current one, unless a later one until `latest` is.

        Return whether it begins: without usage, but with the reservations of running streams.
        """
        before = self.number
        if number <= before <= latest:
            return False
        begins = before < number != self.other
        if begins:
            self.other_nano_usd = self.nano_usd
            self.requests = self.input_tokens = self.output_tokens = 0
            self.nano_usd = self.unpriced = 0
        elif number > before:  # the clock that was behind is right again
            self.nano_usd -= self.other_nano_usd
        elif number == self.other:
            self.nano_usd += self.other_nano_usd
        else:
            self.other_nano_usd = 0
        self.other = before if number > before else max(before, self.other)
        self.number = number
        return begins

    def settle(self, reserved: Reservation, settlement: Settlement) -> None:
        """Replace a stream's reservation by its cost."""
        self.requests += settlement.streams
        self.input_tokens += settlement.input_tokens
        self.output_tokens += settlement.output_tokens
        self.nano_usd += settlement.nano_usd or 0
        self.unpriced += settlement.nano_usd is None
        self.held_nano_usd = max(0, self.held_nano_usd - reserved.nano_usd)


class AccountState(msgspec.Struct):
    """The usage of one account."""

    running: int = 0
    day: Period = msgspec.field(default_factory=Period)
    month: Period = msgspec.field(default_factory=Period)
    spans: dict[int, tuple[int, int]] = {}
    """Requests and tokens of the last minute, by span."""
    ahead: int = 0
    """The last span that a clock has left by a step back; 0: none."""

    def turn_to(self, at: float) -> None:
        """Advance to a time, in unix seconds."""
        day = day_of(at)
        self.turn(day, month_of(day), int(at // SPAN_S))

    def turn(self, day: int, month: int, span: int) -> None:
        """Advance to a day, a month and a span."""
        self.month.turn(month, latest=month_of(day + 1))
        if self.day.turn(day, latest=day + 1) and self.month.other > month:
            # A clock that has gone on for a day is right.
            self.month.other = self.month.other_nano_usd = 0
        if self.spans:
            oldest, newest = span - SPANS, span + SKEW_S // SPAN_S
            returned = oldest < self.ahead <= span
            wrong = [number for number in self.spans if not oldest < number <= newest]
            for number in wrong:
                usage = self.spans.pop(number)
                if number > newest or returned:
                    self.add(span, *usage)
            if wrong:
                furthest = max(wrong)
                self.ahead = max(self.ahead, furthest) if furthest > newest else 0

    def add(self, span: int, requests: int, tokens: int) -> None:
        """Add usage to a span."""
        before = self.spans.get(span, (0, 0))
        self.spans[span] = (before[0] + requests, before[1] + tokens)

    def last_minute(self) -> tuple[int, int]:
        """Return the requests and tokens of the last minute."""
        requests = tokens = 0
        for span_requests, span_tokens in self.spans.values():
            requests += span_requests
            tokens += span_tokens
        return requests, tokens

    def used(self, limit: Limit) -> int:
        """Return what counts against a limit, with the reservations of running streams."""
        match limit.counts, limit.per:
            case "streams", None:
                return self.running
            case "requests", "minute":
                return self.last_minute()[0]
            case "tokens", "minute":
                return self.last_minute()[1]
            case "nano_usd", "day" | "month":
                period = self.period(limit)
                return period.nano_usd + period.held_nano_usd
        raise NotImplementedError(f"{limit.name} is not counted")

    def period(self, limit: Limit) -> Period:
        """Return the period of a limit per day or month."""
        return self.day if limit.per == "day" else self.month

    def clears_in(self, at: float) -> float:
        """Return the seconds until the last minute is empty, without further use."""
        last = max(self.spans, default=None)
        return 0.0 if last is None else max(0.0, (last + SPANS) * SPAN_S - at)


def day_of(at: float) -> int:
    """Return the day of a time, in days since 1970."""
    return int(at // DAY_S)


@lru_cache(64)
def month_of(day: int) -> int:
    """Return the month of a day, in months since the year 0."""
    date = datetime.fromtimestamp(day * DAY_S, UTC)
    return date.year * 12 + date.month - 1


def month_starts_at(month: int) -> int:
    """Return the start of a month, in unix seconds."""
    return int(datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC).timestamp())


def ends_at(limit: Limit, at: float) -> int:
    """Return the end of the current day or month of a limit, in unix seconds."""
    day = day_of(at)
    return month_starts_at(month_of(day) + 1) if limit.per == "month" else (day + 1) * DAY_S


def reserve(states: Mapping[str, AccountState], request: ReservationRequest) -> Grant:
    """Reserve a stream's maximum cost in all of its accounts, or in none.

    Raises:
        LimitReached: an account has not enough left.
    """
    output = request.output_tokens
    day, span = request.day, request.span
    month = month_of(day)
    for account in request.accounts:
        state = states[account.name]
        state.turn(day, month, span)
        output = _check(account, state, request, output)
    grant = Grant(output)
    reserved = request.reservation(output)
    for account in request.accounts:
        state = states[account.name]
        state.running += 1
        state.day.held_nano_usd += reserved.nano_usd
        state.month.held_nano_usd += reserved.nano_usd
        if account.counts_minutes:
            state.add(span, 1, reserved.tokens)
            grant = with_rate_limits(grant, account, state, request)
    return grant


def settle(
    states: Mapping[str, AccountState],
    request: ReservationRequest,
    reserved: Reservation,
    settlement: Settlement,
) -> None:
    """Replace a stream's reservation by its cost."""
    for account in request.accounts:
        state = states[account.name]
        state.running = max(0, state.running - 1)
        state.day.settle(reserved, settlement)
        state.month.settle(reserved, settlement)
        if state.spans and request.span in state.spans:
            state.add(request.span, 0, settlement.tokens - reserved.tokens)


def _check(account: Account, state: AccountState, request: ReservationRequest, output: int) -> int:
    """Return the maximum output tokens by one account, at most `output`.

    Raises:
        LimitReached: not enough is left.
    """
    for limit in LIMITS:
        most = getattr(account, limit.field)
        if most is None:
            continue
        start, each = request.need(limit)
        if not (start or each):
            continue  # free of charge, regardless of what is left
        left, least = most - state.used(limit) - start, each * request.least_output_tokens
        if left < least:
            raise _refused(account, limit, request, state, short=least - left)
        if each:
            output = min(output, left // each)
    return output


def _wait_s(state: AccountState, at: float, which: int, excess: int) -> float:
    """Return the seconds until `excess` of the usage is more than a minute old."""
    for span in sorted(state.spans):
        excess -= state.spans[span][which]
        if excess <= 0:
            return max(1.0, (span + SPANS) * SPAN_S - at)
    return float(SPANS * SPAN_S)


def with_rate_limits(
    grant: Grant, account: Account, state: AccountState, request: ReservationRequest
) -> Grant:
    """Return a grant with the usage of an account, if it is the caller's.

    Usage of other accounts is not disclosed: it would reveal the traffic of others. Only the
    sum of the spans and the last span matter.
    """
    if not _is_own(account, request):
        return grant
    found = {
        limit.counts: _rate_limit(account, limit, state, request.at)
        for limit in LIMITS
        if limit.per == "minute"
    }
    return grant._replace(requests=found["requests"], tokens=found["tokens"])


def _rate_limit(
    account: Account, limit: Limit, state: AccountState, at: float
) -> RateLimitState | None:
    """Return the usage of a limit per minute; None if the account has no such limit."""
    most = getattr(account, limit.field)
    if most is None:
        return None
    return RateLimitState(most, max(0, most - state.used(limit)), state.clears_in(at))


def _refused(
    account: Account, limit: Limit, request: ReservationRequest, state: AccountState, *, short: int
) -> LimitReached:
    """Return the error for a limit that has too little left, with numbers of the caller's only."""
    own = _is_own(account, request)
    owner = OWNERS.get(account.name.partition(":")[0], "your")
    most = getattr(account, limit.field)
    wait_s = STREAMS_RETRY_S
    match limit.per:
        case None:
            when = "at once"
        case "minute":
            when = "a minute"
            wait_s = _wait_s(state, request.at, limit.counts == "tokens", short)
        case "day" | "month":
            when = _RESERVED
            if state.period(limit).held_nano_usd < short:  # even if streams release all of it
                start = "at" if limit.per == "day" else "on the 1st at"
                when = f"; the next {limit.per} begins {start} 00:00 UTC"
                wait_s = math.ceil(ends_at(limit, request.at) - request.at)
    if limit.counts == "nano_usd":
        usd = f" of {to_usd(most)} USD" if own else ""
        message = f"{owner} budget{usd} for the {limit.per} has no room for this request{when}"
    else:
        number = f"{most} " if own else ""
        reached = (
            f"has no room for this request of about {request.input_tokens} tokens and its answer"
            if limit.counts == "tokens"
            else "is reached"
        )
        message = f"{owner} limit of {number}{limit.counts} {when} {reached}"
    rate_limit = (
        _rate_limit(account, limit, state, request.at) if own and limit.per == "minute" else None
    )
    return LimitReached(account.name, limit, message, retry_after_s=wait_s, rate_limit=rate_limit)


def _is_own(account: Account, request: ReservationRequest) -> bool:
    """Return whether an account is the caller's, so that its usage may be disclosed."""
    return not request.accounts or account.name == request.accounts[-1].name


_RESERVED: Final = (
    " while running streams reserve the rest; try again when they have ended, and limit the "
    "output of the request"
)

OWNERS: Final = {
    "relay": "the relay's",
    "tenant": "the organization's",
    "key": "the key's",
    "user": "your",
}
"""By the kind of an account, without names."""


def fresh_states(
    known: Mapping[str, AccountState], accounts: Iterable[Account]
) -> dict[str, AccountState]:
    """Return the states of accounts, new ones if unknown."""
    return {
        account.name: known[account.name] if account.name in known else AccountState()
        for account in accounts
    }


def is_over(name: str, state: AccountState, day: int) -> bool:
    """Return whether an account's usage cannot matter on a day or later.

    That is after its month; for client secrets, which last at most a day, after two days.
    """
    last = state.day.number
    ended = last < day - 1 if name.startswith("secret:") else month_of(last) < month_of(day)
    return not state.running and ended
