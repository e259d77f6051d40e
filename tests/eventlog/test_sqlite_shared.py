"""The contract once more, over a SQLite file that processes share: one alone, and two."""

from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.eventlog import Claim
from app.eventlog.shared import SharedSqliteLog
from app.eventlog.shared_database import prepare
from app.events import Event
from tests.eventlog.contract import *  # noqa: F403
from tests.eventlog.contract import LIMITS


@asynccontextmanager
async def joined(path: Path, **arguments: Any):
    """The log as one of the processes has it."""
    event_log = SharedSqliteLog(path, **{**LIMITS, **arguments})
    await event_log.open()
    try:
        yield event_log
    finally:
        await event_log.close()


class Elsewhere:
    """An event log whose streams are produced by `there` and read, named and removed by `here`."""

    def __init__(self, there: SharedSqliteLog, here: SharedSqliteLog) -> None:
        self._there = there
        self._here = here

    async def create(self, stream: str, *, key: str | None = None, digest: str = "") -> Claim:
        return await self._there.create(stream, key=key, digest=digest)

    async def append(self, stream: str, events: Sequence[Event]) -> None:
        await self._there.append(stream, events)

    def __getattr__(self, name: str):
        return getattr(self._here, name)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log.db"
    prepare(path, now=0)
    return path


@pytest.fixture(params=["here", "elsewhere"])
async def event_log(request, path, clock):
    async with joined(path, wall=clock) as there:
        if request.param == "here":
            yield there
            return
        async with joined(path, wall=clock) as here:
            yield Elsewhere(there, here)
