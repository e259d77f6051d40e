"""uvicorn's server with a graceful drain, and its listening socket."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from .connection_limits import ConnectionLimits
from .http_protocol import Protocol

GRACE_S = 3
"""How long readers have for the rest of their output after the drain."""
ON_ITS_WAY_S = 1.0
"""How long requests on open connections are accepted after the signal, with other replicas."""


class Server(uvicorn.Server):
    """A server that, on SIGTERM or SIGINT, runs `drain` while it answers requests, then stops.

    A second signal calls `stop_now`. If `others_answer` at the first signal, the server accepts no
    further connections and soon closes idle ones: a proxy sends even a POST elsewhere when it
    cannot connect, and never after a 503. Requests on their way by then are still accepted.

    With `max_message_bytes`, WebSocket handshakes become connections with messages of that size.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: ConnectionLimits,
        send_timeout_s: float,
        min_reader_rate: float,
        keepalive_s: float,
        root_path: str = "",
        others_answer: Callable[[], bool] = lambda: False,
        on_listening: Callable[[], None] = lambda: None,
        drain: Callable[[], Awaitable[None]] | None = None,
        stop_now: Callable[[], None] = lambda: None,
        count_bytes: bool = False,
        obeys_signals: bool = True,
        max_message_bytes: int = 0,
    ) -> None:
        protocol = partial(
            Protocol,
            limits=limits,
            send_timeout_s=send_timeout_s,
            min_reader_rate=min_reader_rate,
            count_bytes=count_bytes,
            upgrades=max_message_bytes > 0,
        )
        super().__init__(
            uvicorn.Config(
                app,
                http=cast(Any, protocol),
                root_path=root_path,
                loop="auto",
                ws="none",  # `Protocol` hands connections over itself
                ws_max_size=max_message_bytes,
                ws_per_message_deflate=False,
                lifespan="off",  # the hub outlives the server, and is closed after it
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
        self._obeys_signals = obeys_signals
        self._on_listening = on_listening
        self._drain = drain
        self._stop_now = stop_now
        self._signals = 0
        self._stopping_now = False
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._on_listening()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Keep the signal handlers of the process, unless `obeys_signals`."""
        with super().capture_signals() if self._obeys_signals else contextlib.nullcontext():
            yield

    @contextlib.asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve until the end of the `async with`, whatever signals come."""
        task = asyncio.create_task(self.serve(sockets=[listener]))
        while not (self.started or task.done()):  # noqa: ASYNC110  (no event)
            await asyncio.sleep(0)
        try:
            yield
        finally:
            self.should_exit = True
            await task

    def stop(self) -> None:
        """Drain and stop, as the first signal does."""
        self._signals = max(self._signals, 1)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Without uvicorn's own record of the signal, which it would raise again after a
        # clean stop, so that the process would die of it instead of exiting with 0.
        # Only counted: a handler may interrupt `Event.wait` between its look and its wait.
        self._signals += 1

    async def on_tick(self, counter: int) -> bool:
        if self._signals and self._draining is None:
            self._draining = asyncio.create_task(self._drain_all())
        if self._signals > 1 and not self._stopping_now:
            self._stopping_now = True
            self._stop_now()
        return await super().on_tick(counter)

    async def _close_listeners(self) -> None:
        """Accept no further connections, and close the open ones after their next answer.

        Pending connections are accepted first: closing the listener would reset them.
        Idle ones close one after another, those first that proxies reuse last. If all of them
        closed at once, a request on its way to one would be lost: 17 of 2,000 in a burst.
        """
        await _run_loop()
        for listening in self.servers:
            listening.close()
        await _run_loop()  # a connection is made one iteration after it is accepted
        kept = [one for one in self.server_state.connections if isinstance(one, Protocol)]
        kept.sort(key=Protocol.last_used)
        for number, connection in enumerate(kept, 1):
            connection.take_last(within_s=ON_ITS_WAY_S * number / (len(kept) + 1))

    async def _drain_all(self) -> None:
        if self._others_answer():
            await self._close_listeners()
            await asyncio.sleep(ON_ITS_WAY_S)
        try:
            if self._drain is not None:
                await self._drain()
        finally:
            self.should_exit = True


async def _run_loop() -> None:
    """Run a few iterations of the event loop."""
    for _ in range(5):
        await asyncio.sleep(0)


def allow_files() -> int | None:
    """Raise the limit of open files; return it, None if unlimited or unknown.

    Many systems start with 1024; a connection without a free file is reset silently.
    """
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(
        ValueError, OSError
    ):  # macOS reports a hard limit that it does not accept
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
