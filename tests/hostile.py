"""Requests as bytes, for what no client library would send."""

import asyncio
import contextlib
import re
from collections.abc import Iterator

BODY = b'{"messages": [{"role": "user", "content": "hello"}], "stream": false}'
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"

STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d) ")


def chat(*lines: bytes, body: bytes = BODY) -> bytes:
    """Write a POST that starts a generation."""
    head = (
        b"POST /v1/chat HTTP/1.1",
        b"host: localhost",
        b"content-type: application/json",
        *lines,
    )
    return b"\r\n".join((*head, b"content-length: %d" % len(body), b"", body))


SMUGGLED = chat()


def in_chunks(body: bytes, *trailers: bytes, extension: bytes = b"") -> bytes:
    last = b"".join(b"%b\r\n" % trailer for trailer in trailers)
    return b"%x%b\r\n%b\r\n0\r\n%b\r\n" % (len(body), extension, body, last)


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def tell(port: int, *parts: bytes, within_s: float = 20, pause_s: float = 0) -> bytes:
    """Send parts, each as a packet of its own; give what comes until the connection is closed.

    Fails if it is not closed in time.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        with contextlib.suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await writer.drain()
                if len(parts) > 1:
                    await asyncio.sleep(pause_s)
        return await asyncio.wait_for(read_all(reader), within_s)
    finally:
        writer.close()


async def read_all(reader: asyncio.StreamReader) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            received += data
    return received


def statuses(received: bytes) -> list[int]:
    return [int(status) for status in STATUS.findall(received)]
