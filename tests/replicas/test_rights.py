"""A user in Redis with the rights that the documents name, and no others: all that a relay does."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.eventlog.redis.scripts import SCRIPTS
from app.testing.upstream import serve_upstream
from tests.redis_server import RedisServer, redis_server
from tests.replicas.test_any_replica import HELD, read, start
from tests.serving import Relay, read_messages, serve_relay, text_so_far, until

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


def test_documents_name_the_commands_that_are_sent_and_no_others():
    sent = CONNECTING | {"script|load"}
    for script in SCRIPTS:
        sent |= {name.lower() for name in re.findall(r"redis\.p?call\('(\w+)'", script.text)}
    for path in (ROOT / "app" / "eventlog" / "redis").glob("*.py"):
        names = re.findall(r"(?:send|send_command|XREAD =) ?\(\s*\"([A-Z]+)\"", path.read_text())
        sent |= {name.lower() for name in names} - {"script"}
    named = [right[1:] for right in rights() if right.startswith("+")]

    assert sorted(sent) == sorted(named)


async def test_life_of_a_stream_needs_no_other_right(server):
    url = f"redis://seseragi:{SECRET}@127.0.0.1:{server.port}/1?lease_s={LEASE_S}"
    async with serve_upstream() as upstream:
        upstream.script = HELD
        async with (
            serve_relay(upstream, log=url, retention_s=60) as first,
            serve_relay(upstream, log=url, retention_s=60) as second,
        ):
            await live(first, second)
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
        assert await read_messages(reply)
    assert 204 == (await second.client.delete(f"/v1/streams/{stream}")).status_code
    await until(first, stream, lambda reply: reply.status_code == 410)  # when it hears of it
