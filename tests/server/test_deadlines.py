"""Every state of a connection ends by itself, and a reader has to read."""

import asyncio
import contextlib
import socket
from functools import partial
from typing import Any

import pytest

import app.server.http_protocol
from app.events import StreamEnd, StreamStart, TextDelta, TextEnd, TextStart
from app.testing.upstream import DONE, FINISH, Until, head, send, text, wait
from tests.clock import Clock
from tests.eventlog.creating import create
from tests.hostile import BODY, HEALTH, chat, in_chunks, read_all, statuses
from tests.serving import Relay, serve_relay, serve_script
from tests.waiting import until

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
    "no body": (b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n" + LONG, b""),
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
    "HTTP/1.0": (ASK.replace(b"HTTP/1.1", b"HTTP/1.0"), b"a")
}  # fmt: skip


def is_sent(writer: asyncio.StreamWriter) -> bool:
    return writer.transport.get_write_buffer_size() == 0


async def closed(relay: Relay) -> None:
    await until(lambda: not relay.server.server_state.connections)


@pytest.mark.parametrize("name", WAITS)
async def test_connection_is_closed_whatever_it_waits_for(name, monkeypatch):
    first, again, *times = WAITS[name]
    clock, loop = Clock(monkeypatch), asyncio.get_running_loop()
    async with serve_relay(keepalive_s=60) as relay:
        began = loop.time()
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        await until(lambda: relay.server.server_state.connections)
        writer.write(first)
        for turn in range(1000):
            await clock.pass_(5)
            if not relay.server.server_state.connections:
                break
            if turn < (times[0] if times else 1000):
                writer.write(again)
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 20)
        writer.close()

    assert 10 < loop.time() - began < 400


async def test_pieces_that_come_in_time_make_a_request(monkeypatch):
    """Each of the three may take its time, and so may a pause between two requests."""
    heard: list[bytes] = []
    take = app.server.http_protocol.Protocol.data_received

    def hear(connection: app.server.http_protocol.Protocol, data: bytes) -> None:
        take(connection, data)
        heard.append(data)

    def is_heard(sent: bytes) -> bool:
        return b"".join(heard) == sent

    monkeypatch.setattr(app.server.http_protocol.Protocol, "data_received", hear)
    clock = Clock(monkeypatch)
    async with serve_relay(keepalive_s=30) as relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        asked = HEALTH + b"transfer-encoding: chunked\r\n\r\n"
        sent = b""
        for _ in range(3):
            for part in (asked[:10], asked[10:], in_chunks(b"abc")):
                await clock.pass_(20)
                writer.write(part)
                sent += part
                await until(partial(is_heard, sent))
            assert b"200 OK" in await reader.readuntil(b'"ok"}')
        writer.close()


async def test_long_answer_waits_for_nothing_that_the_client_sends(monkeypatch):
    clock, pause = Clock(monkeypatch), Until()
    times = {"keepalive_s": 5, "send_timeout_s": 5, "idle_timeout_s": 2000}
    async with serve_script(
        [head(), send(text("one")), pause, send(text("two") + FINISH + DONE)], **times
    ) as (relay, upstream):
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        # The second waits for its turn, and what has come of the third waits with it.
        writer.write(chat() + ASK * 300 + HEALTH)
        await asyncio.wait_for(upstream.called.wait(), 20)
        for _ in range(50):
            await clock.pass_(5)
        pause.told.set()
        async with clock.hurrying(step_s=1):
            received = await read_all(reader)
        writer.close()

    assert [*[200] * 301, 400] == statuses(received)
    assert b"did not come within" in received


async def test_body_after_an_answer_is_read_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(app.server.http_protocol, "REST_BYTES", 2**20)
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
            asked = early.replace(b"host: localhost\r\n", b"host: localhost\r\n" + last)
            writer.write(asked + body)
            await until(partial(is_sent, writer))

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
    await until(lambda: relay.server.server_state.connections)
    connection: Any
    for connection in relay.server.server_state.connections:
        connection.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDBUF, 1024
        )


async def read_slowly(relay: Relay, clock: Clock, asked: bytes, *, size: int) -> bool:
    """Take so many bytes every 5 s for an hour; return whether the relay lets go before that."""
    loop = asyncio.get_running_loop()
    with socket.socket() as narrow:
        await connect_narrowly(relay, narrow)
        await loop.sock_sendall(narrow, asked)
        for _ in range(720):
            if not relay.server.server_state.connections:
                return True
            with contextlib.suppress(ConnectionError):
                await loop.sock_recv(narrow, size)
            await clock.pass_(5)
        return False


SLOW = {
    "a stream": b"GET /v1/streams/st_1/events HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "one value": b"GET /v1/streams/st_1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "HTTP/1.0": b"GET /v1/streams/st_1/events HTTP/1.0\r\nhost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("asked", SLOW)
async def test_reader_that_takes_too_little_is_cut_off(asked, monkeypatch):
    async with serve_relay(send_timeout_s=40, min_reader_rate=10**4) as relay:
        await fill(relay, "st_1", 5_000_000)

        assert await read_slowly(relay, Clock(monkeypatch), SLOW[asked], size=1000)


async def test_reader_that_takes_little_by_fits_and_starts_is_cut_off(monkeypatch):
    """Each wait is shorter than the time, so that only their sum can be judged."""
    async with serve_relay(send_timeout_s=100, min_reader_rate=10**7) as relay:
        await fill(relay, "st_1", 20_000_000)

        assert await read_slowly(relay, Clock(monkeypatch), SLOW["a stream"], size=200_000)


async def test_reader_that_takes_enough_is_not_cut_off(monkeypatch):
    """Also where the system's own buffer takes nothing for as long."""
    async with serve_relay(send_timeout_s=500, min_reader_rate=2) as relay:
        await fill(relay, "st_1", 20_000_000)
        clock, loop = Clock(monkeypatch), asyncio.get_running_loop()
        with socket.socket() as narrow:
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            narrow.setblocking(False)
            await loop.sock_connect(narrow, ("127.0.0.1", relay.port))
            await loop.sock_sendall(narrow, SLOW["a stream"])
            for _ in range(60):
                assert await loop.sock_recv(narrow, 2000)
                await clock.pass_(50)

            assert relay.server.server_state.connections


async def test_slow_stream_to_a_reader_that_takes_it_is_not_cut_off(monkeypatch):
    steps = [step for n in range(10) for step in (send(text(f"{n} ")), wait(10))]
    times = {"send_timeout_s": 20, "min_reader_rate": 10**9, "idle_timeout_s": 200}
    async with serve_script([head(), *steps, send(FINISH + DONE)], **times) as (relay, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(chat(b"connection: close", body=BODY.replace(b"false", b"true")))

        async with Clock(monkeypatch).hurrying(step_s=1):
            assert b"stream.end" in await read_all(reader)
        writer.close()


async def test_what_is_left_of_the_last_answer_does_not_keep_a_connection(monkeypatch):
    """Less than what pauses the writing: nothing but the end of the connection is waited for."""
    asked = b"GET /v1/streams/st_1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    clock, loop = Clock(monkeypatch), asyncio.get_running_loop()
    async with serve_relay(send_timeout_s=30, keepalive_s=30) as relay:
        await fill(relay, "st_1", 60_000)
        for kept in (b"", b"connection: close\r\n"):
            with socket.socket() as narrow:
                await connect_narrowly(relay, narrow)
                began = loop.time()
                narrow.send(asked.replace(b"connection: close\r\n", kept))
                async with clock.hurrying(step_s=1):
                    await closed(relay)

                assert loop.time() - began > 10
