"""The choice by latency, with a clock of its own."""

import random
from collections import Counter

import pytest

from app.policies.deadlines import Limits
from app.policies.target_stats import RECENT_S
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
    route = Route("fast", tuple(Target(one, "m") for one in upstreams), balance="latency")
    both = Upstreams(upstreams, routes=[route], chance=random.Random(1).random)

    slow = ask(both, {"a": 8.0, "b": 0.1}, begin=0, end=300)
    assert 2 <= slow["a"] <= 300 / RECENT_S + 2
    slower = ask(both, {"a": 8.0, "b": 20.0}, begin=300, end=400)
    assert slower["b"] < 350 < slower["a"]
    silent = ask(both, {"a": 1e9, "b": 0.1}, begin=400, end=700)
    assert silent["a"] < 350
    later = ask(both, {"a": 0.1, "b": 0.1}, begin=700, end=800)
    assert later["a"] > 100
