"""A forward proxy: tunnels CONNECT, answers plain requests itself, and writes down all it sees."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

OK = b"HTTP/1.1 200 Connection established\r\n\r\n"
WHO = b"HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\n\r\n"


@dataclass
class Proxy:
    user: str | None = None
    """`name:password` that it asks for."""
    plain: bytes = b"HTTP/1.1 502 Bad Gateway\r\n\r\n"
    """What it answers to a request that is not CONNECT."""
    asked: list[str] = field(default_factory=list)
    """The first line of each request."""
    seen: bytearray = field(default_factory=bytearray)
    """Every byte that came from the relay."""
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.seen += head
        lines = head.decode("latin-1").split("\r\n")
        self.asked.append(lines[0])
        method, target, _ = lines[0].split(" ")
        if not self._is_known(lines):
            writer.write(WHO)
        elif method == "CONNECT":
            await self._tunnel(target, reader, writer)
        else:
            writer.write(self.plain)

    def _is_known(self, lines: list[str]) -> bool:
        if self.user is None:
            return True
        token = base64.b64encode(self.user.encode()).decode()
        return f"proxy-authorization: basic {token}".lower() in [line.lower() for line in lines]

    async def _tunnel(
        self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        host, _, port = target.rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(OK)
        answers = asyncio.create_task(_pump(there, writer))
        try:
            while data := await reader.read(65_536):
                self.seen += data
                back.write(data)
        finally:
            back.close()
            await answers


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)


@contextlib.asynccontextmanager
async def serve_proxy(
    *, user: str | None = None, plain: bytes = b"", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Proxy]:
    """Run a proxy on a free port."""
    proxy = Proxy(user=user)
    if plain:
        proxy.plain = plain
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=tls)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
