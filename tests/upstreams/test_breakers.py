"""The breakers of many targets: each its own, and no more of them than are kept."""

import pytest

from app.errors import UpstreamError
from app.upstreams import routes
from app.upstreams.endpoints import Upstream
from app.upstreams.routes import Breakers
from app.upstreams.targets import Target

pytestmark = pytest.mark.pure

LOST = UpstreamError("upstream_auth", "no such key")
UPSTREAM = Upstream("u", "http://127.0.0.1:9")


@pytest.mark.parametrize("failing", [True, False])
def test_names_that_clients_make_up_are_forgotten(
    failing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "MAX_BREAKERS", 10)
    monkeypatch.setattr(routes, "MAX_TOLD", 3)
    breakers = Breakers()
    used = Target(UPSTREAM, "used")
    for number in range(100):
        breaker = breakers.of(Target(UPSTREAM, str(number)))
        if failing:
            breaker.failed("s", LOST, 0)
        breakers.of(used).failed(str(number), LOST, 0)

    assert len(breakers) == 10
    names = {"u/used", *(f"u/{number}" for number in range(100))}
    assert breakers.failing(names, 0) == [f"u/{n}" for n in (98, 99) if failing] + ["u/used"]
    assert "open" == breakers.named("u/used").state(0)
    assert breakers.named("u/0").is_well(0)


def test_rest_holds_whatever_clients_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MAX_BREAKERS", 10)
    breakers = Breakers()
    breakers.rest("u/used", 60)
    for number in range(100):
        breakers.of(Target(UPSTREAM, str(number)))

    assert ("resting", 50.0) == (breakers.state("u/used", 10), breakers.rests_for("u/used", 10))
    assert "closed" == breakers.state("u/used", 60)
    breakers.wake("u/used")
    assert "closed" == breakers.state("u/used", 10)
    breakers.wake("u/never")
