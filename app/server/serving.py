"""Serving of a relay on its sockets, in this process or in several workers."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from ..api.guard import OPERATOR
from ..composition import build_metrics, build_observers, build_tracing, prepare_log
from ..eventlog import LogUnusable
from ..relay import Relay
from ..reload import Configuration
from ..settings import Settings, SettingsError
from ..settings.convert import fail
from ..telemetry.logs import LineCounter
from ..telemetry.shared_counters import SharedCounters
from ..upstreams.routes import Upstreams
from .connection_limits import ConnectionLimits
from .server import Server
from .workers import RELOAD, SERVING, STOP_NOW, Workers

MAX_CONNECTIONS = 65_536
"""The limit even where more files may be open: 640 MiB at 10 KiB for an idle connection."""

OPERATOR_CONNECTIONS = 100

STOP_WITHIN_S = 15
"""How long a worker may take to stop when the streams have drained."""


def build_server(
    relay: Relay,
    *,
    app: ASGIApp | None = None,
    others_answer: Callable[[], bool],
    on_listening: Callable[[], None],
    stop_now: Callable[[], None],
    obeys_signals: bool = True,
) -> Server:
    """Build the HTTP server of a relay, which drains it on stop.

    `app` replaces the relay's own. With an operator port, the stop waits for a last scrape of the
    metrics.
    """
    settings, hub, metrics = relay.settings, relay.hub, relay.metrics

    async def drain() -> None:
        await hub.drain(settings.drain_s)
        if metrics is not None and settings.operator_port is not None:
            await metrics.wait_for_scrape(settings.last_scrape_s, unless=hub.shutdown.hastened)

    return _build_server(
        settings,
        relay.app if app is None else app,
        most=settings.max_connections or MAX_CONNECTIONS,
        each=settings.max_connections_per_address,
        others_answer=others_answer,
        on_listening=on_listening,
        drain=drain,
        stop_now=stop_now,
        obeys_signals=obeys_signals,
    )


def _build_operator_server(relay: Relay) -> Server:
    """Build the HTTP server of the operator port, which has connections of its own.

    The main server decides when both end.
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope[OPERATOR] = True
        await relay.app(scope, receive, send)

    most = OPERATOR_CONNECTIONS
    return _build_server(relay.settings, app, most=most, each=most, obeys_signals=False)


def _build_server(settings: Settings, app: ASGIApp, *, most: int, each: int, **how: Any) -> Server:
    return Server(
        app,
        limits=ConnectionLimits(most, each=each, trusted=settings.trusted_proxies),
        send_timeout_s=settings.send_timeout_s,
        min_reader_rate=settings.min_reader_rate,
        keepalive_s=settings.keepalive_s,
        root_path=settings.root_path,
        count_bytes=settings.access_log,
        max_message_bytes=settings.max_request_bytes if settings.responses_websocket else 0,
        **how,
    )


class Sockets(NamedTuple):
    """The listening sockets: for clients, and for operators if they have a port of their own."""

    clients: socket.socket
    operators: socket.socket | None


class ServerProcess:
    """One process or worker that serves the command's sockets."""

    def __init__(
        self,
        configuration: Configuration,
        sockets: Sockets,
        lines: LineCounter,
        *,
        on_listening: Callable[[], None],
        shared_counters: Sequence[SharedCounters] = (),
        own_index: int = 0,
        link: socket.socket | None = None,
    ) -> None:
        """A worker has a `link` to its parent, and `own_index` in the `shared_counters`."""
        self._configuration = configuration
        self._sockets = sockets
        self._lines = lines
        self._on_listening = on_listening
        self._shared_counters = shared_counters
        self._own_index = own_index
        self._link = link
        self._hangup = asyncio.Event()
        self._all_stopping = False
        """Whether the parent stops all workers."""

    def run(self) -> None:
        """Serve until a signal, or until the parent sends a stop over the link."""
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            try:
                runner.run(self._serve())
            except (SettingsError, LogUnusable) as error:
                fail(str(error))

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        if self._link is None and hasattr(signal, "SIGHUP"):  # not on Windows
            loop.add_signal_handler(signal.SIGHUP, self._hangup.set)
        settings = self._configuration.settings
        opening = Relay.open(
            settings,
            lines=self._lines,
            shared_counters=self._shared_counters,
            own_index=self._own_index,
        )
        async with contextlib.AsyncExitStack() as stack:
            relay = await stack.enter_async_context(opening)
            # Objects made so far live as long as the process: without them collections save 4 % of
            # the CPU of short requests, and pauses grow with the streams only.
            gc.collect()
            gc.freeze()
            server = build_server(
                relay,
                others_answer=partial(self._others_answer, settings),
                on_listening=self._on_listening,
                # A terminal or supervisor may signal each process, as well as the parent.
                stop_now=(lambda: None) if self._link else relay.hub.shutdown.cut_short,
            )
            if self._link is not None:
                loop.add_reader(self._link, self._on_message, self._link, server, relay)
            hangups = asyncio.create_task(self._handle_hangups(server, relay))
            stack.callback(hangups.cancel)
            if self._sockets.operators is not None:
                operator_server = _build_operator_server(relay)
                await stack.enter_async_context(operator_server.serving(self._sockets.operators))
            await server.serve(sockets=[self._sockets.clients])

    def _others_answer(self, settings: Settings) -> bool:
        """Return whether other processes accept the connections that this one does not."""
        is_worker = self._link is not None
        return settings.log.startswith("redis") or (is_worker and not self._all_stopping)

    async def _handle_hangups(self, server: Server, relay: Relay) -> None:
        """Reload the settings at each SIGHUP, or stop if the terminal has gone."""
        alone = self._link is None
        while True:
            await self._hangup.wait()
            self._hangup.clear()
            if alone and self._configuration.lost_terminal:
                server.stop()
                continue
            reloaded = await asyncio.to_thread(self._configuration.read, logs=alone)
            if reloaded is not None:
                await relay.reconfigure(reloaded)

    def _on_message(self, link: socket.socket, server: Server, relay: Relay) -> None:
        """Handle a message of the parent; stop at once if it has died."""
        try:
            message = link.recv(16)
        except ConnectionResetError:  # it died before it read SERVING
            message = b""
        if RELOAD in message:
            self._hangup.set()
        if message and not message.strip(RELOAD):
            return
        self._all_stopping = True
        server.stop()
        if STOP_NOW in message or not message:
            relay.hub.shutdown.cut_short()
        if not message:
            asyncio.get_running_loop().remove_reader(link)


def serve(
    configuration: Configuration,
    sockets: Sockets,
    lines: LineCounter,
    *,
    on_listening: Callable[[], None],
    until: int | None,
) -> None:
    """Serve in this process until a signal, or until the file `until` ends."""
    if until is not None:
        threading.Thread(target=_stop_at_end_of, args=(until,), daemon=True).start()
    ServerProcess(configuration, sockets, lines, on_listening=on_listening).run()


def run_workers(
    configuration: Configuration,
    sockets: Sockets,
    lines: LineCounter,
    *,
    upstreams: Upstreams,
    on_listening: Callable[[], None],
    until: int | None,
) -> int:
    """Run workers, each with its own relay, until they stop; return the exit code."""
    if not hasattr(os, "fork"):
        fail("several workers need a system that can fork a process, as Linux and macOS can")
    settings = configuration.settings
    # The last is this process's own.
    shared_counters = [SharedCounters() for _ in range(settings.workers + 1)]
    try:
        _prepare_log(settings, upstreams, lines, shared_counters)
    except (SettingsError, LogUnusable) as error:
        fail(str(error))

    def work(link: socket.socket, number: int) -> None:
        structlog.contextvars.bind_contextvars(worker=number)  # in each line of its log
        ServerProcess(
            configuration,
            sockets,
            lines,
            on_listening=partial(_notify_parent, link),
            shared_counters=shared_counters,
            own_index=number - 1,
            link=link,
        ).run()

    scrape_s = 0 if sockets.operators is None else settings.last_scrape_s

    def reload() -> bool:
        if configuration.lost_terminal:
            os.kill(os.getpid(), signal.SIGTERM)
            return False
        return configuration.read() is not None

    return Workers(
        work,
        settings.workers,
        on_serving=on_listening,
        on_stop=sockets.clients.close,  # else unaccepted connections would wait there
        on_end=lambda number: shared_counters[number - 1].leave(),
        on_hangup=reload,
        stop_s=settings.drain_s + STOP_WITHIN_S + scrape_s,
        until=until,
    ).run()


def _prepare_log(
    settings: Settings,
    upstreams: Upstreams,
    lines: LineCounter,
    shared_counters: Sequence[SharedCounters],
) -> None:
    """Prepare the event log for the workers, and count the orphaned streams that this ends."""
    metrics = build_metrics(
        settings, upstreams, shared_counters=shared_counters, own_index=settings.workers
    )
    if metrics is not None:
        lines.count_by(metrics.logged)
    tracing = build_tracing(settings)
    if tracing is not None:
        tracing.open()
    try:
        prepare_log(settings, build_observers(settings, metrics, tracing))
    finally:
        if tracing is not None:  # threads do not survive the fork
            tracing.close()


def _notify_parent(link: socket.socket) -> None:
    with contextlib.suppress(OSError):  # if it died, reading the link shows it
        link.send(SERVING)


def _stop_at_end_of(file: int) -> None:
    """Read a file to its end, then stop this process with SIGTERM."""
    with contextlib.suppress(OSError):  # closed
        while os.read(file, 4096):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


def loop_factory() -> Any:
    """Return uvloop's factory of event loops; None for asyncio's own."""
    try:
        import uvloop
    except ImportError:  # no wheels for Windows
        return None
    return uvloop.new_event_loop
