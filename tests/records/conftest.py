"""Databases for the records: a SQLite file and a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.records.address import Address
from app.records.database import Database
from tests.postgres_server import PostgresServer, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.proving)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/records.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    server.empty()
    return server.url


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    """A database with its tables."""
    database = Database(Address(url))
    await database.migrate()
    yield database
    await asyncio.wait_for(database.close(), 60)
