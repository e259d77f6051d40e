"""Retries, fallbacks and circuit breakers, without a clock and without chance."""

import itertools
import random

import pytest

from app.errors import CODES, RelayError, UpstreamError
from app.retry import (
    COOLDOWN_S,
    FAILURES,
    FAULTS,
    FINAL,
    FIRST_PAUSE_S,
    LONGEST_COOLDOWN_S,
    LONGEST_PAUSE_S,
    PATIENCE_S,
    Breaker,
    Choice,
    Plan,
    Step,
    arrange,
    pause,
)

BUSY = UpstreamError("upstream_overloaded", "a is busy")
AUTH = UpstreamError("upstream_auth", "a refused the key")
LIMIT = UpstreamError("upstream_rate_limited", "a is at its limit", retry_after_s=2)
LONG_LIMIT = UpstreamError("upstream_rate_limited", "a is at its limit", retry_after_s=60)
FILTERED = UpstreamError("content_filtered", "a will not")
PAUSE = FIRST_PAUSE_S / 2


def plan(
    *attempts: int, order: list[int] | None = None, deadline: float = 100, each_s: float = 100
) -> Plan:
    """A plan over targets with so many attempts each, and no chance in it."""
    choices = [Choice(attempts=count) for count in attempts]
    order = order or list(range(len(choices)))
    return Plan(choices, order, now=0, deadline=deadline, each_s=each_s, chance=lambda: 0)


def test_every_fault_and_final_code_is_a_code():
    assert FAULTS | FINAL <= CODES.keys()


def test_a_failure_that_may_pass_is_tried_again_and_then_elsewhere():
    tried = plan(2, 2)

    assert Step(0, 0, 1) == tried.first()
    assert Step(0, PAUSE, 2) == tried.next(BUSY, 0)
    assert Step(1, 0, 3) == tried.next(BUSY, 0)
    assert Step(1, PAUSE, 4) == tried.next(BUSY, 0)
    assert tried.next(BUSY, 0) is None


def test_a_failure_that_will_not_pass_goes_to_the_next_target_at_once():
    tried = plan(5, 1)
    tried.first()

    assert Step(1, 0, 2) == tried.next(AUTH, 0)
    assert tried.next(AUTH, 0) is None


@pytest.mark.parametrize("code", sorted(FINAL))
def test_a_final_failure_is_the_end(code):
    tried = plan(5, 5)
    tried.first()
    error = RelayError(code, "no")

    assert tried.next(error, 0) is None
    assert error is tried.verdict("m", error)


def test_a_wait_that_is_asked_for_is_kept():
    tried = plan(2)
    tried.first()

    assert Step(0, 2, 2) == tried.next(LIMIT, 0)


def test_a_longer_wait_is_left_to_the_next_target_or_the_client():
    tried = plan(2, 2)
    tried.first()

    assert Step(1, 0, 2) == tried.next(LONG_LIMIT, 0)
    assert tried.next(LONG_LIMIT, 0) is None
    assert 60 == tried.verdict("m", LONG_LIMIT).retry_after_s


def test_no_attempt_begins_after_the_budget():
    tried = plan(9, deadline=10)
    tried.first()

    assert tried.next(BUSY, 10 - PAUSE) is None
    tried = plan(9, deadline=10)
    tried.first()
    assert tried.next(BUSY, 9.9 - PAUSE) is not None


def test_a_pause_that_is_longer_than_the_budget_is_not_made_but_elsewhere():
    tried = plan(2, 2, deadline=1)
    tried.first()

    assert tried.next(LIMIT, 0.5) == Step(1, 0, 2)
    assert tried.next(BUSY, 1) is None


def test_a_target_that_took_its_time_leaves_the_rest_to_the_next():
    tried = plan(2, 2, each_s=10)
    tried.first()

    assert Step(1, 0, 2) == tried.next(BUSY, 10)
    assert Step(1, PAUSE, 3) == tried.next(BUSY, 11)
    assert tried.next(BUSY, 12) is None


def test_a_target_alone_that_took_its_time_is_not_asked_again():
    tried = plan(2, each_s=10)
    tried.first()

    assert tried.next(BUSY, 10) is None


def test_targets_are_tried_in_the_order_that_is_given():
    tried = plan(1, 1, 1, order=[2, 0, 1])

    assert 2 == tried.first().target
    assert [0, 1] == [step.target for _ in range(2) if (step := tried.next(AUTH, 0))]


def test_pauses_double_up_to_the_longest():
    pauses = [pause(failures, chance=1) for failures in range(1, 12)]

    assert FIRST_PAUSE_S == pauses[0]
    assert all(b in (2 * a, LONGEST_PAUSE_S) for a, b in itertools.pairwise(pauses))
    assert LONGEST_PAUSE_S == pauses[-1]
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
    breaker = Breaker()
    for _ in range(FAILURES):
        breaker.begin(now)
        breaker.failed(BUSY, now)
    return breaker


def test_failures_in_a_row_open_the_breaker():
    breaker = Breaker()
    for _ in range(FAILURES - 1):
        breaker.failed(BUSY, 0)
    assert ("closed", True) == (breaker.state(0), breaker.passes(0))
    breaker.failed(BUSY, 0)

    assert ("open", False) == (breaker.state(0), breaker.passes(0))
    assert COOLDOWN_S == breaker.open_for(0)


def test_a_complete_answer_between_them_forgives():
    breaker = Breaker()
    for _ in range(10):
        breaker.failed(BUSY, 0)
        breaker.answered()
        breaker.completed()

    assert "closed" == breaker.state(0)
    assert breaker.is_new


def test_answers_that_begin_and_fail_open_it_too():
    breaker = Breaker()
    for _ in range(FAILURES):
        breaker.answered()
        breaker.failed(UpstreamError("upstream_truncated", "cut"), 0)

    assert "open" == breaker.state(0)


@pytest.mark.parametrize("code", sorted(CODES.keys() - FAULTS))
def test_what_is_not_the_targets_fault_does_not_count(code):
    breaker = Breaker()
    for _ in range(10):
        breaker.failed(RelayError(code, "x"), 0)

    assert breaker.is_new


def test_after_the_cooldown_one_request_tries():
    breaker = opened()

    assert not breaker.passes(COOLDOWN_S - 1)
    assert breaker.passes(COOLDOWN_S)
    breaker.begin(COOLDOWN_S)
    assert ("half-open", False) == (breaker.state(COOLDOWN_S), breaker.passes(COOLDOWN_S))
    breaker.answered()
    assert ("closed", True) == (breaker.state(COOLDOWN_S), breaker.passes(COOLDOWN_S))


def test_on_probation_one_failure_opens_it_again():
    breaker = opened()
    breaker.begin(COOLDOWN_S)
    breaker.answered()
    breaker.failed(BUSY, COOLDOWN_S)

    assert "open" == breaker.state(COOLDOWN_S)


def test_a_failed_trial_doubles_the_cooldown_up_to_the_longest():
    breaker, now = opened(), 0.0
    waits = []
    for _ in range(8):
        waits.append(breaker.open_for(now))
        now += breaker.open_for(now)
        breaker.begin(now)
        breaker.failed(BUSY, now)

    assert [COOLDOWN_S * 2**n for n in range(5)] == waits[:5]
    assert LONGEST_COOLDOWN_S == waits[-1]


def test_a_trial_that_the_client_gave_up_lets_another_try():
    breaker = opened()
    breaker.end(breaker.begin(COOLDOWN_S))

    assert breaker.passes(COOLDOWN_S)


def test_a_trial_goes_on_whatever_other_attempts_do():
    breaker = Breaker()
    early = breaker.begin(0)
    for _ in range(FAILURES):
        breaker.failed(BUSY, 0)
    trial, late = breaker.begin(COOLDOWN_S), breaker.begin(COOLDOWN_S)
    breaker.failed(FILTERED, COOLDOWN_S)
    breaker.end(early)
    breaker.end(late)

    assert not breaker.passes(COOLDOWN_S)
    breaker.end(trial)
    assert breaker.passes(COOLDOWN_S)


def test_many_failures_at_once_are_one_opening():
    breaker = opened()
    for _ in range(100):
        breaker.failed(BUSY, 1)

    assert COOLDOWN_S - 1 == breaker.open_for(1)


def test_a_provider_that_asks_for_a_wait_is_given_it_at_once():
    breaker = Breaker()
    breaker.failed(LONG_LIMIT, 0)

    assert 60 == breaker.open_for(0)
    assert LIMIT.retry_after_s is not None
    assert LIMIT.retry_after_s < PATIENCE_S
    breaker = Breaker()
    breaker.failed(LIMIT, 0)
    assert "closed" == breaker.state(0)


def arranged(choices: list[Choice], *breakers: Breaker, seed: int = 1, now: float = 0) -> list[int]:
    given = [*breakers, *(Breaker() for _ in choices[len(breakers) :])]
    return arrange(choices, given, now=now, chance=random.Random(seed).random)


def test_lower_orders_come_first():
    assert [1, 2, 0] == arranged([Choice(order=3), Choice(order=1), Choice(order=2)])


def test_weights_share_the_requests():
    choices = [Choice(weight=3), Choice(weight=1), Choice(weight=0), Choice(order=2, weight=9)]
    firsts = [arranged(choices, seed=seed) for seed in range(2000)]
    shares = [sum(order[0] == index for order in firsts) / len(firsts) for index in range(4)]

    assert 0.72 < shares[0] < 0.78
    assert [0, 0] == shares[2:]
    assert all(order[2:] == [2, 3] for order in firsts)


def test_targets_that_fail_are_tried_last():
    choices = [Choice(order=1), Choice(order=2), Choice(order=3)]
    later = opened(5)

    assert [2, 1, 0] == arranged(choices, later, opened(0), now=6)
    assert [0, 1, 2] == arranged(choices, later, opened(0), now=5 + COOLDOWN_S)
