"""New connections to upstreams: names, addresses, proxies and TLS."""

import asyncio
import base64
import contextlib
import socket
import ssl
from typing import Any, Final

import aiohappyeyeballs
import httpx2

from .connection import Connection
from .http_call import CallUrl, Origin

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

    def request_target(self, url: CallUrl) -> str:
        """Return the target of a request (RFC 9112, 3.2): a proxy gets the whole URL."""
        if self._proxy is None or url.origin.scheme == "https":
            return url.target
        return f"http://{url.authority}{url.target}"

    def headers_for(self, url: CallUrl) -> dict[str, str]:
        """Return additional headers of a request: those for a proxy that reads it."""
        return {} if url.origin.scheme == "https" else self.proxy_headers

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
