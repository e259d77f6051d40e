"""A real redis-server for the tests, on a free port, and a way to it that can be cut."""

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.needs import program
from tests.ports import free_port
from tests.waiting import wait_until


class RedisServer:
    """A redis-server (or valkey-server) that can be stopped, killed and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                program("redis-server", "valkey-server"),
                *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)),
                *("--save", "", "--appendonly", "no"),
                *("--repl-diskless-sync-delay", "0", *self._options),
            ],
            stdout=subprocess.DEVNULL,
        )
        wait_until(lambda: self.answers, limit_s=30)

    @property
    def answers(self) -> bool:
        """Whether it is there and has read its file: until then it says that it is loading."""
        answer = self.ask("PING")
        return bool(answer) and not answer.startswith(b"-LOADING")

    def ask(self, *words: str) -> bytes:
        """Say something to the server and give the beginning of its answer; empty if it is away."""
        address = ("127.0.0.1", self.port)
        try:
            with socket.create_connection(address, timeout=5) as connection:
                connection.sendall(" ".join(words).encode() + b"\r\n")
                return connection.recv(65536)
        except OSError:
            return b""

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[RedisServer]:
    server = RedisServer(folder, *options)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class Wire:
    """A TCP proxy: connections can be cut, refused, or left hanging as a partition leaves them."""

    def __init__(self, port: int) -> None:
        self.to = port
        self.port = 0
        self.refuses = False
        self.connections = 0
        """How many were ever made."""
        self._flows = asyncio.Event()
        self._flows.set()
        self._answers = asyncio.Event()
        self._answers.set()
        self._mute_at = b""
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def cut(self) -> None:
        """Break all connections and refuse new ones."""
        self.refuses = True
        for writer in list(self._open):
            writer.transport.abort()

    def hang(self) -> None:
        """Let nothing through, in neither direction, and tell nobody."""
        self._flows.clear()

    def mute(self, at: bytes = b"") -> None:
        """Let what is sent through, but no answer, from the first request with these bytes on."""
        self._mute_at = at
        if not at:
            self._answers.clear()

    def mend(self) -> None:
        self.refuses = False
        self.connections = 0
        """How many were ever made."""
        self._flows.set()
        self._answers.set()
        self._mute_at = b""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        ends = [writer]
        self.connections += 1
        try:
            if self.refuses:
                return
            self._open.add(writer)  # so that it can be cut while the way on is being made
            there = await asyncio.open_connection("127.0.0.1", self.to)
            ends.append(there[1])
            self._open.add(there[1])
            await asyncio.gather(
                self._pass(reader, there[1], self._flows),
                self._pass(there[0], writer, self._flows, self._answers),
            )
        except OSError:
            pass
        finally:
            for end in ends:
                end.transport.abort()
                self._open.discard(end)

    async def close(self) -> None:
        """End all connections, and wait until they have."""
        serving = [*self._serving]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await asyncio.sleep(0.01)  # for the transports, which close in the next turns of the loop

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *flows: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self._mute_at and self._mute_at in data:
                    self.mute()
                for flow in flows:
                    await flow.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


W = TypeVar("W", bound=Wire)


@asynccontextmanager
async def wire_to(port: int) -> AsyncIterator[Wire]:
    async with serve_wire(Wire(port)) as wire:
        yield wire


@asynccontextmanager
async def serve_wire(wire: W) -> AsyncIterator[W]:
    server = await asyncio.start_server(wire._serve, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        wire.mend()
        wire.cut()
        # A connection that is accepted as the server closes is closed by nobody in Python 3.11, and
        # clients that were cut may have one more to make: asyncpg's says that it has given up.
        await asyncio.sleep(0.05)
        server.close()
        await wire.close()


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have relays in this process wait for a Redis that is busy; others have the real times."""
    from app.eventlog.redis import address, link  # to import redis takes 0.2 s

    monkeypatch.setattr(link, "REPLY_S", 20)
    monkeypatch.setattr(link, "CONNECT_S", 20)
    monkeypatch.setitem(address._OURS, "socket_connect_timeout", 20)
