"""The clock of a log, the place of its file, and a Redis that all tests share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.eventlog.contract import Callbacks, Clock
from tests.redis_server import RedisServer, redis_server, wire_to


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def callbacks() -> Callbacks:
    return Callbacks()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def server(shared: RedisServer) -> RedisServer:
    """A Redis that is empty."""
    assert b"OK" in shared.ask("FLUSHALL")
    return shared


@pytest.fixture
async def wire(server: RedisServer):
    async with wire_to(server.port) as wire:
        yield wire


@pytest.fixture(autouse=True)
def _steady_redis(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """Wait for a Redis that has no turn for a while: it is not away. Return the usual time."""
    if request.node.get_closest_marker("pure"):
        return 0.0  # it has no Redis, and to import the client takes 0.2 s
    from app.eventlog.redis import link

    usual = link.GRACE_S
    monkeypatch.setattr(link, "GRACE_S", 20)
    return usual


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send nothing twice, as a slow answer has it: the second answer does not tell what is left."""
    monkeypatch.setattr("app.eventlog.redis.link.REPLY_S", 20)


@pytest.fixture
def impatient(_steady_redis: float, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what has logs take a Redis for away as soon as in a relay, from then on."""
    return lambda: monkeypatch.setattr("app.eventlog.redis.link.GRACE_S", _steady_redis)
