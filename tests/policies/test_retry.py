"""Retries, fallbacks and circuit breakers, without a clock and without chance."""

import itertools
import random
from collections.abc import Sequence

import pytest

from app.errors import CODES, RelayError, UpstreamError
from app.policies.balance import BALANCES, Candidate, arrange
from app.policies.retry import (
    CLAIM_S,
    FAILURES,
    FAULTS,
    FINAL,
    FIRST_PAUSE_S,
    MAX_PAUSE_S,
    OUTCOMES,
    Breaker,
    Plan,
    Rules,
    Step,
    TargetPolicy,
    pause,
)

pytestmark = pytest.mark.pure

BUSY = UpstreamError("upstream_overloaded", "a is busy")
AUTH = UpstreamError("upstream_auth", "a refused the key")
SILENT = UpstreamError("upstream_timeout", "a said nothing")
LIMIT = UpstreamError("upstream_rate_limited", "a is at its limit", retry_after_s=2)
LONG_LIMIT = UpstreamError("upstream_rate_limited", "a is at its limit", retry_after_s=60)
FILTERED = UpstreamError("content_filtered", "a will not")
PAUSE = FIRST_PAUSE_S / 2
RULES = Rules(max_pause_s=30)
COOLDOWN_S = RULES.pause_s


def plan(
    *attempts: int, order: list[int] | None = None, deadline: float = 100, each_s: float = 100
) -> Plan:
    """A plan over targets with so many attempts each, and no chance in it."""
    choices = [TargetPolicy(attempts=count) for count in attempts]
    order = order or list(range(len(choices)))
    times = [each_s] * len(choices)
    return Plan(choices, order, now=0, deadline=deadline, each_s=times, chance=lambda: 0)


def test_every_fault_and_final_code_is_a_code():
    assert FAULTS | FINAL <= CODES.keys()


PLANS = [
    ("a failure that may pass: again and then elsewhere", (2, 2), {}, [(BUSY, 0, Step(0, PAUSE, 2)), (BUSY, 0, Step(1, 0, 3)), (BUSY, 0, Step(1, PAUSE, 4)), (BUSY, 0, None)]),
    ("a failure that will not pass: the next target at once", (5, 1), {}, [(AUTH, 0, Step(1, 0, 2)), (AUTH, 0, None)]),
    ("a wait that is asked for is kept", (2,), {}, [(LIMIT, 0, Step(0, 2, 2))]),
    ("a longer wait is left to the next target or the client", (2, 2), {}, [(LONG_LIMIT, 0, Step(1, 0, 2)), (LONG_LIMIT, 0, None)]),
    ("no attempt begins after the budget", (9,), {"deadline": 10}, [(BUSY, 10 - PAUSE, None)]),
    ("an attempt begins just before the end of the budget", (9,), {"deadline": 10}, [(BUSY, 9.9 - PAUSE, Step(0, PAUSE, 2))]),
    ("a pause that is longer than the budget is not made but elsewhere", (2, 2), {"deadline": 1}, [(LIMIT, 0.5, Step(1, 0, 2)), (BUSY, 1, None)]),
    ("a target that took its time leaves the rest to the next", (2, 2), {"each_s": 10}, [(BUSY, 10, Step(1, 0, 2)), (BUSY, 11, Step(1, PAUSE, 3)), (BUSY, 12, None)]),
    ("a target alone that took its time is not asked again", (2,), {"each_s": 10}, [(BUSY, 10, None)]),
    ("a silent target that another follows is asked once, the last one again", (5, 5), {}, [(SILENT, 10, Step(1, 0, 2)), (SILENT, 20, Step(1, PAUSE, 3))]),
    ("a target is not asked again in the second half of its time", (5, 5), {"each_s": 10}, [(BUSY, 4.5, Step(0, PAUSE, 2)), (BUSY, 5, Step(1, 0, 3))]),
    ("a verdict of a content filter is not got round", (5, 5), {}, [(FILTERED, 0, None)]),
    ("targets are tried in the order that is given", (1, 1, 1), {"order": [2, 0, 1]}, [(AUTH, 0, Step(0, 0, 2)), (AUTH, 0, Step(1, 0, 3)), (AUTH, 0, None)]),
]  # fmt: skip


@pytest.mark.parametrize(("attempts", "options", "failures"), [row[1:] for row in PLANS], ids=[row[0] for row in PLANS])  # fmt: skip
def test_attempt_that_follows_a_failure_at_a_time(attempts, options, failures):
    tried = plan(*attempts, **options)

    assert Step(options.get("order", [0])[0], 0, 1) == tried.first()
    for error, now, following in failures:
        assert following == tried.next(error, now)


def test_a_target_that_is_to_be_left_is_left_if_there_is_another():
    tried = plan(5, 5)
    tried.first()

    assert Step(1, 0, 2) == tried.next(BUSY, 0, again=False)
    assert Step(1, PAUSE, 3) == tried.next(BUSY, 0, again=False)


def test_a_client_that_asks_again_by_itself_is_given_the_failure_of_the_last_target():
    tried = plan(2, 2)
    tried.first()

    assert Step(0, PAUSE, 2) == tried.next(BUSY, 0, client_retries=True)
    assert Step(1, 0, 3) == tried.next(BUSY, 0, client_retries=True)
    assert tried.next(BUSY, 0, client_retries=True) is None


@pytest.mark.parametrize("code", sorted(FINAL))
def test_a_final_failure_is_the_end(code):
    tried = plan(5, 5)
    tried.first()
    error = RelayError(code, "no")

    assert tried.next(error, 0) is None
    assert error is tried.verdict("m", error)


def test_the_wait_that_is_asked_for_is_told_to_the_client():
    tried = plan(2, 2)
    tried.first()
    tried.next(LONG_LIMIT, 0)
    tried.next(LONG_LIMIT, 0)

    assert 60 == tried.verdict("m", LONG_LIMIT).retry_after_s


def test_all_attempts_at_a_target_share_its_time():
    tried = plan(5, 5, each_s=10)
    tried.first()
    assert 10 == tried.silence_s(1, trial=False)
    tried.next(BUSY, 2)
    assert 7 == tried.silence_s(3, trial=False)
    tried.next(SILENT, 10)
    assert 10 == tried.silence_s(12, trial=False)


def test_a_trial_leaves_half_of_the_time_to_others():
    tried = plan(5, 5, each_s=10, deadline=12)
    tried.first()
    assert 6 == tried.silence_s(0, trial=True)
    tried.next(SILENT, 6)
    assert 10 == tried.silence_s(6, trial=True)  # there is nobody else


def test_pauses_double_up_to_the_longest():
    pauses = [pause(failures, chance=1) for failures in range(1, 12)]

    assert FIRST_PAUSE_S == pauses[0]
    assert all(b in (2 * a, MAX_PAUSE_S) for a, b in itertools.pairwise(pauses))
    assert MAX_PAUSE_S == pauses[-1]
    assert [p / 2 for p in pauses] == [pause(n, chance=0) for n in range(1, 12)]


def test_the_verdict_of_one_attempt_is_its_error():
    tried = plan(1)
    tried.first()
    tried.next(AUTH, 0)

    assert AUTH is tried.verdict("m", AUTH)


def test_the_verdict_names_every_failure_once():
    tried = plan(2, 1)
    tried.first()
    for error in (BUSY, BUSY, AUTH):
        last = error
        tried.next(error, 0)
    verdict = tried.verdict("fast", last)

    assert "no target of 'fast' could answer: a is busy; a refused the key" == verdict.message
    assert "upstream_overloaded" == verdict.code  # which may pass


def test_the_verdict_of_equal_failures_counts_them():
    tried = plan(2)
    tried.first()
    tried.next(BUSY, 0)
    tried.next(BUSY, 0)

    assert "a is busy (2 attempts)" == tried.verdict("m", BUSY).message


def opened(now: float = 0) -> Breaker:
    breaker = Breaker(RULES)
    for number in range(FAILURES):
        breaker.begin(f"o{number}", now)
        breaker.failed(f"o{number}", BUSY, now)
        breaker.end(f"o{number}")
    return breaker


def test_failures_of_several_streams_open_the_breaker():
    breaker = Breaker()
    for number in range(FAILURES - 1):
        breaker.failed(f"s{number}", BUSY, 0)
    assert ("closed", True) == (breaker.state(0), breaker.passes(0))
    assert not breaker.is_well(0)
    breaker.failed("s9", BUSY, 0)

    assert ("open", False) == (breaker.state(0), breaker.passes(0))
    assert COOLDOWN_S == breaker.open_for(0)


def test_one_stream_has_one_voice():
    breaker = Breaker()
    for _ in range(100):
        breaker.failed("s", BUSY, 0)

    assert "closed" == breaker.state(0)


def test_the_last_word_of_a_stream_counts():
    breaker = Breaker()
    for number in range(100):
        breaker.failed(f"s{number}", BUSY, number)
        breaker.answered(f"s{number}", number)
        breaker.completed(f"s{number}", number)

    assert "closed" == breaker.state(100)
    assert breaker.is_well(100)


def test_answers_that_begin_and_fail_open_it_too():
    breaker = Breaker()
    for number in range(FAILURES):
        breaker.answered(f"s{number}", 0)
        breaker.failed(f"s{number}", UpstreamError("upstream_truncated", "cut"), 0)

    assert "open" == breaker.state(0)


def test_failures_that_are_few_among_answers_do_not_open_it():
    breaker = Breaker()
    for number in range(10):
        breaker.answered(f"a{number}", 0)
    for number in range(10):
        breaker.failed(f"f{number}", BUSY, 1)
    assert "closed" == breaker.state(1)
    breaker.failed("f10", BUSY, 1)

    assert "open" == breaker.state(1)


def test_what_was_longer_ago_than_the_window_is_forgotten():
    breaker = Breaker()
    for number in range(50):
        breaker.answered(f"a{number}", 0)
    for number in range(FAILURES - 1):
        breaker.failed(f"f{number}", BUSY, 1)
    breaker.failed("f8", BUSY, RULES.window_s)  # the answers are forgotten
    assert "open" == breaker.state(RULES.window_s)

    breaker = Breaker()
    for number in range(20):
        breaker.failed(f"f{number}", BUSY, number * RULES.window_s / 2)
    assert "closed" == breaker.state(10 * RULES.window_s)
    assert breaker.is_well(100 * RULES.window_s)


def test_what_is_remembered_is_bounded():
    breaker = Breaker()
    for number in range(10 * OUTCOMES):
        breaker.failed(f"a{number}", BUSY, 0)

    assert OUTCOMES == breaker.failures(0)


@pytest.mark.parametrize("code", sorted(CODES.keys() - FAULTS))
def test_what_is_not_the_targets_fault_does_not_count(code):
    breaker = Breaker()
    for number in range(10):
        breaker.failed(f"s{number}", RelayError(code, "x"), 0)

    assert breaker.is_well(0)


def test_after_the_pause_one_request_tries():
    breaker = opened()

    assert not breaker.passes(COOLDOWN_S - 1)
    assert breaker.passes(COOLDOWN_S)
    breaker.begin("t", COOLDOWN_S)
    assert ("half-open", False) == (breaker.state(COOLDOWN_S), breaker.passes(COOLDOWN_S))
    breaker.answered("t", COOLDOWN_S)
    assert ("closed", True) == (breaker.state(COOLDOWN_S), breaker.passes(COOLDOWN_S))


def test_who_was_told_to_try_keeps_others_from_it_for_a_moment():
    breaker = opened()
    breaker.claim(COOLDOWN_S)
    assert not breaker.passes(COOLDOWN_S)
    assert breaker.passes(COOLDOWN_S + CLAIM_S)  # who was told never did

    breaker.begin("t", COOLDOWN_S)
    assert not breaker.passes(COOLDOWN_S + CLAIM_S)


def test_an_answer_of_a_trial_that_fails_opens_it_again_and_only_that():
    breaker = opened()
    breaker.begin("t", COOLDOWN_S)
    breaker.answered("t", COOLDOWN_S)
    breaker.failed("other", BUSY, COOLDOWN_S)
    assert "closed" == breaker.state(COOLDOWN_S)
    breaker.failed("t", BUSY, COOLDOWN_S)

    assert "open" == breaker.state(COOLDOWN_S)


def test_a_failed_trial_doubles_the_pause_up_to_the_longest():
    breaker, now = opened(), 0.0
    waits = []
    for number in range(8):
        waits.append(breaker.open_for(now))
        now += breaker.open_for(now)
        breaker.begin(f"t{number}", now)
        breaker.failed(f"t{number}", BUSY, now)

    assert [COOLDOWN_S, 2 * COOLDOWN_S] == waits[:2]
    assert RULES.max_pause_s == waits[-1] == 30
    breaker.answered("s", now)
    breaker.completed("s", now)
    for number in range(FAILURES):
        breaker.failed(f"u{number}", BUSY, now)
    assert COOLDOWN_S == breaker.open_for(now)


def test_a_silent_trial_keeps_others_away_for_a_while_only():
    breaker = opened()
    late = COOLDOWN_S + RULES.max_pause_s
    assert breaker.begin("silent", COOLDOWN_S)
    assert not breaker.begin("other", late - 1)
    assert not breaker.passes(late - 1)
    assert breaker.passes(late)
    assert breaker.begin("next", late)
    assert not breaker.passes(late)

    breaker.failed("silent", SILENT, late + 1)  # it says nothing of now
    breaker.end("silent")
    assert not breaker.passes(late + 1)
    breaker.answered("next", late + 2)
    assert breaker.passes(late + 2)


@pytest.mark.parametrize("takes_s", [0, 1, 10, 60])
@pytest.mark.parametrize("outage_s", [20, 60, 61, 75, 90, 300, 3600])
def test_after_an_outage_it_is_tried_within_half_a_minute(outage_s: int, takes_s: int):
    """A request each second; while it is away a trial fails after `takes_s`."""
    breaker = opened()
    failing: dict[int, str] = {}
    for now in range(outage_s + 100):
        if now in failing:
            breaker.failed(failing[now], SILENT, now)
            breaker.end(failing[now])
        if breaker.passes(now):
            if now >= outage_s:
                break
            breaker.begin(f"t{now}", now)
            if takes_s:
                failing[now + takes_s] = f"t{now}"
            else:
                breaker.failed(f"t{now}", BUSY, now)
                breaker.end(f"t{now}")

    assert now - outage_s <= 30


def test_a_trial_that_the_client_gave_up_lets_another_try():
    breaker = opened()
    breaker.begin("t", COOLDOWN_S)
    breaker.end("t")

    assert breaker.passes(COOLDOWN_S)


def test_an_open_breaker_that_nobody_tries_closes_after_the_window():
    breaker, closes = opened(), COOLDOWN_S + RULES.window_s
    assert "half-open" == breaker.state(closes - 1)
    assert ("closed", True) == (breaker.state(closes), breaker.is_well(closes))
    for stream in "abc":
        breaker.failed(stream, BUSY, closes)
    assert COOLDOWN_S == breaker.open_for(closes)

    breaker = opened()
    breaker.begin("silent", COOLDOWN_S)
    assert "half-open" == breaker.state(10 * closes)


def test_a_trial_goes_on_whatever_other_streams_do():
    breaker = opened()
    breaker.begin("early", 0)
    breaker.begin("trial", COOLDOWN_S)
    breaker.begin("late", COOLDOWN_S)
    breaker.failed("early", BUSY, COOLDOWN_S)
    breaker.failed("trial", FILTERED, COOLDOWN_S)
    breaker.end("early")
    breaker.end("late")

    assert not breaker.passes(COOLDOWN_S)
    breaker.end("trial")
    assert breaker.passes(COOLDOWN_S)


def test_many_failures_at_once_are_one_opening():
    breaker = opened()
    for number in range(100):
        breaker.failed(f"s{number}", BUSY, 1)

    assert COOLDOWN_S - 1 == breaker.open_for(1)


def test_a_wait_that_a_provider_asks_for_is_given_it_by_all_once_it_is_passed_over():
    breaker = Breaker()
    breaker.failed("a", LONG_LIMIT, 0)
    assert "closed" == breaker.state(0)  # it may be that this one asked for too much
    breaker.failed("b", LIMIT, 0)
    breaker.failed("c", LIMIT, 0)

    assert 60 == breaker.open_for(0)


def arranged(
    choices: list[TargetPolicy], *breakers: Breaker, seed: int = 1, now: float = 0
) -> list[int]:
    given = [*breakers, *(Breaker() for _ in choices[len(breakers) :])]
    chance = random.Random(seed)

    def order(equal: Sequence[int]) -> list[int]:
        found = [Candidate(one, f"{one}/m", choices[one].weight, chance.random()) for one in equal]
        return [one.position for one in BALANCES["random"].order(found)]

    return arrange(choices, given, now=now, order=order)


def test_lower_orders_come_first():
    assert [1, 2, 0] == arranged(
        [TargetPolicy(order=3), TargetPolicy(order=1), TargetPolicy(order=2)]
    )


def test_weights_share_the_requests():
    choices = [
        TargetPolicy(weight=3),
        TargetPolicy(weight=1),
        TargetPolicy(weight=0),
        TargetPolicy(order=2, weight=9),
    ]
    firsts = [arranged(choices, seed=seed) for seed in range(2000)]
    shares = [sum(order[0] == index for order in firsts) / len(firsts) for index in range(4)]

    assert 0.72 < shares[0] < 0.78
    assert [0, 0] == shares[2:]
    assert all(order[2:] == [2, 3] for order in firsts)


def test_targets_that_fail_are_tried_last():
    choices = [TargetPolicy(order=1), TargetPolicy(order=2), TargetPolicy(order=3)]
    later = opened(5)

    assert [2, 1, 0] == arranged(choices, later, opened(0), now=6)
    assert [0, 1, 2] == arranged(choices, later, opened(0), now=5 + COOLDOWN_S)
