"""The HTTP transport of upstreams: calls over pooled connections and new ones."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from functools import partial
from typing import Final

import httpx2

from .connection import Connection, Disconnected, HttpBody
from .connector import Connector
from .http_call import CallUrl, HttpCall, HttpReply, Origin

KEPT: Final = 16
"""The number of an owner's free connections to an origin that are kept for `KEEPALIVE_S`."""

MAX_KEPT: Final = 256
"""The same for all owners and origins: those of the owners that were served last."""

KEEPALIVE_S: Final = 60.0
"""A new connection with TLS takes two or three round trips. If a server closes one earlier (uvicorn
and Node after 5 s), it is not used again, or the call is repeated: see `http._send`."""

SURPLUS_S: Final = 4.0
"""The seconds for which other free connections are kept, about as long as a burst of requests: one
with TLS takes some 40 KiB."""

reused: ContextVar[bool | None] = ContextVar("reused", default=None)
"""Whether this task's connection was reused; None before it has one."""

owner: ContextVar[str] = ContextVar("owner", default="")
"""The owner for whom this task works. Each one has free connections of its own: an upstream that
answers twice shifts the answers of all later requests on a connection by one."""

Pool = tuple[Origin, str]
"""An origin and an owner."""


class Transport(httpx2.AsyncBaseTransport):
    """Sends each call over a connection of its own, and keeps free ones for a while.

    Their number has no limit here: the hub limits the streams in flight.
    """

    def __init__(self, trust: ssl.SSLContext, proxy: httpx2.Proxy | None = None) -> None:
        self._connector = Connector(trust, proxy)
        self._free: dict[Pool, list[Connection]] = {}
        """The one that was used last is at the end, in each pool and of the pools."""
        self._timer: asyncio.TimerHandle | None = None

    async def open(self, call: HttpCall, owner: str = "", *, fresh: bool = False) -> HttpReply:
        """Send an owner's call and return the reply once its head arrived.

        It gets a new connection if it is `fresh`, or has the header `connection: close`.

        Raises:
            httpx2.TransportError: see `Connector.connect` and `Connection.exchange`.
            httpx2.ConnectTimeout: there was no connection in `connect_timeout_s`.
        """
        url, connector = call.url, self._connector
        request = call.render_head(connector.request_target(url), connector.headers_for(url))
        pool, keeps = (url.origin, owner), call.headers.get("connection") != "close"
        connection = self._take(pool) if keeps and not fresh else None
        if connection is not None:
            reused.set(True)
        else:
            try:
                async with asyncio.timeout(call.connect_timeout_s):
                    connection = await connector.connect(url.origin)
            except TimeoutError:
                raise httpx2.ConnectTimeout("no connection in time") from None
            reused.set(False)
            connection.on_free = partial(self._keep, pool) if keeps else Connection.close
        sent_at = asyncio.get_running_loop().time()
        try:
            head, body = await connection.exchange(request, call.content)
        except Disconnected:
            if reused.get():
                self._drop_free(url.origin, since=sent_at)
            raise
        return HttpReply(head.status, head.headers, body)

    def _take(self, pool: Pool) -> Connection | None:
        free = self._free.get(pool)
        while free:
            connection = free.pop()
            if connection.is_usable:
                return connection
            connection.close()
        return None

    def _keep(self, pool: Pool, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        connection.free_since = loop.time()
        self._free[pool] = free = self._free.pop(pool, [])
        free.append(connection)
        if self._timer is None:
            self._timer = loop.call_later(SURPLUS_S, self._close_old)

    def _drop_free(self, origin: Origin, *, since: float) -> None:
        """Close connections that have been free since a time: what closed one may have closed all.

        A load balancer that is replaced forgets all of them.
        """
        for pool, free in self._free.items():
            for connection in [one for one in free if pool[0] == origin]:
                if connection.free_since <= since:
                    free.remove(connection)
                    connection.close()

    def _close_old(self) -> None:
        """Close connections that were free for too long, and come again for the others."""
        loop, self._timer = asyncio.get_running_loop(), None
        now, room = loop.time(), MAX_KEPT
        for pool, free in reversed(list(self._free.items())):
            kept = min(KEPT, room, len(free))
            room, surplus = room - kept, len(free) - kept  # the first, which are the oldest
            old = [
                connection
                for place, connection in enumerate(free)
                if now - connection.free_since >= (SURPLUS_S if place < surplus else KEEPALIVE_S)
            ]
            del free[: len(old)]
            for connection in old:
                connection.close()
            if not free:
                del self._free[pool]
        if self._free:
            self._timer = loop.call_later(SURPLUS_S, self._close_old)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of httpx2; `HttpClient.open` works without its objects."""
        content = await request.aread()
        headers = {
            name.lower(): value
            for name, value in request.headers.items()
            if name.lower() not in ("content-length", "transfer-encoding")
        }
        timeout_s = request.extensions.get("timeout", {}).get("connect")
        url = CallUrl.of(request.url)
        reply = await self.open(HttpCall(request.method, url, headers, content, timeout_s))
        assert isinstance(reply.body, HttpBody)  # noqa: S101  (for mypy)
        return httpx2.Response(reply.status, headers=reply.headers, stream=reply.body)

    async def aclose(self) -> None:
        """Close the free connections; the others close with the bodies on them."""
        if self._timer is not None:
            self._timer.cancel()
        for free in self._free.values():
            for connection in free:
                connection.close()
        self._free.clear()
        await asyncio.sleep(0)  # in which the sockets close


async def read_pieces(response: httpx2.Response) -> AsyncGenerator[bytes]:
    """Yield the pieces of a response as they arrive; closing this closes the response."""
    try:
        async with contextlib.aclosing(response.aiter_bytes()) as pieces:
            async for piece in pieces:
                yield piece
    finally:
        await response.aclose()
