"""The scripted upstream, from outside."""

import asyncio
import socket
import struct

import pytest

from app.testing.upstream import Call, Step, head, send, serve_upstream

ASKED = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"


@pytest.mark.sends_refused
async def test_relay_that_breaks_off_as_it_is_written_to_has_closed_the_connection():
    async with serve_upstream() as upstream:
        client = socket.create_connection(("127.0.0.1", upstream.port))
        client.sendall(ASKED)

        def break_off(call: Call) -> list[Step]:
            """Reset the connection: the first step is what notices."""
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            return [head(), send("more")]

        upstream.choose = break_off
        await asyncio.wait_for(upstream.called.wait(), 20)
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)
