"""HTTP/1.1 connections to upstreams, and the bodies of responses with push delivery.

The path of a token starts here: `Connection.data_received`, then `HttpBody.feed`, and the sink
that it pushes to.
"""

import asyncio
import select
from collections.abc import Callable
from typing import Any, Final

import httpx2

from .response_parser import Head, ResponseParser

BURST: Final = 16 * 1024
"""The maximum bytes of a body that are pushed at once: more are left to the reading task, which
reads at most this many per step, some 50 tokens in 0.5 ms, and yields after each. A step of 4 KiB
costs a third more per token. libuv would push 8 MiB of one socket before the next."""

MAX_UNREAD: Final = 128 * 1024
"""Bytes of a body that wait for its reader before the socket is paused."""

LARGE: Final = 2**20
"""Bytes of a request that are written before other tasks run."""

ByteSink = Callable[[bytes], bool]
"""Consumes a piece of a body within the read that brought it; False: wake the reading task."""


class Disconnected(httpx2.RemoteProtocolError):
    """The connection was closed before anything of a response arrived."""


class HttpBody(httpx2.AsyncByteStream):
    """The body of a response; each step returns all bytes since the last.

    After `push` set a sink, pieces go to it within the read that brought them: no task wakes
    up for a token. The steps then only return for pieces that the sink declined, as one empty
    piece, and for the end. A step returns a bounded piece and yields to others before the
    next.

    It raises `httpx2.RemoteProtocolError` if the body is malformed or incomplete, and what the
    sink raises.
    """

    def __init__(self, connection: "Connection") -> None:
        self._connection: Connection | None = connection
        """Until the body has ended."""
        self._unread = bytearray()
        self._sink: ByteSink | None = None
        self._refused = False
        """Whether the sink declined the last piece."""
        self._returned = False
        """Whether the last step returned a piece without waiting."""
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None

    def push(self, sink: ByteSink) -> None:
        """Deliver later pieces to a sink first."""
        self._sink = sink

    @property
    def at_end(self) -> bool:
        """Whether the whole body was read, so that the connection is free."""
        return self._connection is None and self._failure is None and not self._unread

    def left(self) -> bytes:
        """Return the bytes that are buffered after the reader stopped waiting."""
        return self._read(4 * BURST)

    def feed(self, data: bytes) -> None:
        """Deliver the next bytes."""
        waiter, sink = self._waiter, self._sink
        if waiter is None or sink is None or waiter.done() or len(data) > BURST:
            self._unread += data
            if self._connection is not None and len(self._unread) > MAX_UNREAD:
                self._connection.pause()
            self._wake()
            return
        try:
            self._refused = not sink(data)
        except Exception as failure:  # for the reader
            self._leave(failure)
        else:
            if self._refused:
                self._wake()

    def end(self, failure: Exception | None = None) -> None:
        """End the body, after a failure if there is one; what is unread can still be read."""
        self._connection, self._failure = None, self._failure or failure
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _read(self, most: int) -> bytes:
        piece = bytes(self._unread[:most])
        del self._unread[:most]
        if self._connection is not None and len(self._unread) <= MAX_UNREAD:
            self._connection.resume()
        return piece

    def __aiter__(self) -> "HttpBody":
        return self

    async def __anext__(self) -> bytes:
        if self._returned:
            await asyncio.sleep(0)
        while True:
            if self._unread:
                self._returned = True
                return self._read(BURST)
            self._returned = False
            if self._failure is not None:
                raise self._failure
            if self._connection is None:
                raise StopAsyncIteration
            self._waiter = waiter = asyncio.get_running_loop().create_future()
            await waiter
            if self._refused:
                self._refused = False
                return b""

    async def aclose(self) -> None:
        """Close the connection, unless the body has ended."""
        if self._connection is not None:
            self._leave(httpx2.ReadError("the body was closed before its end"))

    def _leave(self, failure: Exception) -> None:
        connection = self._connection
        if connection is not None:
            self.end(failure)
            connection.close()


class Connection(asyncio.Protocol):
    """A connection for one request after another."""

    __slots__ = (
        *("_body", "_head", "_is_sending", "_parser", "_paused", "_transport"),
        *("free_since", "on_free"),
    )

    def __init__(self) -> None:
        self.on_free: Callable[[Connection], None] | None = None
        """Called whenever the connection may be used again; None while it leads to a proxy only."""
        self.free_since = 0.0
        self._parser = ResponseParser()
        self._transport: Any = None
        self._body: HttpBody | None = None
        """The body that is expected or received."""
        self._head: asyncio.Future[Head] | None = None
        """While the head is expected."""
        self._is_sending = False
        """Whether a part of the request is still to be written."""
        self._paused = False

    async def exchange(self, head: bytes, content: bytes = b"") -> tuple[Head, HttpBody]:
        """Send a request, and return the response once its head arrived.

        The connection is closed after any exception.

        Raises:
            Disconnected: it was closed before.
            NotHttp: what came is not HTTP.
        """
        self._parser.begin()
        self._body = body = HttpBody(self)
        self._head = waiter = asyncio.get_running_loop().create_future()
        try:
            if len(content) <= LARGE:
                self._transport.writelines((head, content))
            else:
                await self._write(head, content)
            return await waiter, body
        except BaseException:
            if self._body is body:  # else another request may already use the connection
                self.close()
            raise

    async def _write(self, head: bytes, content: bytes) -> None:
        self._is_sending = True
        self._transport.write(head)
        view = memoryview(content)
        for start in range(0, len(view), LARGE):
            if self._transport.is_closing():
                break
            self._transport.write(view[start : start + LARGE])
            await asyncio.sleep(0)
        self._is_sending = False

    async def start_tls(self, context: Any, host: str) -> None:
        """Turn a tunnel into a TLS connection to a host; see `loop.start_tls` for its errors."""
        self._parser.close()
        self._parser, self._body = ResponseParser(), None
        self._transport = await asyncio.get_running_loop().start_tls(
            self._transport, self, context, server_hostname=host
        )

    @property
    def is_usable(self) -> bool:
        """Whether it is open, and has nothing to read, not even its end."""
        transport = self._transport
        if transport.is_closing():
            return False
        socket = transport.get_extra_info("socket")
        poll = select.poll()  # unlike select, which is limited to 1,024 descriptors
        poll.register(socket.fileno(), select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Close the connection at once."""
        self._body = None
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Stop reading from the socket."""
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read from the socket again."""
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        body, parser = self._body, self._parser
        if body is None:  # unsolicited
            self.close()
            return
        piece = parser.feed(data)
        if self._head is not None and parser.head is not None:
            # Here, not in `exchange`: before that runs again, the next request may have begun.
            waiter, self._head = self._head, None
            if not waiter.done():
                waiter.set_result(parser.head)
        if piece:
            body.feed(piece)
        if parser.failure is not None:
            self._fail(body, parser.failure)
            self.close()
        elif parser.complete:
            self._end(body)

    def _end(self, body: HttpBody) -> None:
        """Free the connection; it is closed if the next response could not be told from this."""
        self._body = None
        body.end()
        if self.on_free is None:
            return
        parser, transport = self._parser, self._transport
        unsent = self._is_sending or transport.get_write_buffer_size()
        if not parser.keeps_alive or parser.excess or unsent or transport.is_closing():
            self.close()
        else:
            self.resume()
            self.on_free(self)

    def _fail(self, body: HttpBody, failure: Exception) -> None:
        waiter, self._head = self._head, None
        if waiter is None:
            body.end(failure)
        elif not waiter.done():
            waiter.set_exception(failure)

    def connection_lost(self, exc: Exception | None) -> None:
        body, self._body = self._body, None
        parser = self._parser
        parser.close()
        if body is None:
            return
        if parser.head is None:
            closed = Disconnected("the connection was closed without a response")
            failure = (parser.begun and parser.failure) or closed
            failure.__cause__ = exc
            self._fail(body, failure)
        elif parser.complete and exc is None:
            body.end()
        else:
            body.end(parser.failure or httpx2.RemoteProtocolError("the connection broke off"))
