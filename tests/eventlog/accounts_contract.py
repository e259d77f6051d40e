"""The contract of a log with accounts: `create` reserves, the end settles, once.

A test module of a log imports `*` from here too; see `contract`.
"""

import asyncio
import random
from typing import Any

import pytest

from app.errors import RelayError
from app.eventlog import EventLog
from app.eventlog.accounts import Accounts
from app.eventlog.recovery import Closing, OrphanedStream
from app.eventlog.stream_info import StreamInfo
from app.events import StreamEnd, StreamStart, TextDelta
from app.ledger.accounts import (
    NOTHING,
    Account,
    AccountState,
    LimitReached,
    Period,
    RateLimitState,
    Reservation,
    ReservationRequest,
    Settlement,
    fresh_states,
    reserve,
    settle,
)

AT = 1_000_000.0
MONEY = 30
BEGUN = StreamStart("st_1", "demo", 0)
DONE = StreamEnd("completed", "stop")
SPENT = Settlement(10, 20, MONEY, row=b"row")


def asking(*accounts: Account, at: float = AT, **fields: Any) -> ReservationRequest:
    """Return a request for 10 tokens of input and up to 100 of output, of 1 nano-USD each."""
    defaults = {
        "input_tokens": 10,
        "output_tokens": 100,
        "least_output_tokens": 5,
        "input_nano_usd": 10,
        "output_nano_usd": 1,
    }
    return ReservationRequest(accounts or (Account("relay"),), at, **{**defaults, **fields})


def info(stream: str, request: ReservationRequest, **fields: Any) -> StreamInfo:
    return StreamInfo(stream, created_at=request.at, reserve=request, **fields)


@pytest.fixture
def accounts(event_log) -> Accounts:
    """The accounts of the log; it has them itself, unless its module has another fixture."""
    return event_log


async def state_of(accounts: Accounts, name: str = "relay") -> AccountState:
    (state,) = await accounts.read_accounts([name])
    return state


def period(state: AccountState) -> Period:
    """Return the day, which is the month but for its number."""
    assert (state.day.nano_usd, state.day.held_nano_usd) == (
        state.month.nano_usd,
        state.month.held_nano_usd,
    )
    return state.day


async def claimed(event_log: EventLog, wanted: StreamInfo) -> tuple[Any, LimitReached | None]:
    """Open a stream; return its claim, or why it was refused."""
    try:
        return await event_log.create(wanted), None
    except LimitReached as error:
        return None, error


async def refusal(event_log: EventLog, wanted: StreamInfo) -> LimitReached | None:
    """Open a stream; return why it was refused, if it was."""
    return (await claimed(event_log, wanted))[1]


def rounded(rate_limit: RateLimitState | None) -> tuple[float, ...] | None:
    return None if rate_limit is None else tuple(round(number, 3) for number in rate_limit)


def told(error: LimitReached) -> tuple[object, ...]:
    wait_s = round(error.retry_after_s or 0, 3)
    return (str(error), error.account, error.limit.name, rounded(error.rate_limit), wait_s)


async def run(
    event_log: EventLog, stream: str, request: ReservationRequest, settlement: Settlement = SPENT
) -> None:
    await event_log.create(info(stream, request))
    await event_log.append(stream, [BEGUN])
    await event_log.append(stream, [DONE], settlement)


async def test_an_account_that_nobody_used_is_empty(event_log, accounts):
    assert AccountState() == await state_of(accounts, "user:a:nobody")


async def test_what_a_stream_may_cost_is_held_until_its_end(event_log, accounts):
    claim = await event_log.create(info("st_1", asking()))
    state = await state_of(accounts)
    assert (100, 1, 110, 0) == (
        claim.grant.output_tokens,
        state.running,
        period(state).held_nano_usd,
        period(state).nano_usd,
    )

    await event_log.append("st_1", [BEGUN])
    assert 110 == period(await state_of(accounts)).held_nano_usd
    await event_log.append("st_1", [DONE], SPENT)

    state = await state_of(accounts)
    assert (0, 0, MONEY) == (state.running, state.day.held_nano_usd, period(state).nano_usd)
    assert (1, 10, 20) == (state.day.requests, state.day.input_tokens, state.day.output_tokens)


async def test_a_budget_is_never_passed_and_the_longest_answer_fits_into_it(event_log):
    account = Account("user:a:u", nano_usd_per_day=150)
    first = await event_log.create(info("st_1", asking(account)))
    second = await event_log.create(info("st_2", asking(account)))
    assert (100, 30) == (first.grant.output_tokens, second.grant.output_tokens)
    with pytest.raises(LimitReached) as refused:
        await event_log.create(info("st_3", asking(account)))

    assert "budget_exceeded" == refused.value.code
    assert ("user:a:u", "usd_per_day") == (refused.value.account, refused.value.limit.name)
    with pytest.raises(RelayError, match="no stream"):
        await event_log.state("st_3")


async def test_budget_of_a_month_outlasts_the_day(event_log, accounts, clock):
    account = Account("relay", nano_usd_per_day=100, nano_usd_per_month=120)
    request = asking(account, at=AT)
    await run(event_log, "st_1", request, Settlement(1, 1, 95))
    with pytest.raises(LimitReached) as refused:
        await event_log.create(info("st_2", request))
    assert "usd_per_day" == refused.value.limit.name

    tomorrow = AT + (refused.value.retry_after_s or 0)
    claim = await event_log.create(info("st_3", asking(account, at=tomorrow)))
    assert 120 - 95 - 10 == claim.grant.output_tokens
    state = await state_of(accounts)
    assert (0, 25) == (state.day.nano_usd, state.day.held_nano_usd)
    assert (95, 25) == (state.month.nano_usd, state.month.held_nano_usd)


async def test_a_stream_that_outlasts_its_day_counts_in_the_next(event_log, accounts):
    """Its reservation too, so that the budget of the next day has room for it."""
    account = Account("relay", nano_usd_per_day=150)
    await event_log.create(info("st_1", asking(account, at=AT)))
    await event_log.append("st_1", [BEGUN])
    second = await event_log.create(info("st_2", asking(account, at=AT + 86_400)))
    assert 150 - 110 - 10 == second.grant.output_tokens
    await event_log.append("st_2", [BEGUN, DONE], Settlement(1, 1, 7))
    await event_log.append("st_1", [DONE], SPENT)

    state = await state_of(accounts)
    assert (2, 7 + MONEY, 0) == (state.day.requests, state.day.nano_usd, state.day.held_nano_usd)
    assert (7 + MONEY, 0) == (state.month.nano_usd, state.month.held_nano_usd)


async def test_what_is_free_needs_no_budget(event_log):
    account = Account("relay", nano_usd_per_day=0)
    free = asking(account, input_nano_usd=0, output_nano_usd=0)
    assert 100 == (await event_log.create(info("st_1", free))).grant.output_tokens
    with pytest.raises(LimitReached):
        await event_log.create(info("st_2", asking(account)))


async def test_no_more_requests_than_the_limit_come_in_any_minute(event_log):
    account = Account("key:k", requests_per_minute=3)
    taken = []
    for second in range(150):
        refused = await refusal(event_log, info(f"st_{second}", asking(account, at=AT + second)))
        if refused is None:
            taken.append(second)
        else:
            assert "rate_limited" == refused.code
            assert 1 <= (refused.retry_after_s or 0) <= 65
    assert all(sum(t <= other < t + 60 for other in taken) <= 3 for t in taken)
    assert 7 <= len(taken)


async def test_whoever_waits_as_long_as_was_said_is_let_in(event_log):
    account = Account("key:k", requests_per_minute=2, tokens_per_minute=300)
    at = AT
    for number in range(12):
        try:
            await event_log.create(info(f"st_{number}", asking(account, at=at)))
        except LimitReached as error:
            at += error.retry_after_s or 0
            await event_log.create(info(f"st_{number}", asking(account, at=at)))
        at += 3


async def test_tokens_of_a_minute_are_those_that_were_used_in_the_end(event_log):
    account = Account("user:a:u", tokens_per_minute=200)
    first = await event_log.create(info("st_1", asking(account)))
    assert (100, 200, 90) == (
        first.grant.output_tokens,
        first.grant.tokens.limit,
        first.grant.tokens.remaining,
    )
    second = await event_log.create(info("st_2", asking(account)))
    assert 80 == second.grant.output_tokens
    with pytest.raises(LimitReached) as refused:
        await event_log.create(info("st_3", asking(account)))
    assert refused.value.rate_limit is not None
    assert (200, 0) == refused.value.rate_limit[:2]

    await event_log.append("st_1", [BEGUN])
    await event_log.append("st_1", [DONE], Settlement(10, 20, 0))
    assert 70 == (await event_log.create(info("st_3", asking(account)))).grant.output_tokens


async def test_several_answers_are_reserved_for_together(event_log, accounts):
    account = Account("relay", nano_usd_per_day=100, tokens_per_minute=70)
    claim = await event_log.create(info("st_1", asking(account, choices=3)))
    assert 20 == claim.grant.output_tokens
    assert 70 == period(await state_of(accounts)).held_nano_usd


async def test_the_input_of_a_second_call_is_reserved_too(event_log, accounts):
    account = Account("relay", nano_usd_per_day=200, tokens_per_minute=300)
    again = {"again_tokens": 110, "again_nano_usd": 60}
    claim = await event_log.create(info("st_1", asking(account, **again)))

    assert 100 == claim.grant.output_tokens
    assert 170 == period(await state_of(accounts)).held_nano_usd
    second = await refusal(event_log, info("st_2", asking(account, **again)))
    assert second is not None
    assert second.limit.name in ("usd_per_day", "tokens_per_minute")


async def test_streams_at_once_are_counted(event_log):
    account = Account("relay", streams=2)
    for number in range(2):
        await event_log.create(info(f"st_{number}", asking(account)))
    with pytest.raises(LimitReached) as refused:
        await event_log.create(info("st_2", asking(account)))
    assert ("streams", "rate_limited") == (refused.value.limit.name, refused.value.code)

    await event_log.append("st_0", [BEGUN, DONE], SPENT)
    await event_log.create(info("st_2", asking(account)))


async def test_all_accounts_give_or_none(event_log, accounts):
    wide, narrow = Account("relay", requests_per_minute=100), Account("key:k", streams=0)
    with pytest.raises(LimitReached) as refused:
        await event_log.create(info("st_1", asking(wide, narrow)))
    assert "key:k" == refused.value.account
    state = await state_of(accounts)
    assert (0, 0, {}) == (state.running, state.day.held_nano_usd, state.spans)


async def test_at_once_no_more_are_let_in_than_a_budget_has_room_for(event_log, accounts):
    account = Account("relay", nano_usd_per_day=10 * 110)
    asked = [event_log.create(info(f"st_{n}", asking(account))) for n in range(100)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert 10 == sum(not isinstance(outcome, LimitReached) for outcome in outcomes)
    assert 1100 == period(await state_of(accounts)).held_nano_usd


async def test_a_key_that_leads_to_a_stream_reserves_nothing(event_log, accounts):
    account = Account("relay", requests_per_minute=1)
    first = info("st_1", asking(account), key="k", digest="d")
    await event_log.create(first)
    await event_log.append("st_1", [BEGUN])
    claim = await event_log.create(info("st_2", asking(account), key="k", digest="d"))
    assert ("st_1", None) == (claim.stream, claim.grant)
    assert 1 == (await state_of(accounts)).running


async def test_a_stream_that_never_began_leaves_nothing_held(event_log, accounts):
    await event_log.create(info("st_1", asking()))
    await event_log.delete("st_1")
    state = await state_of(accounts)
    assert (0, 0, 0, 0) == (
        state.running,
        state.day.requests,
        state.day.nano_usd,
        period(state).held_nano_usd,
    )


def closing(lost: OrphanedStream) -> Closing:
    """Cost as many nano-USD as the answer has quarters of tokens."""
    row = lost.ended.info.id.encode()
    return Closing(lost.ended, Settlement(10, 1, lost.weight, row=row))


async def test_a_stream_that_is_removed_while_it_runs_costs_what_was_used(
    event_log, accounts, callbacks
):
    callbacks.close = closing
    await event_log.create(info("st_1", asking()))
    await event_log.append("st_1", [BEGUN, TextDelta(0, "12345678")])
    await event_log.delete("st_1")
    state = await state_of(accounts)
    assert (0, 0, 8) == (state.running, state.day.held_nano_usd, period(state).nano_usd)


async def test_what_ends_without_a_settlement_holds_nothing(event_log, accounts):
    await event_log.create(info("st_1", asking()))
    await event_log.append("st_1", [BEGUN, DONE])
    state = await state_of(accounts)
    assert (0, 0, 0) == (state.running, state.day.held_nano_usd, period(state).nano_usd)


async def test_an_unknown_price_is_counted_as_one(event_log, accounts):
    await run(event_log, "st_1", asking(), Settlement(1, 2, None))
    state = await state_of(accounts)
    assert (0, 1) == (state.day.nano_usd, state.day.unpriced)


@pytest.mark.parametrize("seed", range(6))
async def test_it_counts_as_the_plain_arithmetic_does(event_log, accounts, seed):
    """Do hundreds of random steps, and compare every outcome and every number."""
    chance = random.Random(seed)
    pool = [
        Account("relay", nano_usd_per_month=60_000),
        Account("tenant:a", streams=6, nano_usd_per_day=4_000),
        Account("key:k", requests_per_minute=8),
        Account("user:a:u", tokens_per_minute=900, nano_usd_per_day=2_000),
        Account("user:a:v"),
    ]
    model: dict[str, AccountState] = {}
    running: dict[str, ReservationRequest] = {}
    held: dict[str, Reservation] = {}
    at = 1_700_000_000.0
    for number in range(250):
        at += chance.choice((0, 0, 1.5, 7, 30, 4_000, 90_000 if number % 50 == 0 else 2))
        if number % 20 == 0:  # the clock is set
            at += chance.choice((-1, 1)) * chance.choice((2, 50, 130, HOUR, 25 * HOUR, 40 * DAY))
        if running and chance.random() < 0.5:
            stream = chance.choice(sorted(running))
            request = running.pop(stream)
            cost = chance.choice((None, 0, 17, 250))
            spent = chance.choice((NOTHING, Settlement(chance.randrange(50), 9, cost, row=b"r")))
            settle(model, request, held.pop(stream), spent)
            await event_log.append(stream, [BEGUN, DONE], spent)
            continue
        stream = f"st_{number}"
        chosen = chance.sample(pool, chance.randrange(1, len(pool) + 1))
        request = asking(
            *chosen,
            at=at - chance.choice((0, 0, 0, 0.5)),  # by another clock
            input_tokens=chance.randrange(200),
            output_tokens=chance.randrange(5, 400),
            choices=chance.choice((1, 1, 2)),
            input_nano_usd=chance.choice((0, 40)),
            output_nano_usd=chance.choice((0, 1, 3)),
        )
        states = fresh_states(model, request.accounts)
        expected: Any
        wanted: LimitReached | None = None
        try:
            expected = reserve(states, request)
        except LimitReached as error:
            wanted = error
        if wanted is not None:
            got = await refusal(event_log, info(stream, request))
            assert got is not None
            assert told(wanted) == told(got)
            continue
        model |= states
        running[stream] = request
        held[stream] = request.reservation(expected.output_tokens)
        claim = await event_log.create(info(stream, request))
        assert (expected.output_tokens, *map(rounded, expected[1:])) == (
            *(claim.grant.output_tokens, *map(rounded, claim.grant[1:])),
        )
    states = await accounts.read_accounts([account.name for account in pool])
    for account, state in zip(pool, states, strict=True):
        expected = model.get(account.name, AccountState())
        for numbers in (expected, state):  # which spans are forgotten when is each log's own
            numbers.turn_to(at)
            numbers.spans = {s: n for s, n in numbers.spans.items() if any(n)}
        assert expected == state


@pytest.mark.parametrize("late_s", [0.001, 50, 3_600, 80_000])
async def test_a_request_of_yesterday_that_comes_late_counts_today(event_log, accounts, late_s):
    midnight = 1_700_006_400.0
    await event_log.create(info("st_1", asking(at=midnight + 0.001)))
    await event_log.create(info("st_2", asking(at=midnight - late_s)))
    assert (2, 220) == ((state := await state_of(accounts)).running, period(state).held_nano_usd)
    for stream in ("st_1", "st_2"):
        await event_log.append(stream, [BEGUN, DONE], SPENT)
    state = await state_of(accounts)
    assert (0, 0, 2, 2 * MONEY) == (
        *(state.running, period(state).held_nano_usd, state.day.requests, state.day.nano_usd),
    )


HOUR, DAY, WEEK, YEAR = 3_600, 86_400, 7 * 86_400, 365 * 86_400
NOON = 1_700_049_600.0
"""Of 15 November 2023, a Wednesday in the middle of a month."""
MONTHS_END = NOON + 15 * DAY
"""The noon before the last of that month's midnights."""
BY_DAY = Account("relay", nano_usd_per_day=100)
BY_MONTH = Account("relay", nano_usd_per_month=100)

CLOCKS: dict[str, tuple[Account, float, list[tuple[float, int, int]]]] = {
    # Of each: the account, a time, and steps: what the clock says after that time, what is spent
    # then, and what is left of 100 afterwards.
    "midnight": (BY_DAY, NOON, [(0, 60, 40), (12 * HOUR, 30, 70)]),
    "50 s ahead before midnight": (
        *(BY_DAY, NOON + 12 * HOUR),
        [(-HOUR, 60, 40), (10, 40, 60), (-39, 20, 40), (-30, 40, 0), (5, 0, 0), (DAY, 0, 100)],
    ),
    "6 h ahead in the evening": (
        *(BY_DAY, NOON + 6 * HOUR),
        [(0, 90, 10), (6 * HOUR, 40, 60), (1, 60, 0), (6 * HOUR, 0, 0), (30 * HOUR, 0, 100)],
    ),
    "50 s behind after midnight": (
        BY_DAY,
        NOON + 12 * HOUR,
        [(1, 60, 40), (-49, 40, 0), (2, 0, 0)],
    ),
    **{
        f"{name} behind for one request": (
            *(BY_DAY, NOON),
            [(0, 70, 30), (-back, 30, 0), (1, 0, 0), (DAY, 0, 100)],
        )
        for name, back in {"25 h": 25 * HOUR, "47 h": 47 * HOUR, "a week": WEEK}.items()
    },
    "25 h behind after midnight": (
        *(BY_DAY, NOON - 11 * HOUR),
        [(0, 100, 0), (-25 * HOUR, 0, 0), (1, 0, 0), (DAY, 0, 100)],
    ),
    "a clock that begins in 1970": (BY_DAY, NOON, [(0, 80, 20), (9 - NOON, 20, 0), (60, 0, 0)]),
    **{
        f"{name} ahead for one request": (
            *(BY_DAY, NOON),
            [
                (0, 70, 30),
                (ahead, 10, 90),
                (1, 10, 10),
                (2, 10, 0),
                (DAY, 0, 100),
                (2 * DAY, 9, 91),
            ],
        )
        for name, ahead in {"50 h": 50 * HOUR, "a week": WEEK, "a year": YEAR}.items()
    },
    "a year ahead, used up": (BY_DAY, NOON, [(YEAR, 100, 0), (0, 0, 0), (DAY, 0, 100)]),
    "a year ahead, twice": (
        *(BY_DAY, NOON),
        [(0, 50, 50), (YEAR, 20, 80), (1, 20, 10), (YEAR, 10, 50), (2, 0, 0), (DAY, 0, 100)],
    ),
    "back in two steps": (BY_DAY, NOON, [(0, 80, 20), (-WEEK, 10, 10), (-YEAR, 10, 0), (1, 0, 0)]),
    "50 s ahead before the month": (
        *(BY_MONTH, MONTHS_END + 12 * HOUR),
        [(-HOUR, 60, 40), (10, 40, 60), (-39, 60, 0), (5, 0, 0), (31 * DAY, 0, 100)],
    ),
    "3 weeks behind for one request": (
        *(BY_MONTH, NOON),
        [(0, 70, 30), (-3 * WEEK, 10, 20), (1, 20, 0), (DAY, 0, 0), (16 * DAY, 0, 100)],
    ),
    "3 weeks behind at midnight": (
        *(BY_MONTH, NOON + 12 * HOUR),
        [(-9, 70, 30), (-3 * WEEK, 30, 0), (9, 0, 0), (16 * DAY, 0, 100)],
    ),
    "3 weeks ahead for one request": (
        *(BY_MONTH, NOON),
        [(0, 70, 30), (3 * WEEK, 10, 90), (1, 10, 10), (DAY, 10, 0), (16 * DAY, 0, 100)],
    ),
    "a year ahead, the month used up": (
        *(BY_MONTH, NOON),
        [(YEAR, 100, 0), (0, 0, 0), (DAY, 0, 0), (16 * DAY, 0, 100)],
    ),
}


@pytest.mark.parametrize("case", CLOCKS)
async def test_a_step_of_a_clock_frees_no_budget_and_takes_none_for_long(event_log, case):
    account, begin, steps = CLOCKS[case]
    found = []
    for number, (after_s, spent, _) in enumerate(steps):
        free = {"at": begin + after_s, "input_nano_usd": 0, "least_output_tokens": 1}
        if spent:
            await run(event_log, f"st_{number}", asking(account, **free), Settlement(0, 0, spent))
        claim, refused = await claimed(event_log, info(f"left_{number}", asking(account, **free)))
        if refused is None:
            await event_log.append(claim.stream, [BEGUN, DONE], Settlement(0, 0, 0))
        assert refused is None or 31 * DAY >= (refused.retry_after_s or 0)
        found.append((after_s, spent, claim.grant.output_tokens if refused is None else 0))
    assert steps == found


MINUTES: dict[str, list[tuple[float, bool]]] = {
    # What the clock says, and whether one more of two requests a minute is let in.
    "a minute": [(0, True), (1, True), (59, False), (66, True)],
    **{
        f"{name} behind for one request": [
            *[(0, True), (1, True), (2 - back, False), (3, False), (20, False)],
            (140, True),
        ]
        for name, back in {"30 s": 30, "2 min": 120, "25 h": 25 * HOUR, "a year": YEAR}.items()
    },
    **{
        f"{name} ahead, then right": [
            *[(ahead, True), (1 + ahead, True), (2, False), (3, False)],
            *[(100, True), (250, True), (251, True), (252, False)],
        ]
        for name, ahead in {"30 s": 30, "2 min": 120, "25 h": 25 * HOUR, "a year": YEAR}.items()
    },
}


@pytest.mark.parametrize("case", MINUTES)
async def test_a_step_of_a_clock_frees_no_minute_and_takes_none_for_long(event_log, case):
    account = Account("key:k", requests_per_minute=2)
    found = []
    for number, (after_s, _) in enumerate(MINUTES[case]):
        refused = await refusal(event_log, info(f"st_{number}", asking(account, at=NOON + after_s)))
        found.append((after_s, refused is None))
        assert refused is None or 65 + 60 >= (refused.retry_after_s or 0)
    assert MINUTES[case] == found
