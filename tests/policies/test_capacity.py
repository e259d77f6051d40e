"""Whether a target has room, by its settings and by what its provider reports."""

from typing import Any

import pytest

from app.dialects.reading.rate_limits import read_remaining
from app.policies.capacity import MAX_RESET_S, Capacity, Remaining, TargetLimits

pytestmark = pytest.mark.pure

NOW = 1_700_000_000.0
HEADERS: list[tuple[dict[str, str], list[tuple[Any, ...]]]] = [
    (
        {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "1m2s"},
        [("requests", 3, 62)],
    ),
    (
        {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "17ms"},
        [("tokens", 0, 0.017)],
    ),
    (
        {
            "anthropic-ratelimit-requests-remaining": "5",
            "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:50Z",
            "anthropic-ratelimit-input-tokens-remaining": "900",
        },
        [("requests", 5, 30), ("tokens", 900, 0)],
    ),
    ({"x-ratelimit-remaining-requests": "-1"}, []),
    ({"x-ratelimit-remaining-requests": "9" * 99}, []),
    ({"x-ratelimit-remaining-tokens": "many"}, []),
    (
        {"x-ratelimit-remaining-tokens": "1", "x-ratelimit-reset-tokens": "99999999h"},
        [("tokens", 1, 3600)],
    ),
    ({}, []),
]


@pytest.mark.parametrize(("headers", "wanted"), HEADERS)
def test_remaining_limits_are_read_from_headers(headers, wanted):
    assert [tuple(one) for one in read_remaining(headers, now=NOW)] == wanted


def room(capacity: Capacity, now: float, tokens: int = 10, **limits: int) -> bool:
    return capacity.has_room(TargetLimits(**limits) if limits else None, tokens=tokens, now=now)


def test_limits_of_the_settings():
    capacity = Capacity()
    use = capacity.begin(10, now=0)
    assert not room(capacity, 0, max_streams=1)
    assert not room(capacity, 0, requests_per_minute=1)
    assert not room(capacity, 0, tokens_per_minute=19)
    assert room(capacity, 0, max_streams=2, requests_per_minute=2, tokens_per_minute=20)
    use.count_tokens(100, now=1)
    assert not room(capacity, 1, tokens_per_minute=109)
    use.end()
    assert room(capacity, 1, max_streams=1)
    assert not room(capacity, 59, requests_per_minute=1)
    assert room(capacity, 63, requests_per_minute=1, tokens_per_minute=10)


def reported(**remaining: int) -> list[Remaining]:
    return [Remaining(counts, left, 60) for counts, left in remaining.items()]


def test_a_huge_request_that_is_refused_fills_nothing():
    capacity = Capacity()
    capacity.begin(1, now=0).report(reported(tokens=100), now=0)
    huge = capacity.begin(10**6, now=0)
    assert not room(capacity, 0)
    huge.failed(now=0)
    huge.failed(now=0)
    assert room(capacity, 0, tokens=100, tokens_per_minute=101)
    assert not room(capacity, 0, tokens=101)


def test_a_failure_within_an_answer_frees_no_tokens():
    capacity = Capacity()
    use = capacity.begin(10, now=0)
    use.answered()
    use.failed(now=0)
    assert not room(capacity, 0, tokens_per_minute=19)


REPLIES = [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [0, 3, 1, 2]]


@pytest.mark.parametrize("order", REPLIES)
def test_requests_under_way_are_missing_in_earlier_reports(order):
    """A provider with a limit of five counts each request as it comes; replies come later."""
    capacity = Capacity()
    uses = [capacity.begin(10, now=0) for _ in range(4)]
    for number in order:
        left = 4 - number
        uses[number].report(reported(requests=left, tokens=10 * left), now=1)
        assert room(capacity, 1)
        assert not room(capacity, 1, tokens=11)
    last = capacity.begin(10, now=1)
    assert not room(capacity, 1)
    for use in uses:
        use.report(reported(requests=9, tokens=90), now=30)
    assert not room(capacity, 30)
    last.report(reported(requests=0, tokens=0), now=40)
    assert not room(capacity, 99)
    assert room(capacity, 100)


def test_a_minute_is_a_few_numbers_however_many_requests_it_has():
    capacity = Capacity()
    for number in range(100_000):
        capacity.begin(1, now=number / 500)
    assert len(capacity._spans) < 40
    assert not room(capacity, 200, requests_per_minute=29_000)
    assert room(capacity, 200, requests_per_minute=33_000)


def test_what_a_provider_reports_counts_until_its_reset():
    capacity = Capacity()
    capacity.begin(10, now=0).report([Remaining("requests", 2, 30)], now=0)
    assert room(capacity, 0)
    capacity.begin(10, now=0)
    last = capacity.begin(10, now=0)
    assert not room(capacity, 29)
    assert room(capacity, 30)
    last.report([Remaining("tokens", 9, 0)], now=40)
    assert not room(capacity, 41)
    assert room(capacity, 41, tokens=9)
    assert room(capacity, 50)
    capacity.begin(10, now=100).report([Remaining("tokens", 0, 3600)], now=100)
    assert not room(capacity, 100 + MAX_RESET_S - 1)
    assert room(capacity, 100 + MAX_RESET_S)
