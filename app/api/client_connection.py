"""What a handler may ask of the connection that its request came over.

Our own server offers a `ClientConnection` with each request; under any other one there is what
ASGI has, a `receive` that says when the client goes.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final, Protocol

from starlette.requests import Request
from starlette.types import Receive, Scope

CONNECTION: Final = "seseragi.connection"
"""The ASGI extension by which our own server offers a `ClientConnection`."""


class Client(Protocol):
    """The client of one request."""

    @property
    def received(self) -> bool:
        """Whether its request is known to have come whole."""

    def watch(self, on_lost: Callable[[], object]) -> AbstractContextManager[None]:
        """Call `on_lost` when the client goes, at once if it has gone already.

        The request must have been read.
        """


class ClientConnection(Client, Protocol):
    """What a response is sent over under our own server, once it has started."""

    on_lost: Callable[[], object] | None
    """Called when the client goes."""
    sent: int
    """Bytes that `write` was given, where they are counted."""

    @property
    def lost(self) -> bool:
        """Whether the client has gone."""

    def write(self, piece: bytes) -> bool:
        """Send a piece of the body now; False if the next ought to wait for `drain`."""

    async def drain(self) -> None:
        """Wait until the client has taken most of what was sent."""

    def abort(self) -> None:
        """Close the connection without ending the response."""

    def break_off(self) -> None:
        """Have the response end without its last chunk, after all that was written.

        The client sees that it is incomplete; one of HTTP/1.0 cannot.
        """


def connection_of(scope: Scope) -> ClientConnection | None:
    """Return the connection that our own server offers; None under any other server."""
    connection: ClientConnection | None = (scope.get("extensions") or {}).get(CONNECTION)
    return connection


def client_of(request: Request) -> Client:
    """Return the client of a request, under any server."""
    return connection_of(request.scope) or AsgiClient(request.receive)


class AsgiClient:
    """A `Client` as ASGI tells of it."""

    received = False

    def __init__(self, receive: Receive) -> None:
        self._receive = receive

    @contextlib.contextmanager
    def watch(self, on_lost: Callable[[], object]) -> Iterator[None]:
        listening = asyncio.ensure_future(self._listen(on_lost))
        try:
            yield
        finally:
            listening.cancel()

    async def _listen(self, on_lost: Callable[[], object]) -> None:
        with contextlib.suppress(Exception):  # a server's way to say that there is no client
            while (await self._receive())["type"] != "http.disconnect":
                pass
        on_lost()
