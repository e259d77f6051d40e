"""uvicorn, with a stop that lets streams end and a way to cut one connection."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from types import FrameType
from typing import Any, cast

import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.api.response import CONNECTION

MAX_HEAD_BYTES = 128 * 1024
HEAD_S = 30
"""How long the head of a request may take, and a connection may be open without one."""

GRACE_S = 3
"""How long readers get to take what is left after the drain."""


log = structlog.get_logger("seseragi.server")


class _Connection:
    """An `api.response.Connection`: what is sent past ASGI, whose `send` costs a task switch."""

    __slots__ = ("_transport", "cycle", "on_lost")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.cycle: RequestResponseCycle
        """Of uvicorn; set before the app is called."""
        self.on_lost: Callable[[], object] | None = None

    def write(self, piece: bytes) -> bool:
        cycle = self.cycle
        if piece and not cycle.disconnected:
            self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        return not cycle.flow.write_paused

    async def drain(self) -> None:
        await self.cycle.flow.drain()

    def abort(self) -> None:
        self._transport.abort()

    @property
    def lost(self) -> bool:
        return self.cycle.disconnected

    @property
    def received(self) -> bool:
        return not self.cycle.more_body

    def lose(self) -> None:
        # uvicorn tells the latest of pipelined requests only, and the one that is being
        # answered would go on writing to a closed connection.
        if not self.cycle.response_complete:
            self.cycle.disconnected = True
        self.cycle.message_event.set()
        if self.on_lost is not None:
            self.on_lost()


class Protocol(HttpToolsProtocol):
    """Offers `CONNECTION` to the app, and bounds what uvicorn leaves unbounded.

    The head of a request may have `MAX_HEAD_BYTES` and `HEAD_S`. A client that accepts
    nothing of what waits for it for `send_timeout_s` seconds is cut off: one timer while
    something waits, where a cancel scope around each send would cost 9 us a token.
    """

    def __init__(self, *args: Any, send_timeout_s: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._send_timeout_s = send_timeout_s
        self._stuck_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._responses: list[_Connection] = []
        self._head_bytes = 0
        self._in_head = True
        self._head_timer = self.loop.call_later(HEAD_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_timer.cancel()
        self._unstick()
        super().connection_lost(exc)
        for response in self._responses:
            response.lose()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_buffer()

    def resume_writing(self) -> None:
        self._unstick()
        super().resume_writing()

    def _watch_buffer(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._stuck_timer = self.loop.call_later(self._send_timeout_s, self._look, waiting)

    def _look(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self._watch_buffer()
        else:
            log.info("slow reader dropped", after_s=self._send_timeout_s)
            self.transport.abort()

    def _unstick(self) -> None:
        if self._stuck_timer is not None:
            self._stuck_timer.cancel()
            self._stuck_timer = None

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._connection = _Connection(self.transport)
        self.scope["extensions"] = {CONNECTION: self._connection}  # type: ignore[dict-item]
        self._in_head = True
        self._head_timer.cancel()
        self._head_timer = self.loop.call_later(HEAD_S, self.transport.abort)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_head = False
        self._head_bytes = 0
        self._head_timer.cancel()
        self._connection.cycle = self.cycle
        self._responses = [r for r in self._responses if not r.cycle.response_complete]
        self._responses.append(self._connection)


class Server(uvicorn.Server):
    """On SIGTERM or SIGINT `drain` runs while requests are still answered; then it stops.

    A second signal calls `hasten`. Where `others_answer` then, it takes no connection from the
    signal on and keeps none that is idle: a proxy sends even a POST elsewhere when it
    cannot connect, and never after a 503.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        send_timeout_s: float,
        keepalive_s: float,
        others_answer: Callable[[], bool],
        on_listening: Callable[[], None],
        drain: Callable[[], Awaitable[None]],
        hasten: Callable[[], None],
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=cast(Any, partial(Protocol, send_timeout_s=send_timeout_s)),
                loop="auto",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # the app reads them itself, under any server
                server_header=False,
                date_header=True,
                timeout_keep_alive=cast(int, keepalive_s),  # whole or not, it is for a timer
                timeout_graceful_shutdown=GRACE_S,
                backlog=4096,
            )
        )
        self._others_answer = others_answer
        self._on_listening = on_listening
        self._drain = drain
        self._hasten = hasten
        self._signals = 0
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._on_listening()

    def stop(self) -> None:
        """Do what the first signal does."""
        self._signals = max(self._signals, 1)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Without uvicorn's own record of the signal, which it would raise again after a
        # clean stop, so that the process would die of it instead of exiting with 0.
        self._signals += 1
        if self._signals > 1:
            self._hasten()

    async def on_tick(self, counter: int) -> bool:
        if self._signals and self._draining is None:
            self._draining = asyncio.create_task(self._drain_all())
        return await super().on_tick(counter)

    def _turn_away(self) -> None:
        for listening in self.servers:
            listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()

    async def _drain_all(self) -> None:
        if self._others_answer():
            self._turn_away()
        try:
            await self._drain()
        finally:
            self.should_exit = True


def allow_files() -> int | None:
    """Let this process open as many files as it may; give that number, None if there is none.

    Many systems begin with 1024, and without a free one a connection is reset unseen.
    """
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError, OSError):  # macOS names a limit that it does not allow
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if allowed == resource.RLIM_INFINITY else allowed


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
