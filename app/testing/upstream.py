"""A scripted upstream on a real socket: faults are data.

A script is a list of steps, such as `[head(), send(b"..."), wait(0.2), Reset()]`, played to
every connection. `calls` records the requests, and when their connections closed. It needs only
the standard library.
"""

import asyncio
import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Call:
    """One request, and whether the relay closed its connection."""

    method: str
    path: str
    headers: dict[str, str]
    """By lower-case names."""
    body: bytes
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the relay has closed the connection."""

    @property
    def json(self) -> Any:
        """Parse the body."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Send:
    """Send these bytes: half a line, garbage or a custom head, for example."""

    data: bytes


@dataclass(frozen=True)
class Wait:
    """Wait for this time."""

    seconds: float


@dataclass(frozen=True)
class Reset:
    """Break the connection: RST instead of FIN."""


@dataclass(frozen=True)
class Hold:
    """Stay silent until the relay closes the connection."""


@dataclass(frozen=True)
class Until:
    """Wait until the test sets `told`, in the event loop of the upstream, or until the relay closes
    the connection.
    """

    told: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class Endless:
    """Send the same bytes until the relay closes the connection, at most `times`."""

    data: bytes
    times: int = 100_000


Step = Send | Wait | Reset | Hold | Until | Endless
"""A step of a script; after the last one, the connection is closed."""


def send(data: bytes | str) -> Send:
    """Send bytes, or a text as UTF-8."""
    return Send(data.encode() if isinstance(data, str) else data)


def wait(seconds: float) -> Wait:
    """Wait for this time."""
    return Wait(seconds)


def head(
    status: str = "200 OK", content_type: str | None = "text/event-stream", **headers: str
) -> Send:
    """Send the head of a reply whose body ends with the connection.

    Further headers are named with underscores: `retry_after="2"`.
    """
    lines = [f"HTTP/1.1 {status}", "connection: close"]
    if content_type is not None:
        lines.append(f"content-type: {content_type}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return send("\r\n".join(lines) + "\r\n\r\n")


def chunked_head(**headers: str) -> Send:
    """Send the head of a chunked reply, whose end differs from a broken connection."""
    return Send(head(**headers).data.replace(b"connection: close", b"transfer-encoding: chunked"))


def chunk(data: bytes | str) -> Send:
    """Send one chunk of a chunked body; `LAST_CHUNK` ends it."""
    data = data.encode() if isinstance(data, str) else data
    return Send(b"%x\r\n%b\r\n" % (len(data), data))


LAST_CHUNK = Send(b"0\r\n\r\n")


def reply(
    status: str, body: bytes | str, content_type: str = "application/json", **headers: str
) -> list[Step]:
    """Return the steps of a complete reply, such as `reply("429 Too Many Requests", "{}")`."""
    return [head(status, content_type, **headers), send(body)]


def event(delta: dict[str, Any] | None = None, **fields: Any) -> str:
    """Return one chunk of Chat Completions as a server-sent event.

    `fields` are of its choice: `finish_reason="length"`.
    """
    choice = {"index": 0, "delta": delta or {}, "finish_reason": None, **fields}
    payload = {"id": "up-1", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice]}
    return f"data: {json.dumps(payload, ensure_ascii=False)}\n\n"


def text(content: str) -> str:
    """Return a chunk with a piece of text."""
    return event({"content": content})


FINISH = event(finish_reason="stop")
USAGE = (
    'data: {"id":"up-1","choices":[],"usage":'
    '{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
)
DONE = "data: [DONE]\n\n"


def answer(*pieces: str) -> list[Step]:
    """Return the steps of a complete Chat Completions answer, one write per piece."""
    return [head(), *(send(text(piece)) for piece in pieces), send(FINISH + USAGE + DONE)]


class Upstream:
    """Serves `script`, or the result of `choose` for a call, on 127.0.0.1."""

    def __init__(self) -> None:
        self.script: Sequence[Step] = []
        """Played to every call."""
        self.choose: Callable[[Call], Sequence[Step]] | None = None
        """Returns the script for a call."""
        self.models: Sequence[Step] = reply("404 Not Found", "")
        """Played to every GET, such as that of the list of models."""
        self.choose_models: Callable[[Call], Sequence[Step]] | None = None
        self.models_asked = 0
        self.calls: list[Call] = []
        """All requests but GET."""
        self.called = asyncio.Event()
        self.port = 0
        self._serving: dict[asyncio.StreamWriter, asyncio.Task[Any] | None] = {}

    @property
    def base_url(self) -> str:
        """Return the `base_url` for an upstream of the relay's settings."""
        return f"http://127.0.0.1:{self.port}/v1"

    def reset(self, *script: Step) -> None:
        """Clear the calls, and play these steps from now on."""
        self.script, self.choose = script, None
        self.models, self.choose_models, self.models_asked = reply("404 Not Found", ""), None, 0
        self.calls.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving[writer] = asyncio.current_task()
        try:
            if (call := await _read_call(reader)) is not None:
                await self._answer(call, reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            del self._serving[writer]

    async def _stop(self) -> None:
        """Abort all connections and wait for their tasks."""
        while self._serving:
            for writer in self._serving:
                writer.transport.abort()
            await asyncio.wait({task for task in self._serving.values() if task is not None})

    async def _answer(
        self, call: Call, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        steps: Sequence[Step]
        if call.method == "GET":
            self.models_asked += 1
            steps = self.choose_models(call) if self.choose_models else self.models
        else:
            self.calls.append(call)
            self.called.set()
            steps = self.choose(call) if self.choose else self.script
        watch = asyncio.create_task(_watch(reader, call.closed))
        try:
            for step in steps:
                await _play(step, writer, call.closed)
        except ConnectionError:  # a write may notice before the watch does
            call.closed.set()
        finally:
            watch.cancel()
            await asyncio.wait({watch})


async def _watch(reader: asyncio.StreamReader, closed: asyncio.Event) -> None:
    with contextlib.suppress(ConnectionError):
        await reader.read()
    closed.set()


async def _play(step: Step, writer: asyncio.StreamWriter, closed: asyncio.Event) -> None:
    match step:
        case Send(data):
            writer.write(data)
            await writer.drain()
        case Wait(seconds):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(closed.wait(), seconds)
        case Hold():
            await closed.wait()
        case Until(told):
            waiting = [asyncio.create_task(one.wait()) for one in (told, closed)]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for one in waiting:
                one.cancel()
            await asyncio.wait(waiting)
        case Endless(data, times):
            for _ in range(times):
                if closed.is_set():
                    return
                writer.write(data)
                await writer.drain()
        case Reset():
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()


async def _read_call(reader: asyncio.StreamReader) -> Call | None:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = raw.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {
        name.lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
        if name
    }
    try:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except asyncio.IncompleteReadError:
        return None
    return Call(method, path, headers=headers, body=body)


@contextlib.asynccontextmanager
async def serve_upstream(*, tls: ssl.SSLContext | None = None) -> AsyncIterator[Upstream]:
    """Run a scripted upstream on a free port, behind TLS if there is a context."""
    upstream = Upstream()
    server = await asyncio.start_server(upstream._serve, "127.0.0.1", 0, ssl=tls)
    upstream.port = server.sockets[0].getsockname()[1]
    try:
        yield upstream
    finally:
        server.close()
        await upstream._stop()
        for call in upstream.calls:
            call.closed.set()


@contextlib.contextmanager
def start_upstream(*, timeout_s: float = 60) -> Iterator[Upstream]:
    """Run a scripted upstream in a thread, for tests that have no event loop.

    Other threads may use `script`, `choose` and `calls`, and may check `closed` and `called` with
    `is_set`, but not await them.
    """
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Event, Upstream]] = []
    ready = threading.Event()

    async def serve() -> None:
        async with serve_upstream() as upstream:
            over = asyncio.Event()
            started.append((asyncio.get_running_loop(), over, upstream))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    if not ready.wait(timeout_s):
        raise TimeoutError("the scripted upstream did not start")
    [(loop, over, upstream)] = started
    try:
        yield upstream
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(timeout_s)
