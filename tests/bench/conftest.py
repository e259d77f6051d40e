"""The load generator, built, and a core to run it on."""

import os

import pytest

from bench.load import Load, build
from tests.needs import program
from tests.ports import free_port


@pytest.fixture(autouse=True)
def own_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have relays listen where no server of other tests does."""
    monkeypatch.setattr("bench.relays.free_port", free_port)


@pytest.fixture
def load() -> Load:
    program("cc", variable="CC")
    return Load(build(), max(os.sched_getaffinity(0)), free_port())


@pytest.fixture
def core() -> int:
    return min(os.sched_getaffinity(0))
