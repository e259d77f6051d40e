"""What a handler has of the connection that its request came over.

What it sends so goes past ASGI, whose `send` costs a task switch.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, cast

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class DirectWriter:
    """An `api.connection.Connection` of a request."""

    __slots__ = ("_transport", "cycle", "on_lost", "sent")

    def __init__(self, transport: asyncio.Transport, cycle: RequestResponseCycle) -> None:
        self._transport = transport
        self.cycle = cycle
        self.on_lost: Callable[[], object] | None = None
        self.sent = 0

    def write(self, piece: bytes) -> bool:
        cycle = self.cycle
        if piece and not cycle.disconnected:
            self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        return not cycle.flow.write_paused

    async def drain(self) -> None:
        await self.cycle.flow.drain()

    def abort(self) -> None:
        self._transport.abort()

    def break_off(self) -> None:
        self.cycle.chunked_encoding = False
        self.cycle.keep_alive = False

    @property
    def lost(self) -> bool:
        return self.cycle.disconnected

    @property
    def received(self) -> bool:
        return not self.cycle.more_body

    @contextlib.contextmanager
    def watch(self, on_lost: Callable[[], object]) -> Iterator[None]:
        if self.lost:
            on_lost()
        self.on_lost = on_lost
        try:
            yield
        finally:
            self.on_lost = None

    def lose(self) -> None:
        # uvicorn tells the latest of pipelined requests only, and the one that is being
        # answered would go on writing to a closed connection.
        if not self.cycle.response_complete:
            self.cycle.disconnected = True
        self.cycle.message_event.set()
        if self.on_lost is not None:
            self.on_lost()


class UnchunkedWriter(DirectWriter):
    """For a client of HTTP/1.0, which knows no chunks: the body ends with the connection."""

    __slots__ = ()

    def __init__(self, transport: asyncio.Transport, cycle: RequestResponseCycle) -> None:
        super().__init__(transport, cycle)
        send = cycle.send

        async def send_unchunked(message: ASGISendEvent) -> None:
            # That the length is known already keeps uvicorn from chunks; each piece is all
            # of it, so that the sum is right.
            cycle.chunked_encoding = False
            if message["type"] == "http.response.body":
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        cast(Any, cycle).send = send_unchunked
        cycle.waiting_for_100_continue = False

    def write(self, piece: bytes) -> bool:
        cycle = self.cycle
        if not cycle.disconnected:
            self._transport.write(piece)
        return not cycle.flow.write_paused


class CountingWriter(DirectWriter):
    """For the access log alone: it costs a token another call."""

    __slots__ = ()

    def write(self, piece: bytes) -> bool:
        self.sent += len(piece)
        return super().write(piece)


class CountingUnchunkedWriter(UnchunkedWriter):
    """The same, for a client of HTTP/1.0."""

    __slots__ = ()

    def write(self, piece: bytes) -> bool:
        self.sent += len(piece)
        return super().write(piece)
