"""Relays that are killed with -9 at any moment: every stream that began has one row."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from app.records.address import Address
from app.records.database import Database
from tests.commands.test_command import running
from tests.records.kept import check_sums, recorded
from tests.redis_server import redis_server
from tests.waiting import until

pytestmark = pytest.mark.proving

ROUNDS = 2
STREAMS = 15
PIECES = 200
"""Of all answers: a relay is killed after some of them."""


@pytest.fixture
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A log that is there yet when its relay was killed."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/log.db"
        return
    with redis_server(tmp_path) as server:
        yield f"{server.url}?lease_s=2"


async def ask(client: httpx2.AsyncClient, seen: set[str], pieces: list[int]) -> None:
    model = random.choice(("demo", "demo-drop", "demo-error", "demo-long"))
    asked = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 30}
    try:
        async with client.stream("POST", "/v1/chat", json=asked) as answer:
            # Of a 503 the stream may be taken back, if Redis has not answered in time.
            if (stream := answer.headers.get("stream-id")) and answer.status_code != 503:
                seen.add(stream)
            async for piece in answer.aiter_bytes():
                pieces.append(len(piece))
    except httpx2.HTTPError:  # the relay was killed
        return


@pytest.mark.parametrize(
    ("log", "url"), [("sqlite", "sqlite"), ("redis", "postgresql")], indirect=True
)
async def test_killed_relay_leaves_one_row_for_each_stream(log, url, tmp_path):
    """Each kind of log and of database once: what is between them is rows, whatever they are."""
    seen: set[str] = set()
    for _ in range(ROUNDS):
        with running("--log", log, "--records", url, cwd=tmp_path) as (process, address):
            async with httpx2.AsyncClient(base_url=address, timeout=20, trust_env=False) as client:
                pieces: list[int] = []
                asking = [asyncio.create_task(ask(client, seen, pieces)) for _ in range(STREAMS)]
                enough = random.randrange(1, PIECES)
                await until(lambda: len(pieces) >= enough, limit_s=60)  # noqa: B023
                process.kill()
                await asyncio.gather(*asking)
    # Who comes next ends what was running, and brings over what waits.
    with running("--log", log, "--records", url, cwd=tmp_path):
        database = Database(Address(url))
        await database.migrate()

        async def all_are_recorded() -> bool:
            return seen <= {row["stream"] for row in await recorded(database)}

        await until(all_are_recorded, limit_s=60)

    assert seen
    await check_sums(database)
    await database.close()
