"""Every state of a connection ends by itself, and a reader has to read."""

import asyncio
import contextlib
import socket
import time
from typing import Any

import pytest

import app.connection
from app.events import StreamEnd, StreamStart, TextDelta, TextEnd, TextStart
from app.testing.upstream import DONE, FINISH, Step, head, send, serve_upstream, text, wait
from tests.clock import Clock
from tests.eventlog.creating import create
from tests.hostile import BODY, HEALTH, chat, in_chunks, read_all, statuses
from tests.serving import Relay, serve_relay

LIMIT_S = 0.5
ASK = HEALTH + b"\r\n"
LONG = b"content-type: application/json\r\ncontent-length: 100000\r\n\r\n"
EARLY = b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\n" + LONG
CHUNKS = EARLY.replace(b"content-length: 100000", b"transfer-encoding: chunked")

# What is sent first, and then again and again, once the first has had its answer.
WAITS: dict[str, tuple[Any, ...]] = {
    "nothing": (b"", b""),
    "a line end": (b"\r\n", b""),
    "line ends": (b"\r\n", b"\r\n"),
    "half a head": (b"GET /healthz HTT", b""),
    "a slow head": (HEALTH, b"a: b\r\n"),
    "after an answer": (ASK, b""),
    "a line end after an answer": (ASK, b"\r\n", 1),
    "line ends after an answer": (ASK, b"\r\n"),
    "half a head after an answer": (ASK, b"GE", 1),
    "a slow head after an answer": (ASK + HEALTH, b"a: b\r\n"),
    "half a body": (b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\n" + LONG + b"{", b""),
    "a slow body": (b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\n" + LONG, b"{"),
    "no body": (
        b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n" + LONG,
        b"",
    ),
    "an answer before the body": (EARLY, b""),
    "an answer before a byte of the body": (EARLY, b"{", 1),
    "an answer before a slow body": (EARLY, b"{"),
    "an answer before slow chunks": (CHUNKS, b"1\r\na\r\n"),
    "an answer before slow trailers": (CHUNKS + b"0\r\n", b"a: b\r\n"),
    "an answer before a slow extension": (CHUNKS + b"1;", b"a"),
    "a refusal": (b"nonsense\r\n\r\n", b""),
    "a refusal, and more": (b"nonsense\r\n\r\n", b"a"),
    "an upgrade": (HEALTH + b"upgrade: a\r\nconnection: upgrade\r\n\r\n", b"a"),
    "a last request": (HEALTH + b"connection: close\r\n\r\n", b"a"),
    "HTTP/1.0": (ASK.replace(b"HTTP/1.1", b"HTTP/1.0"), b"a"),
}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD_S", "BODY_S", "REST_S"):
        monkeypatch.setattr(app.connection, name, LIMIT_S)


async def closed(relay: Relay) -> None:
    while relay.server.server_state.connections:  # noqa: ASYNC110  (no event tells)
        await asyncio.sleep(0.01)


async def test_connection_is_closed_whatever_it_waits_for(short):
    """All at once, at a relay each, since each of them mostly waits."""
    outcomes = await asyncio.gather(*map(check_closed, WAITS), return_exceptions=True)
    failed = {name: outcome for name, outcome in zip(WAITS, outcomes, strict=True) if outcome}

    assert {} == failed


async def check_closed(name: str) -> None:
    first, again, *times = WAITS[name]
    async with serve_relay(keepalive_s=LIMIT_S, send_timeout_s=LIMIT_S) as relay:
        began = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)

        async def ended() -> None:
            with contextlib.suppress(ConnectionError):
                await reader.read()
            await closed(relay)

        async def drip() -> None:
            writer.write(first)
            for _ in range(times[0] if times else 1000):
                await asyncio.sleep(LIMIT_S / 10)
                writer.write(again)

        dripping = asyncio.create_task(drip())
        try:
            await asyncio.wait_for(ended(), 40 * LIMIT_S)
        finally:
            dripping.cancel()
            writer.close()

        assert time.monotonic() - began > LIMIT_S / 3


async def test_pieces_that_come_in_time_make_a_request(monkeypatch):
    """Each of the three may take its time, and so may a pause between two requests."""
    for name in ("HEAD_S", "BODY_S", "REST_S"):
        monkeypatch.setattr(app.connection, name, 600)
    heard: list[bytes] = []
    take = app.connection.Protocol.data_received

    def hear(connection: app.connection.Protocol, data: bytes) -> None:
        take(connection, data)
        heard.append(data)

    monkeypatch.setattr(app.connection.Protocol, "data_received", hear)
    clock = Clock(monkeypatch)
    async with serve_relay(keepalive_s=600) as relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        asked = HEALTH + b"transfer-encoding: chunked\r\n\r\n"
        sent = b""
        for _ in range(3):
            for part in (asked[:10], asked[10:], in_chunks(b"abc")):
                await clock.pass_(400)
                writer.write(part)
                sent += part
                until = time.monotonic() + 20
                while b"".join(heard) != sent:
                    assert time.monotonic() < until
                    await asyncio.sleep(0.001)
            assert b"200 OK" in await reader.readuntil(b'"ok"}')
        writer.close()


async def test_long_answer_waits_for_nothing_that_the_client_sends(short):
    steps: list[Step] = [
        head(),
        send(text("one")),
        wait(4 * LIMIT_S),
        send(text("two") + FINISH + DONE),
    ]
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, keepalive_s=LIMIT_S, send_timeout_s=LIMIT_S) as relay,
    ):
        upstream.script = steps
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        # The second waits for its turn, and what has come of the third waits with it.
        writer.write(chat() + ASK * 300 + HEALTH)
        received = await asyncio.wait_for(read_all(reader), 40 * LIMIT_S)
        writer.close()

    assert [*[200] * 301, 400] == statuses(received)
    assert b"did not come within" in received


async def test_body_after_an_answer_is_read_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(app.connection, "REST_BYTES", 2**20)
    early = EARLY.replace(b"100000", b"100000000")
    async with serve_relay() as relay:
        _, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(early)
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 50_000_000:
                writer.write(bytes(100_000))
                await writer.drain()
                sent += 100_000
        writer.close()
        await asyncio.wait_for(closed(relay), 20)

    assert sent < 50_000_000


async def test_client_gets_its_answer_though_it_sends_all_of_its_body_first():
    body = bytes(4_000_000)
    early = EARLY.replace(b"100000", b"%d" % len(body))
    async with serve_relay(keepalive_s=0.2) as relay:
        for last in (b"", b"connection: close\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(
                early.replace(b"host: localhost\r\n", b"host: localhost\r\n" + last) + body
            )
            await writer.drain()
            await asyncio.sleep(0.05)

            assert [404] == statuses(await asyncio.wait_for(read_all(reader), 20))
            writer.close()


# Readers


async def fill(relay: Relay, stream: str, size: int) -> None:
    """Put an ended stream into the log."""
    log = relay.log
    await create(log, stream)
    await log.append(stream, [StreamStart(stream, "m", 0), TextStart(0)])
    for _ in range(size // 1000):
        await log.append(stream, [TextDelta(0, "x" * 1000)])
    await log.append(stream, [TextEnd(0), StreamEnd("completed", "stop")])


async def connect_narrowly(relay: Relay, narrow: socket.socket) -> None:
    """Connect with little room in the system's buffers on either side."""
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    narrow.setblocking(False)
    await asyncio.get_running_loop().sock_connect(narrow, ("127.0.0.1", relay.port))
    while not relay.server.server_state.connections:  # noqa: ASYNC110  (no event tells)
        await asyncio.sleep(0.001)
    connection: Any
    for connection in relay.server.server_state.connections:
        connection.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDBUF, 1024
        )


async def read_slowly(relay: Relay, asked: bytes, *, rate: int, for_s: float) -> bool:
    """Take bytes at a rate; tell whether the relay has let go of the reader before the time."""
    loop = asyncio.get_running_loop()
    with socket.socket() as narrow:
        await connect_narrowly(relay, narrow)
        await loop.sock_sendall(narrow, asked)
        until = loop.time() + for_s
        await asyncio.sleep(0.05)
        while loop.time() < until and relay.server.server_state.connections:
            await loop.sock_recv(narrow, rate // 20)
            await asyncio.sleep(0.05)
        return not relay.server.server_state.connections


SLOW = [
    ("a stream", b"GET /v1/streams/st_1/events HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("one value", b"GET /v1/streams/st_1 HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("HTTP/1.0", b"GET /v1/streams/st_1/events HTTP/1.0\r\nhost: localhost\r\n\r\n"),
]


@pytest.mark.parametrize("asked", [asked for _, asked in SLOW], ids=[name for name, _ in SLOW])
async def test_reader_that_takes_too_little_is_cut_off(asked):
    async with serve_relay(send_timeout_s=0.4, min_reader_rate=10**6) as relay:
        await fill(relay, "st_1", 20_000_000)

        assert await read_slowly(relay, asked, rate=20_000, for_s=30)


async def test_reader_that_takes_little_by_fits_and_starts_is_cut_off():
    """Each wait is shorter than the time, so that only their sum can be judged."""
    async with serve_relay(send_timeout_s=1, min_reader_rate=10**9) as relay:
        await fill(relay, "st_1", 20_000_000)

        assert await read_slowly(relay, SLOW[0][1], rate=4_000_000, for_s=30)


async def test_reader_that_takes_enough_is_not_cut_off(monkeypatch):
    """Also where the system's own buffer takes nothing for as long."""
    async with serve_relay(send_timeout_s=500, min_reader_rate=2) as relay:
        await fill(relay, "st_1", 20_000_000)
        clock, loop = Clock(monkeypatch), asyncio.get_running_loop()
        with socket.socket() as narrow:
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            narrow.setblocking(False)
            await loop.sock_connect(narrow, ("127.0.0.1", relay.port))
            await loop.sock_sendall(narrow, SLOW[0][1])
            for _ in range(60):
                assert await loop.sock_recv(narrow, 2000)
                await clock.pass_(50)

            assert relay.server.server_state.connections


async def test_slow_stream_to_a_reader_that_takes_it_is_not_cut_off():
    steps = [step for n in range(10) for step in (send(text(f"{n} ")), wait(0.1))]
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, send_timeout_s=0.2, min_reader_rate=10**9) as relay,
    ):
        upstream.script = [head(), *steps, send(FINISH + DONE)]
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(chat(b"connection: close", body=BODY.replace(b"false", b"true")))

        assert b"stream.end" in await asyncio.wait_for(read_all(reader), 30)
        writer.close()


async def test_what_is_left_of_the_last_answer_does_not_keep_a_connection(short):
    """Less than what pauses the writing: nothing but the end of the connection is waited for."""
    asked = b"GET /v1/streams/st_1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    async with serve_relay(send_timeout_s=LIMIT_S, keepalive_s=LIMIT_S) as relay:
        await fill(relay, "st_1", 60_000)
        for kept in (b"", b"connection: close\r\n"):
            with socket.socket() as narrow:
                await connect_narrowly(relay, narrow)
                began = time.monotonic()
                narrow.send(asked.replace(b"connection: close\r\n", kept))
                await asyncio.wait_for(closed(relay), 40 * LIMIT_S)

                assert time.monotonic() - began > LIMIT_S / 3
