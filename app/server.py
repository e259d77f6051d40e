"""uvicorn, with a stop that lets streams end and a way to cut one connection."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.api.response import ABORT

MAX_HEAD_BYTES = 128 * 1024
HEAD_S = 30
"""How long the head of a request may take, and a connection may be open without one."""

GRACE_S = 3
"""How long readers get to take what is left after the drain."""


class Protocol(HttpToolsProtocol):
    """Offers `ABORT` to the app, and bounds what uvicorn leaves unbounded.

    `ABORT` closes a connection without ending its response. The head of a request may have
    `MAX_HEAD_BYTES` and `HEAD_S`.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._cycles: list[RequestResponseCycle] = []
        self._head_bytes = 0
        self._in_head = True
        self._head_timer = self.loop.call_later(HEAD_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_timer.cancel()
        super().connection_lost(exc)
        # uvicorn tells the latest of pipelined requests only, and the one that is being
        # answered would go on writing to a closed connection.
        for cycle in self._cycles:
            cycle.disconnected = cycle.disconnected or not cycle.response_complete
            cycle.message_event.set()

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]
        self._in_head = True
        self._head_timer.cancel()
        self._head_timer = self.loop.call_later(HEAD_S, self.transport.abort)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_head = False
        self._head_bytes = 0
        self._head_timer.cancel()
        self._cycles = [cycle for cycle in self._cycles if not cycle.response_complete]
        self._cycles.append(self.cycle)


class Server(uvicorn.Server):
    """On SIGTERM or SIGINT `drain` runs while requests are still answered; then it stops.

    A second signal calls `hasten`, a third one stops at once.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        on_listening: Callable[[], None],
        drain: Callable[[], Awaitable[None]],
        hasten: Callable[[], None],
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Protocol,
                loop="auto",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=True,
                timeout_graceful_shutdown=GRACE_S,
                backlog=4096,
            )
        )
        self._on_listening = on_listening
        self._drain = drain
        self._hasten = hasten
        self._signals = 0
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._on_listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Without uvicorn's own record of the signal, which it would raise again after a
        # clean stop, so that the process would die of it instead of exiting with 0.
        self._signals += 1
        if self._signals == 2:
            self._hasten()
        elif self._signals > 2:
            self.should_exit = self.force_exit = True

    async def on_tick(self, counter: int) -> bool:
        if self._signals and self._draining is None:
            self._draining = asyncio.create_task(self._drain_all())
        return await super().on_tick(counter)

    async def _drain_all(self) -> None:
        try:
            await self._drain()
        finally:
            self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """Open the listening socket.

    Raises:
        OSError: the address is taken, not this machine's, or not permitted.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
