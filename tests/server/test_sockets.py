"""A WebSocket connection has the bounds and deadlines of any other."""

import asyncio
import contextlib
import logging
import struct
import time

import pytest
from starlette.types import Scope

from app.api.authentication import Authentication
from app.identity.principal import ANYONE, Principal
from app.server.socket_protocol import SocketProtocol
from app.testing.upstream import answer
from tests.serving import Relay, serve_relay, serve_script
from tests.waiting import until

HANDSHAKE = b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n" b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"  # fmt: skip
TEXT, PING, PONG, CONTINUATION = 1, 9, 10, 0


def frame(opcode: int, data: bytes = b"", *, final: bool = True) -> bytes:
    length = (
        bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack(">H", len(data))
    )
    return bytes([opcode | 0x80 * final]) + length + bytes(4) + data


async def open_socket(
    relay: Relay, extra: bytes = b"", query: bytes = b""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    start = b"GET /v1/responses%b HTTP/1.1\r\nhost: localhost\r\n" % query
    writer.write(start + HANDSHAKE + extra + b"\r\n")
    return reader, writer


def sockets(relay: Relay) -> list[SocketProtocol]:
    connections = relay.server.server_state.connections
    return [one for one in connections if isinstance(one, SocketProtocol)]


@pytest.mark.parametrize(
    ("extra", "query", "status"),
    [
        (b"".join(b"x-%d: a\r\n" % n for n in range(140)), b"", 400),
        (b"".join(b"x-%d: a\r\n" % n for n in range(300)), b"", 400),
        (b"x: " + b"a" * 9000 + b"\r\n", b"", 400),
        (b"", b"?" + b"a" * 9000, 400),
        (b"transfer-encoding: gzip\r\n", b"", 400),
        (b"content-length: 2\r\n", b"", 426),
    ],
)
async def test_strange_handshake_is_answered(extra, query, status, caplog):
    async with serve_relay() as relay:
        reader, writer = await open_socket(relay, extra, query)
        if b"content-length" in extra:
            writer.write(b"ab")
        async with asyncio.timeout(5):
            received = await reader.read()
        writer.close()
    assert b"HTTP/1.1 %d " % status in received
    assert "Fatal error" not in caplog.text


async def test_nothing_of_a_handshake_or_message_is_logged(caplog):
    caplog.set_level(logging.DEBUG)
    for name in ("uvicorn.error", "websockets"):
        caplog.set_level(logging.DEBUG, logger=name)
    async with serve_relay(log_level="debug") as relay:
        reader, writer = await open_socket(relay, b"authorization: Bearer sesame\r\n", b"?k=sesame")
        writer.write(frame(TEXT, b'{"type": "sesame"}'))
        async with asyncio.timeout(5):
            await reader.readuntil(b'"type":"error"')
        writer.close()
        await until(lambda: not sockets(relay))
    assert "sesame" not in caplog.text


@pytest.mark.parametrize(
    "flood",
    [
        frame(TEXT, final=False) + frame(CONTINUATION, final=False) * 60_000,
        frame(TEXT) * 60_000,
        frame(PING) * 60_000,
        frame(PONG) * 60_000,
    ],
    ids=["fragments", "messages", "pings", "pongs"],
)
async def test_flood_of_small_frames_ends_the_connection_and_holds_nobody_up(flood):
    async with serve_relay() as relay:
        reader, writer = await open_socket(relay)
        await reader.readuntil(b"\r\n\r\n")
        begun = time.thread_time()
        writer.write(flood)
        received = b""
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionError):  # by more input than is read
                while piece := await reader.read(2**16):
                    received = received[-100:] + piece
        writer.close()
        await until(lambda: not sockets(relay))
        assert time.thread_time() - begun < 1
    assert struct.pack(">H", 1008) in received or not received


async def test_bad_utf_8_closes_the_connection_and_logs_no_traceback(caplog):
    async with serve_relay() as relay:
        reader, writer = await open_socket(relay)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(frame(TEXT, b"\xff", final=False) + frame(CONTINUATION) + frame(PING) * 20)
        async with asyncio.timeout(5):
            received = await reader.read()
        writer.close()
        await until(lambda: not sockets(relay))
    assert struct.pack(">H", 1007) in received
    assert "" == caplog.text


async def test_compressed_messages_are_not_accepted():
    extra = b"sec-websocket-extensions: permessage-deflate; client_max_window_bits\r\n"
    async with serve_relay() as relay:
        reader, writer = await open_socket(relay, extra)
        answered = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\xc1\x81" + bytes(5))  # a compressed message
        async with asyncio.timeout(5):
            received = await reader.read()
        writer.close()
    assert b" 101 " in answered
    assert b"extensions" not in answered.lower()
    assert struct.pack(">H", 1002) in received


async def test_client_that_stops_within_a_frame_is_cut_off():
    async with serve_relay() as relay:
        relay.server.config.ws_ping_interval = relay.server.config.ws_ping_timeout = 0.1
        reader, writer = await open_socket(relay)
        writer.write(frame(TEXT, b"x" * 100)[:50])
        async with asyncio.timeout(5):
            received = await reader.read()
        writer.close()
    assert struct.pack(">H", 1011) in received


async def test_nothing_is_read_before_the_handshake_is_checked(monkeypatch):
    reached, checked = asyncio.Event(), asyncio.Event()

    async def identify(self: Authentication, scope: Scope) -> Principal:
        reached.set()
        await checked.wait()
        return ANYONE

    monkeypatch.setattr(Authentication, "identify", identify)
    async with serve_relay() as relay:
        reader, writer = await open_socket(relay)
        await reached.wait()
        (socket,) = sockets(relay)
        assert not socket.transport.is_reading()
        writer.write(frame(TEXT, b"{}"))
        checked.set()
        async with asyncio.timeout(5):
            await reader.readuntil(b'"type":"error"')
        writer.close()


async def test_incomplete_messages_count_as_memory_of_requests():
    async with serve_relay(max_request_memory_bytes=2_500_000, max_request_bytes=2**21) as relay:
        begin = b"\x81\xff" + struct.pack(">Q", 2_000_000) + bytes(1_500_000)
        (_, first), (reader, second) = await open_socket(relay), await open_socket(relay)
        first.write(begin)
        await until(lambda: relay.hub.admission.bytes > 1_400_000)
        await reader.readuntil(b"\r\n\r\n")
        second.write(begin)
        async with asyncio.timeout(5):
            with contextlib.suppress(OSError):  # by more input than is read
                await reader.read()
        await until(lambda: len(sockets(relay)) == 1)
        first.close()
        second.close()
        await until(lambda: relay.hub.admission.bytes == 0)


async def test_broken_frame_before_the_handshake_is_answered_closes(caplog):
    async with serve_relay() as relay:
        reader, writer = await open_socket(relay, b"\r\n\xff" + bytes(20))
        async with asyncio.timeout(5):
            assert b"" == await reader.read()
        writer.close()
        await until(lambda: not sockets(relay))
    assert "" == caplog.text


async def test_client_that_takes_no_pongs_is_cut_off():
    async with serve_script(answer("a"), send_timeout_s=1) as (relay, _):
        _, writer = await open_socket(relay)
        await until(lambda: bool(sockets(relay)))
        (socket,) = sockets(relay)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        ping, most = frame(PING, b"x" * 125) * 1000, 0
        for _ in range(1000):
            writer.write(ping)
            try:
                async with asyncio.timeout(5):
                    await writer.drain()
            except OSError:
                break
            most = max(most, socket.transport.get_write_buffer_size())
        assert most < 1_000_000
        async with asyncio.timeout(10):
            await until(lambda: not sockets(relay))
        writer.close()
