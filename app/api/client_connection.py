"""The client's connection as handlers use it.

Our own server offers a `ClientConnection` with each request; under any other server, ASGI's
`receive` reports when the client disconnects.
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


class RequestClient(Protocol):
    """The client of one request."""

    def take_body(self) -> bytes | None:
        """Return the body if all of it has arrived, which ASGI's `receive` then lacks."""

    def watch(self, on_lost: Callable[[], object]) -> AbstractContextManager[None]:
        """Call `on_lost` when the client disconnects, at once if it has already.

        The body must have been read.
        """


class ClientConnection(RequestClient, Protocol):
    """A connection of our own server, for the body of a response that has started."""

    on_lost: Callable[[], object] | None
    """Called when the client disconnects."""
    sent: int
    """Bytes passed to `write`, if they are counted."""

    @property
    def lost(self) -> bool:
        """Whether the client has disconnected."""

    def write(self, piece: bytes) -> bool:
        """Send a piece of the body now; return False if the next should wait for `drain`."""

    async def drain(self) -> None:
        """Wait until the client has taken most of what was sent."""

    def abort(self) -> None:
        """Close the connection without ending the response."""

    def break_off(self) -> None:
        """End the response without its last chunk, after everything written.

        The client sees that it is incomplete; with HTTP/1.0 it cannot.
        """


def connection_of(scope: Scope) -> ClientConnection | None:
    """Return the connection that our own server offers; None under any other server."""
    connection: ClientConnection | None = (scope.get("extensions") or {}).get(CONNECTION)
    return connection


def client_of(request: Request) -> RequestClient:
    """Return the client of a request, under any server."""
    return connection_of(request.scope) or AsgiClient(request.receive)


class AsgiClient:
    """A `RequestClient` over ASGI's `receive`."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive

    def take_body(self) -> bytes | None:
        return None

    @contextlib.contextmanager
    def watch(self, on_lost: Callable[[], object]) -> Iterator[None]:
        listening = asyncio.ensure_future(self._listen(on_lost))
        try:
            yield
        finally:
            listening.cancel()

    async def _listen(self, on_lost: Callable[[], object]) -> None:
        with contextlib.suppress(Exception):  # some servers raise once the client has disconnected
            while (await self._receive())["type"] != "http.disconnect":
                pass
        on_lost()
