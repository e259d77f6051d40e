"""Readers that are slow, frozen, greedy or talk nonsense, beside others who are not."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from app.events import StreamEnd, StreamStart, TextDelta, TextEnd, TextStart
from app.testing.upstream import DONE, FINISH, head, send, text
from tests.clock import Clock
from tests.eventlog.creating import create
from tests.serving import (
    HELLO,
    Relay,
    cut_off,
    events_of,
    read_messages,
    serve_relay,
    serve_script,
)


async def fill(relay: Relay, stream: str, count: int) -> None:
    """Put a long ended stream into the log."""
    log = relay.log
    await create(log, stream)
    await log.append(stream, [StreamStart(stream, "m", 0), TextStart(0)])
    for start in range(0, count, 1000):
        await log.append(stream, [TextDelta(0, f"{n} ") for n in range(start, start + 1000)])
    await log.append(stream, [TextEnd(0), StreamEnd("completed", "stop")])


@contextlib.asynccontextmanager
async def frozen_reader(relay: Relay, path: str) -> AsyncIterator[Callable[[], Awaitable[bytes]]]:
    """One that takes a status and nothing more; the function returns what has come before it was cut off."""
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.connect(("127.0.0.1", relay.port))
    reader, writer = await asyncio.open_connection(sock=narrow, limit=1024)

    async def received() -> bytes:
        # The kernel hands on what it had taken, through a narrow window in many seconds.
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        pieces = []
        with contextlib.suppress(ConnectionError):
            while data := await asyncio.wait_for(reader.read(1 << 20), 30):
                pieces.append(data)
        return b"".join(pieces)

    try:
        writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        assert b"HTTP/1.1 200" == await reader.readexactly(12)
        yield received
    finally:
        writer.close()


async def slowest_ping(relay: Relay, until: asyncio.Task) -> float:
    """Return the longest time that others are waited for, in seconds of this thread's CPU.

    They are as many on a machine that does other things too.
    """
    slowest = 0.0
    while not until.done():
        started = time.thread_time()
        assert 200 == (await relay.client.get("/healthz")).status_code
        slowest = max(slowest, time.thread_time() - started)
        await asyncio.sleep(0)
    return slowest


async def drop(port: int, path: str) -> int:
    """Ask for a stream and read none of it into memory at once; gives its bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    size = 0
    while data := await reader.read(1 << 20):
        size += len(data)
        await asyncio.sleep(0)
    writer.close()
    return size


async def test_long_replay_does_not_starve_the_others():
    async with serve_relay(max_stream_bytes=2**30) as relay:
        await fill(relay, "st_long", 200_000)
        await relay.client.get("/healthz")
        started = time.thread_time()
        replay = asyncio.create_task(drop(relay.port, "/v1/streams/st_long/events"))
        slowest = await slowest_ping(relay, replay)
        took = time.thread_time() - started

        assert await replay > 200_000 * 80
        assert slowest < took / 2


async def test_replay_to_a_client_that_has_gone_does_not_starve_the_others():
    async with serve_relay(max_stream_bytes=2**30) as relay:
        await fill(relay, "st_long", 200_000)
        started = time.thread_time()
        await drop(relay.port, "/v1/streams/st_long/events")
        took = time.thread_time() - started
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(b"GET /v1/streams/st_long/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await reader.readexactly(1000)
            writer.transport.abort()
        gone = asyncio.create_task(cut_off(relay, others=1))

        assert await slowest_ping(relay, gone) < took / 2


@pytest.mark.parametrize("readers", [10, pytest.param(50, marks=pytest.mark.proving)])
async def test_frozen_readers_cost_the_others_nothing(readers, monkeypatch):
    count, clock = 60, Clock(monkeypatch)
    pieces = [text(f"{number} " + "x" * 200_000) for number in range(count)]
    async with (
        serve_script(
            [head(), *map(send, pieces), send(FINISH + DONE)], send_timeout_s=400, heartbeat_s=50
        ) as (relay, _),
        contextlib.AsyncExitStack() as stack,
    ):
        reply = await relay.client.post("/v1/chat", json=HELLO, headers={"prefer": "respond-async"})
        url = reply.json()["events_url"]
        frozen = [
            await stack.enter_async_context(frozen_reader(relay, url)) for _ in range(readers)
        ]
        async with asyncio.timeout(60), relay.client.stream("GET", url) as response:
            events = events_of(await read_messages(response))

        assert "completed" == events[-1]["status"]
        assert count == sum(event["type"] == "text.delta" for event in events)
        async with clock.hurrying(step_s=20):
            await cut_off(relay, others=1)
        # All of them are dropped, and by a cut, not by an end.
        for received in frozen:
            last = (await received())[-100:]
            assert b"stream.end" not in last
            assert not last.endswith(b"\r\n0\r\n\r\n")


async def test_client_that_takes_no_json_is_cut_off(monkeypatch):
    size, clock = 10_000_000, Clock(monkeypatch)
    async with serve_relay(send_timeout_s=40, max_stream_bytes=2**30) as relay:
        await create(relay.log, "st_wide")
        await relay.log.append("st_wide", [StreamStart("st_wide", "m", 0), TextStart(0)])
        await relay.log.append("st_wide", [TextDelta(0, "x" * size)])
        async with frozen_reader(relay, "/v1/streams/st_wide") as received:
            async with clock.hurrying(step_s=5):
                await cut_off(relay, others=0)

            assert len(await received()) < size


@pytest.mark.parametrize(
    "cursor",
    [
        b"x" * 60_000,
        b"st_" + b"\xe3\x81\x82" + b".3",
        b"st_long.u3",
        b"st_long.3 ",
        b"st_long.-3",
        b"st_long.1e3",
        b"st_long.\xd9\xa3",
        b"st_long.99999999999999999999999",
        b"../../etc/passwd.1",
        b"0x10",
    ],
)
async def test_cursors_that_are_none_are_refused(cursor):
    async with serve_relay() as relay:
        await fill(relay, "st_long", 1000)
        status = {}
        for kind in (b"GET /v1/streams/st_long/events", b"POST /v1/chat"):
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(
                kind + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n"
                b"content-type: application/json\r\nlast-event-id: " + cursor + b"\r\n\r\n"
            )
            status[kind] = int((await reader.readuntil(b"\r\n")).split()[1])
            writer.close()
        # White space around a header's value is not part of it.
        expected = 200 if cursor.endswith(b" ") else 400

        assert {expected} == set(status.values())
