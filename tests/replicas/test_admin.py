"""What an operator sees at one of several processes: all of them."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.identity.keys import digest
from app.testing.upstream import Hold, head, reply, send, serve_upstream, text
from tests import waiting
from tests.replicas.processes import Replica, ask, browser, children, running, start
from tests.serving import HELLO

pytestmark = pytest.mark.proving

M = "openai/m"

BOSS = {"authorization": "Bearer ssk_boss"}
OPERATOR = f"""
auth = "none"
[[key]]
name = "boss"
sha256 = "{digest("ssk_boss")}"
roles = ["admin"]
"""

Summary = dict[str, Any]


@asynccontextmanager
async def two(log: str, folder: Path, **settings: object) -> AsyncIterator[list[Replica]]:
    """Run two processes over one log: workers at one address, or replicas."""
    folder.joinpath("seseragi.toml").write_text(OPERATOR)
    if log.startswith("sqlite"):
        async with running(1, folder, log, workers=2, **settings) as (relay,):
            yield [relay, relay]
    else:
        async with running(2, folder, log, **settings) as replicas:
            yield replicas


@pytest.fixture(params=["sqlite", "redis"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/log.db"
    url: str = request.getfixturevalue("redis").url
    return url


async def look(client: httpx2.AsyncClient, relay: Replica) -> Summary:
    reply = await client.get(
        f"{relay.url}/v1/admin/summary", headers={"connection": "close", **BOSS}
    )
    assert reply.status_code == 200, reply.text
    found: Summary = reply.json()
    return found


async def until(
    client: httpx2.AsyncClient, relay: Replica, wanted: Callable[[Summary], bool]
) -> Summary:
    """Look until the summary is as wanted, at whichever process is asked."""
    found: Summary = {}

    async def is_so() -> bool:
        nonlocal found
        found = await look(client, relay)
        return wanted(found)

    await waiting.until(is_so, limit_s=30)
    return found


async def statuses(client: httpx2.AsyncClient, relays: list[Replica]) -> set[int]:
    """Ask some times, each time whichever worker answers."""
    replies = [
        await client.post(
            f"{relay.url}/v1/chat",
            json=HELLO,
            headers={"connection": "close", "prefer": "respond-async"},
        )
        for relay in relays * 6
    ]
    return {reply.status_code for reply in replies}


async def test_operator_sees_at_one_process_what_is_of_all(log: str, tmp_path: Path):
    """One after the other, since processes take their time to start."""
    async with serve_upstream() as upstream:
        upstream.script = [head(), send(text("a")), Hold()]
        settings: dict[str, object] = {
            **{"default_model": M, "attempts": 1, "script": upstream},
            **{"breaker_pause_s": 900, "breaker_max_pause_s": 900},
        }
        async with two(log, tmp_path, **settings) as relays, browser() as client:
            await check_live(log, client, relays)
            upstream.script = reply("503 Service Unavailable", "{}")
            await check_open(client, relays)
            await check_killed(client, relays)


async def check_live(log: str, client: httpx2.AsyncClient, relays: list[Replica]) -> None:
    streams = {await start(client, relay, M) for relay in relays * 6}
    found = await until(
        client,
        relays[0],
        lambda s: len(s["processes"]) == 2 and streams == {stream["id"] for stream in s["live"]},
    )
    by_process = {stream["process"] for stream in found["live"]}
    assert by_process <= {process["id"] for process in found["processes"]}
    assert 12 == len(found["live"]) == found["money"]["accounts"][0]["streams"]
    assert log[:5] == found["log"][:5]

    # One that is stopped by its id, wherever it runs, is among those that have ended.
    stopped = min(streams)
    answer = await ask(client, "POST", f"{relays[0].url}/v1/streams/{stopped}/cancel")
    assert answer.status_code == 202
    ended = await until(
        client,
        relays[1],
        lambda s: stopped in {row["id"] for row in s["recent"] if row["status"] == "cancelled"},
    )
    assert stopped not in {stream["id"] for stream in ended["live"]}


async def check_open(client: httpx2.AsyncClient, relays: list[Replica]) -> None:
    async with asyncio.timeout(30):
        while ("open", 2) != state(await look(client, relays[0])):
            await statuses(client, relays)
    await until(client, relays[0], lambda s: len(s["live"]) == 11)  # no more will fail
    found = await until(client, relays[1], lambda s: state(s) == ("open", 2))
    assert ["upstream_overloaded"] == list(found["counts"]["failed"])
    last = found["last"][0]
    assert ("failed", M, "upstream_overloaded") == (last["kind"], last["model"], last["code"])


async def check_killed(client: httpx2.AsyncClient, relays: list[Replica]) -> None:
    found = await until(client, relays[0], lambda s: len(s["processes"]) == 2)
    pids = {process["pid"]: process["id"] for process in found["processes"]}
    killed = next(pid for pid in pids if pid != relays[0].pid)
    assert killed in {*children(relays[0].pid), relays[1].pid}
    os.kill(killed, signal.SIGKILL)
    left = await until(
        client,
        relays[0],
        lambda s: pids[killed] not in {process["id"] for process in s["processes"]},
    )
    assert pids[killed] not in {stream["process"] for stream in left["live"]}


def state(found: Summary) -> tuple[str, int]:
    (target,) = [target for target in found["targets"] if target["target"] == M]
    return target["state"], target["processes"]["open"]
