"""One redis-server for the tests of many replicas; each test finds it empty."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.redis_server import RedisServer, be_patient, redis_server


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as server:
        yield server


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let relays in this process wait for a Redis that is busy; others have the real times."""
    be_patient(monkeypatch)
