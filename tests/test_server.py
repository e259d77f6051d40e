"""The server's connections, from outside."""

import asyncio

from tests.serving import Relay, serve_relay

ASK = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def kept(relay: Relay) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection that has been answered once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    writer.write(ASK)
    await reader.readuntil(b'"ok"}')
    return reader, writer


async def test_kept_connection_is_closed_after_its_time():
    async with serve_relay(keepalive_s=0.05) as relay:
        reader, writer = await kept(relay)

        assert b"" == await asyncio.wait_for(reader.read(), 5)
        writer.close()
