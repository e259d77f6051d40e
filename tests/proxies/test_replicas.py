"""Two relays over one Redis behind the nginx of `compose.yaml`, as processes."""

import asyncio
import contextlib
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from app.framing.sse import Decoder, Message
from app.testing.upstream import DONE, FINISH, Until, head, send, serve_upstream, text
from tests.proxies.programs import nginx
from tests.redis_server import RedisServer, redis_server
from tests.replicas.processes import DRIPPING, Replica, ask, running
from tests.serving import HELLO

pytestmark = pytest.mark.proving


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as server:
        yield server


@contextlib.asynccontextmanager
async def service(
    folder: Path, redis: RedisServer, **settings: object
) -> AsyncIterator[tuple[list[Replica], httpx2.AsyncClient]]:
    """Yield the relays, and a client of the nginx in front of them."""
    async with running(2, folder, redis.url, **settings) as relays:
        ports = [httpx2.URL(relay.url).port or 0 for relay in relays]
        async with (
            nginx(folder / "nginx", *ports) as proxy,
            httpx2.AsyncClient(base_url=proxy.http, timeout=20, trust_env=False) as client,
        ):
            yield relays, client


async def read(
    client: httpx2.AsyncClient, stream: str, seen: list[Message], *, most: int | None = None
) -> None:
    """Read on through nginx, to the end of the body or until so many are seen.

    It asks again while a relay says that its log is away, as a Redis is that has no turn.
    """
    headers = {"last-event-id": seen[-1].id} if seen else {}
    decoder = Decoder()
    url = f"/v1/streams/{stream}/events"
    async with asyncio.timeout(60):
        while True:
            async with client.stream("GET", url, headers=headers) as reply:
                if reply.status_code != 503:
                    assert reply.status_code == 200
                    async for chunk in reply.aiter_bytes():
                        seen += decoder.feed(chunk)
                        if most is not None and len(seen) >= most:
                            return
                    return
            await asyncio.sleep(0.1)


async def test_reading_goes_on_at_the_other_relay_when_one_stops(redis, tmp_path):
    async with (
        serve_upstream() as upstream,
        service(tmp_path, redis, drain_s=0.2, script=upstream) as (relays, client),
    ):
        upstream.script = DRIPPING
        started = [
            await ask(
                client,
                "POST",
                "/v1/chat",
                json={**HELLO, "model": "openai/m", "on_disconnect": "continue"},
                headers={"prefer": "respond-async"},
            )
            for _ in range(4)
        ]
        seen: dict[str, list[Message]] = {reply.json()["id"]: [] for reply in started}
        await asyncio.gather(*(read(client, one, had, most=20) for one, had in seen.items()))
        relays[0].signal(signal.SIGTERM)
        assert 0 == await relays[0].stopped()
        # The other relay has its own streams, and what the first has left: an honest end.
        await asyncio.gather(*(ask(client, "POST", f"/v1/streams/{one}/cancel") for one in seen))
        await asyncio.gather(*(read(client, one, had) for one, had in seen.items()))

    for stream, messages in seen.items():
        assert [f"{stream}.{n + 1}" for n in range(len(messages))] == [m.id for m in messages]
        assert "stream.end" == messages[-1].event
    ends = Counter(json.loads(messages[-1].data)["status"] for messages in seen.values())
    assert {"interrupted": 2, "cancelled": 2} == ends


async def test_starts_go_to_the_other_relay_while_one_is_told_to_stop(redis, tmp_path):
    async with (
        serve_upstream() as upstream,
        service(tmp_path, redis, drain_s=60, script=upstream, operator_port=0, last_scrape_s=0) as (
            relays,
            client,
        ),
    ):
        over = Until()
        upstream.script = [head(), send(text("so far")), over, send(FINISH + DONE)]
        body = {**HELLO, "model": "demo", "stream": False, "max_tokens": 1}

        refused: list[str] = []

        async def start() -> int:
            while True:
                reply = await client.post("/v1/chat", json=body)
                if "the event log cannot be reached" not in reply.text:
                    break
                await asyncio.sleep(0.1)  # Redis has had no turn for a second
            refused.extend([reply.text] if reply.status_code != 200 else [])
            return reply.status_code

        async def starts(count: int) -> list[int]:
            return [await start() for _ in range(count)]

        async def slow(relay: Replica) -> str:
            url = f"{relay.url}/v1/chat"
            reply = await client.post(url, json={**HELLO, "model": "openai/m"}, timeout=120)
            return reply.text

        before = await asyncio.gather(*(starts(3) for _ in range(4)))  # connections that are kept
        keeps_it_draining = asyncio.create_task(slow(relays[0]))
        await asyncio.wait_for(upstream.called.wait(), 20)
        relays[0].signal(signal.SIGTERM)
        during = await asyncio.gather(*(starts(5) for _ in range(4)))

        assert not keeps_it_draining.done()
        with pytest.raises(httpx2.ConnectError):
            await client.get(f"{relays[0].url}/healthz")
        metrics = await client.get(f"{relays[0].operator_url}/metrics")
        assert "\nseseragi_draining 1.0\n" in metrics.text
        over.told.set()
        assert '"status":"completed"' in await keeps_it_draining
        answers = Counter(status for some in (*before, *during) for status in some)
        # One may be on its way on each connection that is kept, as these are being closed.
        assert set(answers) <= {200, 502}, refused
        assert answers[502] <= 4
