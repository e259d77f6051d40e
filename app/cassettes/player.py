"""Replay of a cassette: timed reads, and the httpx2 transport that plays them without sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

import httpx2
import msgspec

from ..errors import CODES, RequestError
from ..events import ErrorInfo, StreamEnd, encode
from .cassette import Cassette
from .folder import Folder
from .replay_options import CassetteOptions

MAX_READ_BYTES = 16_384
"""Approximate bytes: a replay of a whole answer yields to other tasks between reads."""


class Read(NamedTuple):
    """Bytes after a delay; none for a stall."""

    wait_s: float | None
    """In seconds; None: forever."""
    data: bytes


def check_fault_events(cassette: Cassette, options: CassetteOptions) -> None:
    """Refuse a fault after an event that does not exist, since it would never occur.

    Raises:
        RequestError: `invalid_request`, with the option.
    """
    for option in ("cut_at", "stall_at", "error_at"):
        event = getattr(options, option)
        if event is not None and event > cassette.last:
            raise RequestError(
                "invalid_request",
                f"model: {option}: the cassette {options.name!r} has {cassette.last} events",
            )


def play(cassette: Cassette, options: CassetteOptions) -> Iterator[Read]:
    """Yield the reads of a replay; faults at the same event in the order stall, error, cut.

    Events of the same time arrive in one read.

    Raises:
        httpx2.ReadError: the cut.
    """
    pending: list[bytes] = []
    size, at, before = 0, 0.0, 0.0

    def flush() -> Iterator[Read]:
        nonlocal pending, size, before
        if pending:
            wait_s = (at - before) / options.speed if options.speed else 0.0
            data, pending, size, before = b"".join(pending), [], 0, at
            yield Read(wait_s, data)

    for number in range(1, cassette.last + 1):
        if number > 1:  # event 1, `stream.start`, is made by the relay
            now, event = cassette.events[number - 2]
            if now > at or size >= MAX_READ_BYTES:
                yield from flush()
            at = now
            pending.append(encode(event) + b"\n")
            size += len(pending[-1])
        if number == options.stall_at:
            yield from flush()
            yield Read(options.stall_s, b"")
        if number == options.error_at:
            yield from flush()
            yield Read(0, _failure(options))
            return
        if number == options.cut_at:
            yield from flush()
            raise httpx2.ReadError("connection reset by the cassette, as cut_at asks")
    yield from flush()


def _failure(options: CassetteOptions) -> bytes:
    code = options.error
    message = f"upstream 'cassette' failed, as error_at={options.error_at} asks"
    info = ErrorInfo(code, message, CODES[code].retryable)
    return encode(StreamEnd("failed", "error", error=info)) + b"\n"


def encode_options(options: CassetteOptions) -> bytes:
    """Encode options as the body of a call."""
    return msgspec.json.encode(options)


decode_options = msgspec.json.Decoder(CassetteOptions).decode


class CassetteTransport(httpx2.AsyncBaseTransport):
    """Answers every call, whose body is a `CassetteOptions`, with the events of its cassette."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the replay.

        Raises:
            RelayError: the cassette does not exist, or is broken.
        """
        options = decode_options(await request.aread())
        cassette = await asyncio.to_thread(self._folder.load, options.name)
        check_fault_events(cassette, options)
        headers = {"content-type": "application/x-ndjson"}
        return httpx2.Response(200, headers=headers, stream=_Replay(play(cassette, options)))


class _Replay(httpx2.AsyncByteStream):
    """A replay as the bytes of a response, generated as they are read."""

    def __init__(self, reads: Iterator[Read]) -> None:
        self._reads = reads
        self._closed = asyncio.Event()
        self._due = 0.0
        """The time of the next read; absolute, so that delays do not add up."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._due = asyncio.get_running_loop().time()
        for wait_s, data in self._reads:
            await self._pause(wait_s)
            if self._closed.is_set():
                return
            if data:
                yield data

    async def aclose(self) -> None:
        self._closed.set()

    async def _pause(self, seconds: float | None) -> None:
        """Sleep until the delay ends or the stream is closed; None: until it is closed."""
        self._due += seconds or 0.0
        remaining_s = None if seconds is None else self._due - asyncio.get_running_loop().time()
        if remaining_s is not None and remaining_s <= 0:
            await asyncio.sleep(0)  # yield to other tasks in a replay without delays
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(remaining_s):
                await self._closed.wait()
