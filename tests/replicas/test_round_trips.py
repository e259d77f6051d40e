"""How often Redis is asked before a client has its answer, at a replica that has nothing of it.

A relay's way to Redis lets through so many round trips about the stream and holds the next one:
the answer has to begin all the same. What the relay says of its readers besides, for which no
answer waits, is not counted.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import hiredis
import pytest

from app.dialects.client_format import name_of_chat
from app.eventlog.redis.scripts import LOOK, name_key
from app.testing.upstream import DONE, FINISH, Step, head, send, serve_upstream, text
from tests.redis_server import Wire, serve_wire
from tests.replicas.test_any_replica import HELD, start
from tests.serving import HELLO, Relay, serve_relay, text_so_far, until

pytestmark = pytest.mark.proving

ENDED: list[Step] = [head(), send("".join(map(text, "abcdefgh")) + FINISH + DONE)]


class Gate(Wire):
    """A way to Redis that lets through so many round trips that name one of some things."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.names: list[bytes] = []
        self.left = 0

    def count(self, data: bytes) -> int:
        """Return whether this is one; a relay sends what makes one round trip at once."""
        commands = hiredis.Reader()
        commands.feed(data)
        while (command := commands.gets()) is not False:
            about = any(name in part for name in self.names for part in command)
            if about and command[0] != b"XREAD" and LOOK.sha.encode() not in command:
                return 1
        return 0

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *flows: asyncio.Event
    ) -> None:
        asks = len(flows) == 1  # and is not answered
        with contextlib.suppress(OSError):
            while data := await reader.read(2**20):
                if asks and self.names and self.count(data):
                    while self.left < 1:  # noqa: ASYNC110  (it is let through at the end of a test)
                        await asyncio.sleep(0.01)
                    self.left -= 1
                writer.write(data)
        writer.transport.abort()


class Case(NamedTuple):
    name: str
    path: str
    method: str = "GET"
    cursor: str | None = None
    status: int = 200
    body: dict[str, Any] | None = None


EVENTS = "/v1/streams/{stream}/events"
CASES = [
    Case("a resume", EVENTS, cursor="{stream}.2"),
    Case("from the start", EVENTS),
    Case("a snapshot", f"{EVENTS}?from=snapshot"),
    Case("EventSource's query", f"{EVENTS}?lastEventId=2"),
    Case("a resume in another dialect", f"{EVENTS}?format=openai_chat", cursor="{stream}.c2"),
    Case("another dialect", f"{EVENTS}?format=anthropic"),
    Case("everything again", f"{EVENTS}?format=ag_ui", cursor="{stream}.g2"),
    Case("the stream as JSON", "/v1/streams/{stream}"),
    Case("HEAD", "/v1/streams/{stream}", method="HEAD"),
    Case("HEAD of the events", EVENTS, method="HEAD"),
    Case("a chat's stream", "/v1/ui/chat/chat/stream"),
    Case("POST again", "/v1/chat", method="POST", cursor="{stream}.2", body=HELLO),
]
FORMAT = f"{EVENTS}?format=openai_chat"
ENDED_CASES = [
    Case("nothing more", EVENTS, cursor="{last}", status=204),
    Case("nothing more in another dialect", FORMAT, cursor="{stream}.c11", status=204),
    Case("no such event", EVENTS, cursor="{stream}.99", status=409),
    Case("no such frame", FORMAT, cursor="{stream}.c99", status=409),
]


async def first_of(relay: Relay, case: Case, *, stream: str, last: int) -> tuple[int, bytes]:
    """Ask and give the status and the first piece of the body, if it has one."""
    headers = {}
    if case.cursor is not None:
        headers["last-event-id"] = case.cursor.format(stream=stream, last=f"{stream}.{last}")
    path = case.path.format(stream=stream)
    async with relay.client.stream(case.method, path, headers=headers, json=case.body) as reply:
        async for piece in reply.aiter_bytes():
            if piece != b": hb\n":
                return reply.status_code, piece
        return reply.status_code, b""


@asynccontextmanager
async def told_of_a_stream(
    redis: Any, case: Case, *, running: bool
) -> AsyncIterator[tuple[Relay, Gate, str, int]]:
    """Run an owner and another replica, which has to ask Redis of the one stream."""
    async with (
        serve_upstream() as upstream,
        serve_wire(Gate(redis.port)) as gate,
        serve_relay(upstream, log=redis.url) as owner,
        serve_relay(upstream, log=gate.url) as other,
    ):
        upstream.script = HELD if running else ENDED
        body = {
            "id": "chat",
            "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}],
        }
        if "/ui/" in case.path:
            unread = {"prefer": "respond-async"}  # an answer that a client has had has no name
            begun = await owner.client.post("/v1/ui/chat", json=body, headers=unread)
            stream = begun.headers["stream-id"]
        else:
            stream = await start(owner, on_disconnect="continue")
        await text_so_far(owner, stream, "ab" if running else "abcdefgh")
        if not running:
            await until(owner, stream, lambda reply: reply.json()["status"] != "running")
        state = await owner.log.state(stream)
        gate.names = [stream.encode(), name_key(name_of_chat("chat")).encode()]
        yield other, gate, stream, state.last
        gate.left = 10**9
        await owner.client.post(f"/v1/streams/{stream}/cancel")


@pytest.mark.parametrize(
    ("case", "running"),
    [
        pytest.param(case, running, id=f"{case.name}{' while it runs' * running}")
        for running in (False, True)
        for case in (CASES if running else CASES + ENDED_CASES)
    ],
)
async def test_answer_begins_after_one_round_trip(redis, case: Case, running: bool):
    async with told_of_a_stream(redis, case, running=running) as (other, gate, stream, last):
        gate.left = 1
        status, piece = await asyncio.wait_for(first_of(other, case, stream=stream, last=last), 20)

    assert case.status == status
    assert bool(piece) == (status != 204 and case.method != "HEAD")
