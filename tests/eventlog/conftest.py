"""How long the tests wait for a Redis."""

from collections.abc import Callable

import pytest

from app.eventlog.redis import link

GRACE_S = link.GRACE_S


@pytest.fixture(autouse=True)
def _steady_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a Redis that has no turn for a while: it is not away."""
    monkeypatch.setattr(link, "GRACE_S", 20)


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send nothing twice, as a slow answer has it: the second answer does not tell what is left."""
    monkeypatch.setattr(link, "REPLY_S", 20)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what has logs take a Redis for away as soon as in a relay, from then on."""
    return lambda: monkeypatch.setattr(link, "GRACE_S", GRACE_S)
