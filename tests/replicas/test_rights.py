"""A user in Redis with the rights that the documents name, and no others: all that a relay does."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.eventlog.redis.scripts import SCRIPTS
from app.eventlog.stream_info import StreamInfo
from app.events import StreamEnd
from app.ledger.accounts import Account, ReservationRequest, Settlement
from app.testing.upstream import Upstream, head, serve_upstream
from tests.redis_server import RedisServer, redis_server
from tests.replicas.test_any_replica import HELD, read, start
from tests.serving import HELLO, Relay, read_messages, serve_relay, text_so_far, until
from tests.waiting import until as eventually

pytestmark = pytest.mark.proving

ROOT = Path(__file__).parent.parent.parent
SECRET = "hunter2-hunter2"  # noqa: S105
LEASE_S = 2.5

# What redis-py says as it connects, by what is in our URLs.
CONNECTING = {"select", "client|setname"}


def rights() -> list[str]:
    found = re.search(r"`ACL SETUSER (.*)`", (ROOT / "docs" / "replicas.md").read_text())
    assert found is not None
    return found[1].replace("PASSWORD", SECRET).split()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path, "--user", *rights()) as server:
        yield server


def refused(server: RedisServer) -> str:
    """Give what Redis has refused of what the user has asked; it forgets none of that."""
    return server.ask("ACL", "LOG").decode()


def untried(server: RedisServer) -> list[str]:
    """Return the rights that nobody has used yet."""
    asked = server.ask("INFO", "commandstats").decode()
    names = [right[1:] for right in rights() if right.startswith("+")]
    return [name for name in names if f"cmdstat_{name}:" not in asked]


def test_documents_name_the_commands_that_are_sent_and_no_others():
    sent = CONNECTING | {"script|load"}
    for script in SCRIPTS:
        sent |= {name.lower() for name in re.findall(r"redis\.p?call\('(\w+)'", script.text)}
    for path in (ROOT / "app" / "eventlog" / "redis").glob("*.py"):
        names = re.findall(r"(?:send|send_command|XREAD =) ?\(\s*\"([A-Z]+)\"", path.read_text())
        sent |= {name.lower() for name in names} - {"script"}
    named = [right[1:] for right in rights() if right.startswith("+")]

    assert sorted(sent) == sorted(named)


async def test_whole_life_of_a_relay_needs_no_other_right(server):
    url = f"redis://seseragi:{SECRET}@127.0.0.1:{server.port}/1?lease_s={LEASE_S}"
    async with serve_upstream() as upstream:
        upstream.script = HELD
        async with (
            serve_relay(upstream, log=url, retention_s=60) as first,
            serve_relay(upstream, log=url, retention_s=60) as second,
        ):
            await live(first, second)
            await take_keys(first, second, upstream)
            await come_back_empty(first, second, server)
            await keep_books(first)
            await lose(first, second)
            # Beats, renewals, and looks after the lost take a lease.
            await eventually(lambda: not untried(server))
            assert "ready" == second.hub.readiness
    assert "*0\r\n" == refused(server)


async def live(first: Relay, second: Relay) -> None:
    """Start, read elsewhere, in a dialect too, show, stop elsewhere, read again, delete."""
    stream = await start(first)
    await text_so_far(first, stream, "ab")
    reading = asyncio.create_task(read(second, stream))
    shown = await second.client.get(f"/v1/streams/{stream}")
    assert "ab" == shown.json()["text"]
    await second.client.post(f"/v1/streams/{stream}/cancel")
    assert "stream.end" == (await reading)[-1].event
    url = f"/v1/streams/{stream}/events?format=openai_chat"
    async with second.client.stream("GET", url) as reply:
        assert await read_messages(reply, cut=True)
    assert 204 == (await second.client.delete(f"/v1/streams/{stream}")).status_code
    await until(first, stream, lambda reply: reply.status_code == 410)  # when it hears of it


async def take_keys(first: Relay, second: Relay, upstream: Upstream) -> None:
    """Send a key twice, take one over whose stream failed, and find a chat by its name."""
    ids = set()
    for relay in (first, second):
        headers = {"idempotency-key": "a", "prefer": "respond-async"}
        reply = await relay.client.post("/v1/chat", json=HELLO, headers=headers)
        ids.add(reply.json()["id"])
    assert 1 == len(ids)
    upstream.script = [head("503 Busy")]
    for relay in (first, second):
        headers = {"idempotency-key": "b"}
        assert (await relay.client.post("/v1/chat", json=HELLO, headers=headers)).status_code >= 500
    upstream.script = HELD
    body = {
        "id": "chat",
        "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}],
    }
    async with first.client.stream("POST", "/v1/ui/chat", json=body) as reply:
        assert 200 == reply.status_code
        assert 204 == (await second.client.post("/v1/ui/chat/chat/stop")).status_code
        assert (await reply.aread()).endswith(b"\n\n")


async def come_back_empty(first: Relay, second: Relay, server: RedisServer) -> None:
    """Redis forgets all: streams that run are written again, with their keys."""
    headers = {"idempotency-key": "c", "prefer": "respond-async"}
    reply = await first.client.post("/v1/chat", json=HELLO, headers=headers)
    stream = reply.json()["id"]
    await text_so_far(first, stream, "ab")
    assert server.ask("FLUSHALL")
    await until(second, stream, lambda reply: reply.status_code == 200)
    await second.client.post(f"/v1/streams/{stream}/cancel")
    await until(second, stream, lambda reply: reply.json()["status"] != "running")


async def keep_books(first: Relay) -> None:
    """Have a row written, taken and forgotten, and ask for what was used."""
    log = first.log
    request = ReservationRequest((Account("relay"),), 0.0)
    await log.create(StreamInfo("st_row", reserve=request))
    await log.append("st_row", [StreamEnd("completed", "stop")], Settlement(row=b"row"))
    assert [("st_row", b"row")] == await first.rows.rows(limit=10)
    await first.rows.forget_rows(["st_row"])
    assert [] == await first.rows.rows(limit=10)
    assert await first.accounts.read_accounts(["relay"])


async def lose(first: Relay, second: Relay) -> None:
    """A process does nothing more; the other one finds its streams, and ends them."""
    stream = await start(first, on_disconnect="continue")
    await text_so_far(second, stream, "ab")
    log = first.log
    for part in (log._owner, log._tails, log._orphans):  # type: ignore[attr-defined]
        part._tasks.stop()
    await until(second, stream, lambda reply: reply.json()["status"] == "interrupted")
    for part in (log._owner, log._tails, log._orphans):  # type: ignore[attr-defined]
        part.open()  # and hears that its streams have ended
    await eventually(lambda: not first.hub.load().streams)
