"""A TCP server whose handlers end with it."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from tests.waiting import until

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serve_tcp(handle: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve on a free port, which this gives; wait at the end until clients have gone."""
    running = 0

    async def counted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal running
        running += 1
        try:
            await handle(reader, writer)
        finally:
            running -= 1
            writer.close()

    server = await asyncio.start_server(counted, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await until(lambda: running == 0)
