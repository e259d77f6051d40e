"""The built-in balances; the one by latency with a clock of its own."""

import random
from collections import Counter
from typing import Any

import pytest

from app.policies.balance import BALANCES, RECENT_S, Candidate, arrange
from app.policies.deadlines import Limits
from app.policies.retry import Breaker, TargetPolicy
from app.upstreams.endpoints import Upstream
from app.upstreams.routes import Route, Upstreams
from app.upstreams.targets import Target

pytestmark = pytest.mark.pure

NAMES = ("a", "b")


def ask(
    upstreams: Upstreams, seconds: dict[str, float], *, begin: float, end: float
) -> Counter[str]:
    """Send ten requests a second; return how many each target has received.

    `seconds`: the time until the first event of each target.
    """
    received: Counter[str] = Counter()
    under_way: list[tuple[float, str]] = []
    for tenth in range(int(begin * 10), int(end * 10)):
        now = tenth / 10
        for at, name in sorted(one for one in under_way if one[0] <= now):
            upstreams.stats.note(f"{name}/m", seconds[name], now=at)
        under_way = [one for one in under_way if one[0] > now]
        route = upstreams.routes["fast"]
        step = upstreams.plan(route, now=now, deadline=now + 60, limits=Limits()).first()
        name = NAMES[step.target]
        received[name] += 1
        under_way.append((now + seconds[name], name))
    return received


def test_a_slow_target_is_tried_by_one_request_now_and_then():
    upstreams = [Upstream(name, "http://127.0.0.1:9") for name in NAMES]
    route = Route("fast", tuple(Target(one, "m") for one in upstreams), balance=BALANCES["latency"])
    both = Upstreams(upstreams, routes=[route], chance=random.Random(1).random)

    slow = ask(both, {"a": 8.0, "b": 0.1}, begin=0, end=300)
    assert 2 <= slow["a"] <= 300 / RECENT_S + 2
    slower = ask(both, {"a": 8.0, "b": 20.0}, begin=300, end=400)
    assert slower["b"] < 350 < slower["a"]
    silent = ask(both, {"a": 1e9, "b": 0.1}, begin=400, end=700)
    assert silent["a"] < 350
    later = ask(both, {"a": 0.1, "b": 0.1}, begin=700, end=800)
    assert later["a"] > 100


def candidate(index: int, **fields: Any) -> Candidate:
    return Candidate(index, f"{'abcd'[index]}/m", **{"weight": 1.0, "draw": 0.5, **fields})


@pytest.mark.parametrize(
    ("balance", "fields", "order"),
    [
        ("random", [{"draw": 0.9}, {"draw": 0.1}, {"draw": 0.5}], [1, 2, 0]),
        ("random", [{"draw": 0.0, "weight": 0}, {"draw": 0.9}], [1, 0]),
        ("random", [{"running": 9, "expected_s": 9.0}, {"draw": 0.9}], [0, 1]),
        ("affinity", [{"draw": 0.5, "weight": 1}, {"draw": 0.6, "weight": 3}], [1, 0]),
        ("least_busy", [{"running": 2}, {"running": 0}, {"running": 1}], [1, 2, 0]),
        ("least_busy", [{"running": 2, "weight": 4}, {"running": 0}], [0, 1]),
        ("least_busy", [{"draw": 0.9}, {"draw": 0.1}], [1, 0]),
        ("latency", [{"draw": 0.1, "expected_s": 2.0}, {"draw": 0.2, "expected_s": 1.0}], [1, 0]),
        (
            "latency",
            [
                {"draw": 0.1, "expected_s": 3.0},
                {"draw": 0.2, "expected_s": 2.0},
                {"draw": 0.3, "expected_s": 1.0},
            ],
            [1, 0, 2],
        ),
        ("latency", [{"draw": 0.1, "expected_s": 2.0}, {"weight": 0}], [0, 1]),
    ],
)
def test_each_balance_orders_by_what_it_is_named_for(balance, fields, order):
    candidates = [candidate(index, **one) for index, one in enumerate(fields)]

    assert order == [one.position for one in BALANCES[balance].order(candidates)]


def test_only_equal_targets_are_given_to_the_balance():
    asked = []

    def turn(equal: list[int]) -> list[int]:
        asked.append(equal)
        return equal[::-1]

    choices = [TargetPolicy(order=order) for order in (2, 1, 1, 2, 3, 1)]
    breakers = [Breaker() for _ in choices]
    full = {5}

    assert [2, 1, 3, 0, 4, 5] == arrange(
        choices, breakers, now=0, order=turn, is_full=lambda index: index in full
    )
    assert [[1, 2], [0, 3]] == asked
