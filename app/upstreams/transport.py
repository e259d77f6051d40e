"""The HTTP transport of upstreams: pooled connections, and new ones by name, proxy and TLS."""

import asyncio
import base64
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

import aiohappyeyeballs
import httpx2

from .connection import Connection, Disconnected, HttpBody
from .http_call import CallUrl, HttpCall, HttpReply, Origin

NAMES_S: Final = 10.0
"""Seconds for which the addresses of a name are used again."""

NEXT_ADDRESS_S: Final = 0.25
"""Seconds until another address is tried beside one that does not answer (RFC 8305, 5)."""


class ProxyRefused(httpx2.ProxyError):
    """The proxy answered to CONNECT with an error status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the proxy answered with status {status}")
        self.status = status


class Connector:
    """Opens connections, through a proxy if there is one."""

    def __init__(self, trust: ssl.SSLContext, proxy: httpx2.Proxy | None) -> None:
        self._trust = trust
        self._proxy = None if proxy is None else CallUrl.of(proxy.url)
        self._names = _Names()
        self.proxy_headers: dict[str, str] = {}
        """The headers for the proxy itself."""
        if proxy is not None and proxy.raw_auth is not None:
            login = base64.b64encode(b":".join(proxy.raw_auth)).decode()
            self.proxy_headers["proxy-authorization"] = f"Basic {login}"

    def render_head(self, call: HttpCall) -> bytes:
        """Render the head of a call: a proxy gets the whole URL (RFC 9112, 3.2), and its login."""
        url = call.url
        if self._proxy is None or url.origin.scheme == "https":
            return call.render_head(url.target, {})
        return call.render_head(f"http://{url.authority}{url.target}", self.proxy_headers)

    async def connect(self, origin: Origin) -> Connection:
        """Open a connection to an upstream.

        Raises:
            httpx2.ConnectError: it cannot be reached; the cause is a `socket.gaierror`, an
                `ssl.SSLError` or another `OSError`.
            httpx2.ProxyError: the proxy cannot be reached, or refuses (`ProxyRefused`).
        """
        if self._proxy is None:
            return await self._open(origin)
        try:
            connection = await self._open(self._proxy.origin)
        except httpx2.ConnectError as error:
            raise httpx2.ProxyError(str(error)) from error
        if origin.scheme == "https":
            try:
                await self._tunnel(connection, origin)
            except BaseException:
                connection.close()
                raise
        return connection

    async def _open(self, origin: Origin) -> Connection:
        """Connect to a server, with TLS if its scheme is https."""
        loop, tls = asyncio.get_running_loop(), origin.scheme == "https"
        try:
            sock = await aiohappyeyeballs.start_connection(
                await self._names.find(origin.host, origin.port),
                happy_eyeballs_delay=NEXT_ADDRESS_S,
            )
            _, connection = await loop.create_connection(
                Connection,
                sock=sock,
                ssl=self._trust if tls else None,
                server_hostname=origin.host if tls else None,
            )
        except (OSError, RuntimeError) as error:  # of uvloop
            raise _explain(error, origin) from error
        return connection

    async def _tunnel(self, connection: Connection, origin: Origin) -> None:
        """Make a proxy connect to the origin, and speak TLS through it."""
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        lines = [
            f"CONNECT {host}:{origin.port} HTTP/1.1",
            f"host: {host}:{origin.port}",
            *[f"{name}: {value}" for name, value in self.proxy_headers.items()],
        ]
        try:
            head, _ = await connection.exchange("\r\n".join([*lines, "", ""]).encode())
        except httpx2.RemoteProtocolError as error:
            raise httpx2.ProxyError(f"the proxy did not answer: {error}") from error
        if not 200 <= head.status < 300:
            raise ProxyRefused(head.status)
        try:
            await connection.start_tls(self._trust, origin.host)
        except OSError as error:
            raise _explain(error, origin) from error


def _explain(error: Exception, origin: Origin) -> httpx2.ConnectError:
    return httpx2.ConnectError(f"cannot connect to {origin.host}:{origin.port}: {error}")


class _Names:
    """The addresses of names; lookups of one name at the same time are one."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], tuple[float, asyncio.Task[list[Any]]]] = {}

    async def find(self, host: str, port: int) -> list[Any]:
        """Return the addresses, each time beginning with another one.

        Raises:
            socket.gaierror: there are none.
        """
        loop = asyncio.get_running_loop()
        until, lookup = self._found.get((host, port), (0.0, None))
        if lookup is None or until < loop.time() or (lookup.done() and lookup.exception()):
            lookup = loop.create_task(_look_up(host, port))
            lookup.add_done_callback(_ignore_failure)
            self._found[host, port] = loop.time() + NAMES_S, lookup
        addresses = await asyncio.shield(lookup)
        addresses.append(addresses.pop(0))
        return addresses[:]


def _ignore_failure(lookup: "asyncio.Task[list[Any]]") -> None:
    """Mark the failure of a lookup as seen: those who waited for it may have gone."""
    if not lookup.cancelled():
        lookup.exception()


async def _look_up(host: str, port: int) -> list[Any]:
    loop, kind = asyncio.get_running_loop(), socket.SOCK_STREAM
    with contextlib.suppress(socket.gaierror):
        return socket.getaddrinfo(host, port, type=kind, flags=socket.AI_NUMERICHOST)
    return await loop.getaddrinfo(host, port, type=kind, flags=socket.AI_ADDRCONFIG)


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

sent_at: ContextVar[float] = ContextVar("sent_at", default=0.0)
"""When this task's last call got its connection, by the clock of the event loop."""

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
        request = connector.render_head(call)
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
        now = asyncio.get_running_loop().time()
        sent_at.set(now)
        try:
            head, body = await connection.exchange(request, call.content)
        except Disconnected:
            if reused.get():
                self._drop_free(url.origin, since=now)
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
