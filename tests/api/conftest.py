"""What tests of the interface share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.redis_server import RedisServer, be_patient, redis_server


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(autouse=True)
def _patient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let relays wait for a Redis that is busy."""
    if not request.node.get_closest_marker("pure"):
        be_patient(monkeypatch)


@pytest.fixture(params=["memory", "sqlite", pytest.param("redis", marks=pytest.mark.proving)])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the relay keeps its streams: the interface is the same for all."""
    kind: str = request.param
    if kind == "redis":
        server: RedisServer = request.getfixturevalue("redis")
        server.ask("FLUSHALL")
        return server.url
    return kind if kind == "memory" else f"{kind}:///{tmp_path / 'streams.db'}"
