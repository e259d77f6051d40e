"""A little proxy whose faults are functions: what real ones do only with filters and plugins."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.commands.doctor.exams import Setup

Write = Callable[[bytes], Awaitable[None]]


@dataclass
class Faults:
    """What the proxy does; with nothing given it hands on every byte."""

    request: Callable[[bytes], bytes] = lambda head: head
    """The head of a request, changed."""
    answer: Callable[[bytes], bytes] = lambda head: head
    """The head of an answer, changed."""
    body: Callable[[bytes], bytes] = lambda data: data
    """What was read of the relay's event stream, changed."""
    refuse: Callable[[bytes, int], bytes | None] = lambda head, number: None
    """An answer in place of the relay's, by the request's head and the request's number."""
    ends_after_s: float | None = None
    """How long a connection may last."""
    dies_after_s: float | None = None
    """After so long nothing of an answer is handed on, and nobody is told."""


class _Relayed:
    def __init__(self, faults: Faults, relay: Callable[[int], int]) -> None:
        self._faults = faults
        self._relay = relay
        self._number = 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        ended = (OSError, asyncio.IncompleteReadError, TimeoutError, asyncio.CancelledError)
        try:
            with contextlib.suppress(*ended):
                async with asyncio.timeout(self._faults.ends_after_s):
                    await self._exchange(reader, writer)
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        faults = self._faults
        head = await reader.readuntil(b"\r\n\r\n")
        self._number += 1
        number = self._number
        if (refusal := faults.refuse(head, number)) is not None:
            writer.write(refusal)
            await writer.drain()
            return
        from_relay, to_relay = await asyncio.open_connection("127.0.0.1", self._relay(number))
        up = asyncio.ensure_future(_pump(reader, to_relay))
        down = asyncio.ensure_future(self._answer(from_relay, writer))
        to_relay.write(faults.request(head))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            to_relay.close()
            up.cancel()
            down.cancel()
            await asyncio.gather(up, down, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        faults = self._faults
        head = await reader.readuntil(b"\r\n\r\n")
        streams = b"text/event-stream" in head
        head = faults.answer(head)
        if streams:  # its chunks may change: the body ends with the connection
            head = _without(head, b"transfer-encoding", b"connection")
            head = head[:-2] + b"connection: close\r\n\r\n"
        writer.write(head)
        chunks = _Chunks() if streams else None
        began = asyncio.get_running_loop().time()
        while data := await reader.read(65536):
            lasted = asyncio.get_running_loop().time() - began
            if faults.dies_after_s is not None and lasted > faults.dies_after_s:
                continue
            if chunks is not None:
                data = faults.body(chunks.feed(data))
            with contextlib.suppress(ConnectionError):
                writer.write(data)
                await writer.drain()
            if chunks is not None and chunks.over:
                return
        if faults.dies_after_s is not None and chunks is not None:
            await asyncio.Event().wait()


class _Chunks:
    """Takes a body out of its chunks."""

    def __init__(self) -> None:
        self._rest = b""
        self.over = False

    def feed(self, data: bytes) -> bytes:
        self._rest += data
        whole = b""
        while b"\r\n" in self._rest:
            line, rest = self._rest.split(b"\r\n", 1)
            size = int(line, 16)
            if len(rest) < size + 2:
                break
            whole += rest[:size]
            self._rest = rest[size + 2 :]
            self.over = size == 0
        return whole


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


def _without(head: bytes, *names: bytes) -> bytes:
    lines = head.split(b"\r\n")
    return b"\r\n".join(line for line in lines if line.split(b":")[0].lower() not in names)


def without(*names: bytes) -> Callable[[bytes], bytes]:
    """Take headers out of a head."""
    return lambda head: _without(head, *names)


def replacing(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(old, new)


def page(status: bytes) -> bytes:
    body = b"<html><body><h1>Sorry</h1></body></html>"
    return (
        b"HTTP/1.1 " + status + b"\r\ncontent-type: text/html\r\nconnection: close\r\n"
        b"content-length: %d\r\n\r\n" % len(body) + body
    )


def tampering(faults: Faults, *, port: Callable[[int, int], int] = lambda relay, _: relay) -> Setup:
    """A proxy with faults; `port` says to which port the request of a number goes."""

    @contextlib.asynccontextmanager
    async def run(folder: Path, relay: int) -> AsyncIterator[str]:
        proxy = _Relayed(faults, lambda number: port(relay, number))
        server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            tasks = list(proxy.tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    return run
