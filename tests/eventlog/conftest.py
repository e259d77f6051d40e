"""The clock of a log, the place of its file, and a Redis that all tests share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.eventlog.redis import link
from tests.eventlog.contract import Clock
from tests.redis_server import RedisServer, redis_server, wire_to

GRACE_S = link.GRACE_S


@pytest.fixture
def clock() -> Clock:
    return Clock()


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
