"""Relays as processes: killed between an end and its delivery, or two over one log."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from app.testing.upstream import Hold, Upstream, reply, serve_upstream
from tests.redis_server import redis_server
from tests.replicas.processes import Replica
from tests.serving import HELLO
from tests.waiting import until
from tests.webhooks.receiver import SECRETS, TAKEN, verify, write_settings

pytestmark = pytest.mark.proving

FAILS = reply("503 Service Unavailable", "")


@pytest.fixture(params=["sqlite", "redis"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/log.db"
        return
    with redis_server(tmp_path) as server:
        yield f"{server.url}?lease_s=2"


@pytest.fixture
async def receiver() -> AsyncIterator[Upstream]:
    async with serve_upstream() as receiver:
        receiver.script = TAKEN
        yield receiver


@contextlib.asynccontextmanager
async def replica(folder: Path, log: str, *receivers: Upstream, **more: object):
    """A relay that calls these receivers."""
    write_settings(folder, *receivers)
    variables = {"auth": "none", **more}
    replica = Replica(folder, log, **variables)
    replica._variables["HOOK_SECRET"] = SECRETS[0]
    await replica.start()
    try:
        yield replica
    finally:
        if replica.runs:
            replica.signal(signal.SIGTERM)
            await replica.stopped()
        await replica.kill()


async def ask(replica: Replica, **fields: object) -> str:
    async with httpx2.AsyncClient(base_url=replica.url, timeout=20, trust_env=False) as client:
        asked = {**HELLO, "model": "demo", "max_tokens": 3, **fields}
        answer = await client.post("/v1/chat", json=asked)
        return answer.headers["stream-id"]


@pytest.mark.parametrize("script", [FAILS, [Hold()]], ids=["has refused it", "has it now"])
async def test_kill_before_the_delivery_loses_no_end(tmp_path, log, receiver, script):
    """A relay that is killed while it calls leaves the row leased for `LEASE_S`."""
    receiver.script = script
    async with replica(tmp_path, log, receiver) as killed:
        stream = await ask(killed)
        await until(lambda: receiver.calls)
        if script is FAILS:
            await until(lambda: any("webhook failed" in line for line in killed.said))
        await killed.kill()
    before = list(receiver.calls)
    receiver.reset(*TAKEN)
    async with replica(tmp_path, log, receiver):
        await until(lambda: receiver.calls, limit_s=90)

    assert [stream] == [verify(call)["data"]["stream"] for call in receiver.calls]
    again, first = receiver.calls[0], before[0]
    assert first.headers["webhook-id"] == again.headers["webhook-id"]
    assert first.body == again.body


async def test_stream_whose_relay_was_killed_is_reported_by_the_next(tmp_path, log, receiver):
    asked = {**HELLO, "model": "demo-long"}
    async with (
        replica(tmp_path, log, receiver) as killed,
        httpx2.AsyncClient(base_url=killed.url, timeout=20, trust_env=False) as client,
        client.stream("POST", "/v1/chat", json=asked) as answer,
    ):
        stream = answer.headers["stream-id"]
        await anext(answer.aiter_bytes())
        await killed.kill()
    async with replica(tmp_path, log, receiver):
        await until(lambda: receiver.calls, limit_s=60)

    [data] = [verify(call)["data"] for call in receiver.calls]
    assert (stream, "interrupted", True) == (data["stream"], data["status"], data["lost"])


async def test_processes_over_one_log_call_once_each(tmp_path, log, receiver):
    """Two replicas over Redis, two workers over SQLite."""
    async with contextlib.AsyncExitStack() as stack:
        workers = {"workers": 2} if log.startswith("sqlite") else {}
        replicas = [
            await stack.enter_async_context(replica(tmp_path, log, receiver, **workers))
            for _ in range(1 if workers else 2)
        ]
        streams = await asyncio.gather(*(ask(one) for one in replicas for _ in range(15)))
        await until(lambda: len(receiver.calls) >= len(streams), limit_s=60)
        await asyncio.sleep(3)  # measures that nothing more comes

    assert sorted(streams) == sorted(verify(call)["data"]["stream"] for call in receiver.calls)
