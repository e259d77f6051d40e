"""The breakers of many targets: each its own, and no more of them than are kept."""

import pytest

from app.errors import UpstreamError
from app.upstreams.endpoints import Upstream
from app.upstreams.routes import MAX_FAILING, Breakers
from app.upstreams.targets import Target

pytestmark = pytest.mark.pure

LOST = UpstreamError("upstream_auth", "no such key")
UPSTREAM = Upstream("u", "http://127.0.0.1:9")


@pytest.mark.parametrize("failing", [True, False])
def test_names_that_clients_make_up_are_forgotten(failing: bool) -> None:
    breakers = Breakers(max_breakers=MAX_FAILING + 10)
    used = Target(UPSTREAM, "used")
    for number in range(1000):
        breaker = breakers.of(Target(UPSTREAM, str(number)))
        if failing:
            breaker.failed("s", LOST, 0)
        breakers.of(used).failed(str(number), LOST, 0)

    assert len(breakers) == MAX_FAILING + 10
    names = {"u/used", *(f"u/{number}" for number in range(1000))}
    last = range(1001 - MAX_FAILING, 1000) if failing else ()
    assert breakers.failing(names, 0) == [f"u/{n}" for n in last] + ["u/used"]
    assert "open" == breakers.named("u/used").state(0)
    assert breakers.named("u/0").is_well(0)
