"""The load generator, built, and a core to run it on."""

import os

import pytest

from bench.load import Load, build
from bench.relays import free_port
from tests.needs import program


@pytest.fixture
def load() -> Load:
    program("cc", variable="CC")
    return Load(build(), max(os.sched_getaffinity(0)), free_port())


@pytest.fixture
def core() -> int:
    return min(os.sched_getaffinity(0))
