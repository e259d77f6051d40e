"""How much is done for one token, counted and not timed: a guard against big slips.

A token is sent, and read by the client, before the next one: each is a read of its own. All
run in one loop, so only what is called in the relay's own parts counts.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

from app.api.event_stream import EventStream
from app.generation.run import Run
from app.server.direct_writer import DirectWriter
from app.testing.upstream import DONE, FINISH, chunk, chunked_head, text
from tests.serving import serve_relay

TOKENS = 50
PARTS = ("/app/", "/httpx2/", "/uvicorn/", "/starlette/", "/asyncio/tasks.py")
BODY = b'{"messages": [{"role": "user", "content": "hello"}]}'
POST = (
    b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(BODY), BODY)
)
GET = b"GET /v1/streams/%b/events HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Lockstep:
    """An upstream that sends when it is told to."""

    def __init__(self) -> None:
        self.ready: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        self.base_url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await self.ready.put(writer)


@asynccontextmanager
async def open_upstream() -> AsyncIterator[Lockstep]:
    upstream = Lockstep()
    server = await asyncio.start_server(upstream.answer, "127.0.0.1", 0)
    upstream.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server:
        yield upstream


class Client(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, port: int, request: bytes) -> "Client":
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        return cls(reader, writer)


async def count_calls(readers: int = 1, **settings: Any) -> Counter[CodeType]:
    """Relay tokens one by one; count the Python calls, and resumptions, in the relay's parts."""
    calls: Counter[CodeType] = Counter()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and any(part in frame.f_code.co_filename for part in PARTS):
            calls[frame.f_code] += 1

    async with open_upstream() as upstream, serve_relay(upstream, **settings) as relay:  # type: ignore[arg-type]
        first = await Client.open(relay.port, POST)
        source = await upstream.ready.get()
        source.write(chunked_head().data + chunk(text("~0~")).data)
        head = await first.reader.readuntil(b"~0~")
        stream = head.partition(b"stream-id: ")[2].partition(b"\r\n")[0]
        clients = [
            first,
            *[await Client.open(relay.port, GET % stream) for _ in range(readers - 1)],
        ]
        for client in clients[1:]:
            await client.reader.readuntil(b"~0~")
        for number in range(1, TOKENS + 1):
            sys.setprofile(profile)
            try:
                source.write(chunk(text(f"~{number}~")).data)
                for client in clients:
                    await client.reader.readuntil(b"~%d~" % number)
            finally:
                sys.setprofile(None)
        source.write(chunk(FINISH + DONE).data + b"0\r\n\r\n")
        for client in clients:
            await client.reader.readuntil(b"stream.end")
            client.writer.close()
        source.close()
    return calls


async def test_a_token_takes_few_calls_and_wakes_no_task() -> None:
    calls = await count_calls()

    assert 1 == calls[DirectWriter.write.__code__] / TOKENS
    assert 0 == calls[Run.run.__code__] + calls[EventStream.__call__.__code__]
    # 31 when this was written, all of our own.
    assert 20 < calls.total() / TOKENS < 36


async def test_a_further_reader_takes_a_part_of_what_the_first_took() -> None:
    one, five = await count_calls(), await count_calls(readers=5)

    assert (five.total() - one.total()) / 4 < one.total() / 5


@pytest.mark.parametrize("log", ["memory", "sqlite"])
async def test_a_token_is_written_once_for_each_reader(log: str, tmp_path: Any) -> None:
    url = "memory" if log == "memory" else f"sqlite:///{tmp_path}/log.db"

    calls = await count_calls(readers=3, log=url)

    assert 3 == calls[DirectWriter.write.__code__] / TOKENS


async def test_traces_do_nothing_for_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_on")
    monkeypatch.setattr("tests.test_token_cost.PARTS", (*PARTS, "/opentelemetry/"))
    monkeypatch.setattr("app.telemetry.tracing.CLOSE_S", 0.0)

    calls = await count_calls(traces="true")

    traced = [code.co_filename for code in calls]
    assert [] == [
        name for name in traced if "/opentelemetry/" in name or "/app/telemetry/tracing" in name
    ]
