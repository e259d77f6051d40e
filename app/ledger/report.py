"""Usage reports: an account's usage and remaining limits."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from .accounts import (
    DAY_S,
    Account,
    AccountState,
    Grant,
    Period,
    ReservationRequest,
    day_of,
    month_of,
    month_starts_at,
    with_standing,
)
from .money import to_usd


class PeriodReport(msgspec.Struct, frozen=True):
    """A day or a month; sums of money are decimal US dollars."""

    began_at: str
    ends_at: str
    requests: int
    input_tokens: int
    output_tokens: int
    cost: str
    held: str
    """Reserved for running streams, and partly released."""
    unpriced: int
    """The number of streams of unknown price, which `cost` excludes."""


class LimitReport(msgspec.Struct, frozen=True):
    """A limit, and what is left of it."""

    limit: int | str
    remaining: int | str
    resets_at: str | None = None
    """When all of it is available at the latest; None if that is when streams end."""


class Binding(msgspec.Struct, frozen=True):
    """The limit with the lowest remaining fraction."""

    kind: str
    """Of the account: `relay`, `tenant`, `key`, `user`, `secret`."""
    limit: str
    reached: bool


class Report(msgspec.Struct, frozen=True):
    """The usage report of an account."""

    at: str
    account: dict[str, str]
    today: PeriodReport
    month: PeriodReport
    streams: int
    """Running streams."""
    limits: dict[str, LimitReport]
    binding: Binding | None


class Use(msgspec.Struct, frozen=True):
    """Usage and limit; None: no limit, or not counted."""

    used: int | None
    limit: int | None


class Money(msgspec.Struct, frozen=True):
    """Spending in a day or a month, in decimal US dollars."""

    used: str
    held: str
    limit: str | None


class Overview(msgspec.Struct, frozen=True):
    """Short usage report of one account."""

    kind: str
    name: str | None
    day: Money
    month: Money
    streams: Use
    requests_per_minute: Use
    tokens_per_minute: Use


def overview(account: Account, state: AccountState) -> Overview:
    """Return the short report of an account, from its current state."""
    described = describe(account)
    kind = described["kind"]
    requests, tokens = state.last_minute()
    per_minute = (account.requests_per_minute, account.tokens_per_minute)
    counted = per_minute != (None, None)  # otherwise they are not counted
    return Overview(
        kind,
        described.get(kind),
        day=_money(state.day, account.nano_usd_per_day),
        month=_money(state.month, account.nano_usd_per_month),
        streams=Use(state.running, account.streams),
        requests_per_minute=Use(requests if counted else None, per_minute[0]),
        tokens_per_minute=Use(tokens if counted else None, per_minute[1]),
    )


def _money(period: Period, limit: int | None) -> Money:
    return Money(
        to_usd(period.nano_usd),
        to_usd(period.held_nano_usd),
        None if limit is None else to_usd(limit),
    )


class _Limit(NamedTuple):
    """A limit of an account and what is left of it, with money in nano-USD."""

    name: str
    limit: int
    left: int
    reset_at: float | None
    is_money: bool = False

    @property
    def fraction(self) -> float:
        return self.left / self.limit if self.limit else 0.0


def report(accounts: Sequence[Account], states: Sequence[AccountState], at: float) -> Report:
    """Return the report of the last account; of the others, only whether one is the binding limit.

    The states are advanced to the time `at`, in unix seconds.
    """
    limits: list[_Limit] = []
    nearest: tuple[float, Binding] | None = None
    for account, state in zip(accounts, states, strict=True):
        state.turn_to(at)
        limits = _limits_of(account, state, at)
        for limit in limits:
            if nearest is None or limit.fraction <= nearest[0]:  # of equal ones, the caller's own
                kind = account.name.partition(":")[0]
                binding = Binding(kind, limit.name, reached=limit.left <= 0)
                nearest = (limit.fraction, binding)
    account, state = accounts[-1], states[-1]
    day, month = _bounds(at)
    return Report(
        _time(at),
        describe(account),
        today=_report_period(state.day, day),
        month=_report_period(state.month, month),
        streams=state.running,
        limits={limit.name: _report_limit(limit) for limit in limits},
        binding=nearest[1] if nearest else None,
    )


def _limits_of(account: Account, state: AccountState, at: float) -> list[_Limit]:
    """Return all limits of an account, whose state is current."""
    standing = with_standing(Grant(0), account, state, ReservationRequest((), at))
    found = [
        _Limit(name, each.limit, left=each.remaining, reset_at=at + each.reset_s)
        for name, each in (
            ("requests_per_minute", standing.requests),
            ("tokens_per_minute", standing.tokens),
        )
        if each is not None
    ]
    if account.streams is not None:
        found.append(
            _Limit("streams", account.streams, left=account.streams - state.running, reset_at=None)
        )
    day, month = _bounds(at)
    for name, limit, period, (_, ends_at) in (
        ("usd_per_day", account.nano_usd_per_day, state.day, day),
        ("usd_per_month", account.nano_usd_per_month, state.month, month),
    ):
        if limit is not None:
            left = limit - period.nano_usd - period.held_nano_usd
            found.append(_Limit(name, limit, left=left, reset_at=ends_at, is_money=True))
    return [limit._replace(left=max(0, limit.left)) for limit in found]


def _report_limit(limit: _Limit) -> LimitReport:
    reset_at = None if limit.reset_at is None else _time(limit.reset_at)
    if limit.is_money:
        return LimitReport(to_usd(limit.limit), to_usd(limit.left), reset_at)
    return LimitReport(limit.limit, limit.left, reset_at)


def _bounds(at: float) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the start and the end of the current day, and of the current month."""
    day = day_of(at)
    month = month_of(day)
    return (day * DAY_S, (day + 1) * DAY_S), (month_starts_at(month), month_starts_at(month + 1))


def _report_period(period: Period, bounds: tuple[int, int]) -> PeriodReport:
    return PeriodReport(
        _time(bounds[0]),
        _time(bounds[1]),
        requests=period.requests,
        input_tokens=period.input_tokens,
        output_tokens=period.output_tokens,
        cost=to_usd(period.nano_usd),
        held=to_usd(period.held_nano_usd),
        unpriced=period.unpriced,
    )


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(int(at), UTC):%Y-%m-%dT%H:%M:%SZ}"


def describe(account: Account) -> dict[str, str]:
    """Return the kind and the owner in an account's name."""
    kind, *parts = map(unquote, account.name.split(":"))
    match kind, parts:
        case "user", [tenant, user]:
            return {"kind": kind, "tenant": tenant, "user": user}
        case (("tenant" | "key"), [name]):
            return {"kind": kind, kind: name}
        case _:  # the name of a client secret has no meaning
            return {"kind": kind}
