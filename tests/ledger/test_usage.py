"""What accounts are told of: months, days and names, at any time."""

from datetime import UTC, datetime, timedelta

import pytest

from app.generation.reservation import Reservations
from app.identity.principal import Principal
from app.ledger.accounts import Account, AccountState, Period, day_of, month_of
from app.ledger.accounts import month_starts_at as starts_at
from app.ledger.config import LimitsConfig, UsageLimits
from app.ledger.prices import PriceBook
from app.ledger.usage import describe, most_spent, usage_of

pytestmark = pytest.mark.pure


def test_months_begin_when_they_do():
    at = datetime(1969, 12, 1, tzinfo=UTC)
    while at.year < 2110:
        seconds = int(at.timestamp())
        month = month_of(day_of(seconds))
        assert (at.year * 12 + at.month - 1, seconds) == (month, starts_at(month))
        assert month - 1 == month_of(day_of(seconds - 1))
        at = (at + timedelta(days=32)).replace(day=1)


def test_what_was_yesterday_and_last_month_counts_no_more():
    at = datetime(2026, 12, 1, 0, 0, 1, tzinfo=UTC).timestamp()
    day = day_of(at)
    old = Period(day - 1, 5, 10, 20, 7, 1, 0)
    state = AccountState(
        2, old, Period(month_of(day - 1), 9, 9, 9, 9, 9, 0), {int(at // 5) - 13: (4, 4)}
    )
    limits = UsageLimits(
        requests_per_minute=4, tokens_per_minute=10, streams=3, usd_per_day=1, usd_per_month=2
    )
    account = Account.of("user:a:b%3Ac", limits)
    told = usage_of([account], [state], at)

    month, today = told.month, told.today
    assert ("2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z") == (month.began_at, month.ends_at)
    assert (0, 0, "0", "0") == (today.requests, month.requests, month.cost, today.held)
    assert {"kind": "user", "tenant": "a", "user": "b:c"} == told.account
    assert {
        "streams": 1,
        "requests_per_minute": 4,
        "tokens_per_minute": 10,
        "usd_per_day": "1",
        "usd_per_month": "2",
    } == {name: limit.remaining for name, limit in told.limits.items()}


SPENT = [
    ((90, 100), (0, 0), (0.9, "relay", "usd_per_day")),
    ((10, 950), (20, 0), (0.95, "relay", "usd_per_month")),
    ((10, 100), (97, 0), (0.97, "user", "usd_per_day")),
    ((10, 100), (500, 0), (1.0, "user", "usd_per_day")),
]


@pytest.mark.parametrize(("relay", "user", "wanted"), SPENT)
def test_of_several_budgets_the_fullest_counts_with_what_is_reserved(relay, user, wanted):
    at = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    day = day_of(at)
    usd = 10**9
    states = [
        AccountState(
            day=Period(day, nano_usd=spent_day * usd - usd, held_nano_usd=usd),
            month=Period(month_of(day), nano_usd=spent_month * usd),
        )
        for spent_day, spent_month in (relay, user)
    ]
    accounts = [
        Account.of("relay", UsageLimits(usd_per_day=100, usd_per_month=1000)),
        Account.of("user::a", UsageLimits(usd_per_day=100)),
    ]
    used, kind, limit = most_spent(accounts, states, at) or (0, "", "")
    assert (pytest.approx(used), kind, limit) == wanted
    assert most_spent([Account.of("relay", UsageLimits(streams=3))], states[:1], at) is None


def test_nobodys_account_has_the_name_of_anothers():
    accounts = Reservations(LimitsConfig(), PriceBook(()))
    odd = ["a", "a:b", "a%3Ab", "b", ":", "a/b", "relay", "é", "a b"]
    made: dict[str, str] = {}
    for tenant in (*odd, ""):
        for user in odd:
            account = accounts.accounts_of(Principal(tenant, user))[-1]
            assert account.name not in made
            made[account.name] = user
            assert {"kind": "user", "tenant": tenant, "user": user} == describe(account)
    for name in odd:
        for one in (accounts.key(name), accounts.tenant(name)):
            assert one.name not in made
            made[one.name] = name
