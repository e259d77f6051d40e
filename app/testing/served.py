"""A relay in the event loop of a test, on a free port of 127.0.0.1."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec
from starlette.types import ASGIApp

from ..clock import Clock
from ..composition import NO_SUBSTITUTES, Substitutes
from ..relay import Relay
from ..server.server import Server, bind
from ..server.serving import build_server
from ..settings import Settings
from ..settings.access import settle_identity

__all__ = ["Clock", "ServedRelay", "Substitutes", "serve_relay"]

START_S = 20.0
STOP_S = 30.0
"""Timeouts for starting and stopping the server."""


class ServedRelay:
    """A relay that listens at `url`, with its parts.

    `key` is the one for this run, for `/admin`; None if the settings name credentials.
    """

    def __init__(self, relay: Relay, server: Server, port: int, *, key: str | None) -> None:
        self.parts = relay
        self.server = server
        self.port = port
        self.key = key
        self.url = f"http://127.0.0.1:{port}"


@contextlib.asynccontextmanager
async def serve_relay(
    settings: Settings,
    *,
    substitutes: Substitutes = NO_SUBSTITUTES,
    wrap_app: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    replicas: bool = False,
) -> AsyncIterator[ServedRelay]:
    """Serve a relay in this event loop until the end of the `async with`.

    `substitutes` replace parts; `wrap_app` returns an ASGI app around the relay's. Without
    configured credentials every client may send chats, also to upstreams that cost money. With
    `replicas` a stop refuses new connections at once, as behind a load balancer.

    Raises:
        SettingsError: a setting is invalid.
        LogUnusable: the event log cannot be opened.
        TimeoutError: the server does not start or stop in time.
    """
    identity = settings.identity
    if not identity.configured:  # a test has no key to send
        identity = msgspec.structs.replace(identity, trusted=True)
        settings = msgspec.structs.replace(settings, identity=identity)
    start = settle_identity(settings)
    listening = asyncio.Event()
    async with Relay.open(start.settings, substitutes=substitutes) as relay:
        with bind("127.0.0.1", 0) as listener:
            server = build_server(
                relay,
                app=wrap_app(relay.app),
                others_answer=lambda: replicas,
                on_listening=listening.set,
                stop_now=relay.hub.shutdown.cut_short,
                obeys_signals=False,
            )
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                await asyncio.wait_for(listening.wait(), START_S)
                port = listener.getsockname()[1]
                yield ServedRelay(relay, server, port, key=start.key)
            finally:
                await relay.hub.drain(0)
                serving.cancel()
                await asyncio.wait({serving})
                await asyncio.wait_for(_close_connections(server), STOP_S)


async def _close_connections(server: Server) -> None:
    """Close the connections of a cancelled server, without uvicorn's sleeps of 0.1 s."""
    for listening in server.servers:
        listening.close()
    for connection in list(server.server_state.connections):
        connection.shutdown()
    while server.server_state.connections or server.server_state.tasks:  # noqa: ASYNC110  (no event)
        await asyncio.sleep(0.002)
