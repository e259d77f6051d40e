"""Usage of an account, and what is left of its limits, as operators and callers read it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from .accounts import (
    DAY_S,
    Account,
    AccountState,
    Period,
    day_of,
    ends_at,
    month_of,
    month_starts_at,
)
from .config import LIMITS, Limit
from .rates import to_usd


class PeriodUsage(msgspec.Struct, frozen=True):
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


class LimitUsage(msgspec.Struct, frozen=True):
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


class AccountUsage(msgspec.Struct, frozen=True):
    """The usage of an account."""

    at: str
    account: dict[str, str]
    today: PeriodUsage
    month: PeriodUsage
    streams: int
    """Running streams."""
    limits: dict[str, LimitUsage]
    binding: Binding | None


class _Limit(NamedTuple):
    """A limit of an account and what is left of it, with money in nano-USD."""

    kind: Limit
    limit: int
    left: int

    @property
    def fraction(self) -> float:
        return self.left / self.limit if self.limit else 0.0


def usage_of(
    accounts: Sequence[Account], states: Sequence[AccountState], at: float
) -> AccountUsage:
    """Return the usage of the last account; of the others, only whether one is the binding limit.

    The states are advanced to the time `at`, in unix seconds.
    """
    limits: list[_Limit] = []
    nearest: tuple[float, Binding] | None = None
    for account, state in zip(accounts, states, strict=True):
        state.turn_to(at)
        limits = _limits_of(account, state)
        for limit in limits:
            if nearest is None or limit.fraction <= nearest[0]:  # of equal ones, the caller's own
                kind = account.name.partition(":")[0]
                binding = Binding(kind, limit.kind.name, reached=limit.left <= 0)
                nearest = (limit.fraction, binding)
    account, state = accounts[-1], states[-1]
    day, month = _bounds(at)
    return AccountUsage(
        _time(at),
        describe(account),
        today=_period_usage(state.day, day),
        month=_period_usage(state.month, month),
        streams=state.running,
        limits={limit.kind.name: _limit_usage(limit, state, at) for limit in limits},
        binding=nearest[1] if nearest else None,
    )


class Share(NamedTuple):
    """The used share of a budget."""

    used: float
    """0 to 1."""
    kind: str
    """The account's kind, such as "user"."""
    limit: str
    """The limit's name, such as "usd_per_day"."""


def most_spent(
    accounts: Sequence[Account], states: Sequence[AccountState], at: float
) -> Share | None:
    """Return the budget with the largest used share, with reservations; None without a budget.

    The states are advanced to the time `at`, in unix seconds.
    """
    shares = []
    for account, state in zip(accounts, states, strict=True):
        state.turn_to(at)
        kind = account.name.partition(":")[0]
        shares += [
            Share(1 - limit.fraction, kind, limit.kind.name)
            for limit in _limits_of(account, state)
            if limit.kind.counts == "nano_usd"
        ]
    return max(shares, default=None)


def _limits_of(account: Account, state: AccountState) -> list[_Limit]:
    """Return all limits of an account, whose state is current."""
    return [
        _Limit(kind, limit, left=max(0, limit - state.used(kind)))
        for kind in LIMITS
        if (limit := getattr(account, kind.field)) is not None
    ]


def _limit_usage(limit: _Limit, state: AccountState, at: float) -> LimitUsage:
    resets_at = None
    if limit.kind.per is not None:
        in_minute = limit.kind.per == "minute"
        resets_at = _time(at + state.clears_in(at) if in_minute else ends_at(limit.kind, at))
    if limit.kind.counts == "nano_usd":
        return LimitUsage(to_usd(limit.limit), to_usd(limit.left), resets_at)
    return LimitUsage(limit.limit, limit.left, resets_at)


def _bounds(at: float) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the start and the end of the current day, and of the current month."""
    day = day_of(at)
    month = month_of(day)
    return (day * DAY_S, (day + 1) * DAY_S), (month_starts_at(month), month_starts_at(month + 1))


def _period_usage(period: Period, bounds: tuple[int, int]) -> PeriodUsage:
    return PeriodUsage(
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
