"""A scripted provider, and a relay that asks it."""

from collections.abc import AsyncIterator

import pytest

from app.testing.upstream import Upstream, serve_upstream
from tests.serving import Relay, serve_relay


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with serve_upstream() as upstream:
        yield upstream


@pytest.fixture
async def relay(upstream: Upstream) -> AsyncIterator[Relay]:
    async with serve_relay(upstream) as relay:
        yield relay
