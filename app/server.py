"""uvicorn, with a stop that lets streams end and a way to cut one connection."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api.response import ABORT

GRACE_S = 3
"""How long readers get to take what is left after the drain."""


class Protocol(HttpToolsProtocol):
    """Offers `ABORT` to the app: closing a connection without ending its response."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]


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
