"""aiohttp's connections under httpx2's interface, and bodies that are taken as they come.

The way of a token begins here: `Connection.data_received`, `Body.arrived`, and the sink
that the body pushes to.
"""

import asyncio
import contextlib
import select
from collections.abc import AsyncGenerator, Callable, Mapping
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, NamedTuple

import aiohttp
import httpx2
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from httpx_aiohttp.httpx2 import AiohttpTransport
from httpx_aiohttp.httpx2.transport import map_aiohttp_exceptions
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

# Many servers close idle connections after 5 s (uvicorn, Node). A connection that is kept for
# less is not found closed by the request that wants it.
KEEPALIVE_S = 4.0

NO_HEADERS: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())

BURST = 4 * 1024
"""More bytes than that at once wait for their task, which takes so many at a step and gives way
to others after each. libuv would read and push 8 MiB of one before it looks at another."""

HEAD_END = b"\r\n\r\n"
"""How a head ends, and a body in chunks."""

INTERIM_HEADS = 16
"""How many interim responses (RFC 9110, 15.2) may come before the response to a call."""

HEAD_PIECE = 1024
"""Bytes that are parsed at once until the head of the response has come: 40 interim heads."""

ByteSink = Callable[[bytes], bool]
"""Takes a piece of a body within the read that brought it; False: it wants to be asked first."""

reused: ContextVar[bool | None] = ContextVar("reused", default=None)
"""Whether the connection that this task uses had served before; None: it has none yet."""


class Connection(ResponseHandler):
    """Ends the body that is being read when the connection fails.

    aiohttp 3.14 tells only who waits for the next response: a body whose chunks are
    malformed would never end for its reader, though the connection is closed.
    """

    body: "Body | None" = None
    """The one that is being read."""
    served = False
    """Whether a request was sent on it."""
    _answered = False
    """Whether the request has its whole answer, and no other was sent since."""
    _heads = 0
    """How many answers the last request has got."""
    _interim = 0
    """How many interim ones came before them."""
    _last: StreamReader
    """The body of the last answer."""
    _chunked = False

    def set_response_params(self, **settings: Any) -> None:
        self.served = True
        self._answered, self._heads, self._interim = False, 0, 0
        super().set_response_params(**settings)

    def data_received(self, data: bytes) -> None:
        if self._answered:
            if data:  # nobody has asked for this
                self._drop()
            return
        if self._heads or len(data) <= HEAD_PIECE:
            super().data_received(data)
        else:
            self._parse_head(data)
        if self._answered and not self._ends(data):
            self._drop()
        if self.body is not None:
            self.body.arrived(size=len(data))

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take the head of an answer, and its body, which may have ended already."""
        super().feed_data(data, size)
        message, self._last = data
        if message.code >= 200:  # or others follow
            self._heads += 1
            self._chunked = message.chunked
            self._last.on_eof(self._end)
        else:
            self._interim += 1
            if self._interim > INTERIM_HEADS:
                self.set_exception(BadHttpMessage(f"more than {INTERIM_HEADS} interim responses"))
                self._drop()

    def _parse_head(self, data: bytes) -> None:
        """Parse in pieces until the head has come: 256 KiB of interim heads take a second."""
        at = 0
        while at < len(data) and self._interim <= INTERIM_HEADS:
            end = len(data) if self._heads else at + HEAD_PIECE
            super().data_received(data[at:end])
            at = end

    def _end(self) -> None:
        self._answered = True

    def _ends(self, data: bytes) -> bool:
        """Return whether the answer ends where a read does: what follows would be the next's."""
        if self._heads > 1:
            return False
        pieces = getattr(self._last, "_buffer", ())  # an empty body has none
        if self._chunked or not pieces:
            return data.endswith(HEAD_END) or (bool(data) and HEAD_END.endswith(data))
        return data.endswith(pieces[-1])

    def _drop(self) -> None:
        """Close the connection; what was answered can still be read."""
        self.force_close()
        if self.transport is not None:
            self.transport.close()

    def is_quiet(self) -> bool:
        """Return whether nothing has come that was not read yet, not even an end."""
        socket = None if self.transport is None else self.transport.get_extra_info("socket")
        if socket is None or socket.fileno() < 0:
            return False
        poll = select.poll()  # unlike select, which takes 1,024 descriptors
        poll.register(socket.fileno(), select.POLLIN)
        return not poll.poll(0)

    def resume_reading(self, resume_parser: bool = True) -> None:
        # aiohttp runs its parser over nothing, and resumes the socket, after each piece that
        # is read: 3 us a token, for a connection that was never paused.
        if self._reading_paused or self._buffer_paused:
            super().resume_reading(resume_parser)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        payload = self._payload
        super().set_exception(exc, *cause)
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(aiohttp.ClientPayloadError("the body is malformed"))

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self.body is not None:
            self.body.arrived()


class Body(httpx2.AsyncByteStream):
    """The body of a reply: with each step all that has come since the last.

    Once `push` has set a sink, pieces go to it within the read that brings them: no task has
    to wake up for a token. The steps then wait for what the sink does not take, which one
    empty piece stands for, and for the end. A step takes so much at most, and others have
    their turn before the next.

    It fails with aiohttp's errors, which are among `http.FAILURES`, and with the sink's.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._content = content = response.content
        # aiohttp's own forgets what has come when the connection fails before it is read.
        self._read = content.read_nowait if content is EMPTY_PAYLOAD else content._read_nowait
        self._sink: ByteSink | None = None
        self._waiter: asyncio.Future[bool] | None = None
        """Resolves to whether a piece was not taken."""
        self._taking = self._again = False
        self._gave = False
        """Whether the last step gave a piece without waiting for it."""
        link = response.connection  # none if the whole has come with the head
        self._connection: Connection | None = None
        if link is not None and isinstance(link.protocol, Connection):
            self._connection = link.protocol
            self._connection.body = self

    def push(self, sink: ByteSink) -> None:
        """Give the pieces to come to a sink first."""
        self._sink = sink

    @property
    def at_end(self) -> bool:
        """Whether the whole body has been read, so that its connection is free."""
        return self._content.at_eof()

    def left(self) -> bytes:
        """Return what has come and was not taken, if the wait for more is over."""
        return self._read(16 * BURST)

    def __aiter__(self) -> "Body":
        return self

    async def __anext__(self) -> bytes:
        content = self._content
        if self._gave:
            await asyncio.sleep(0)
        while True:
            if piece := self._read(BURST):
                self._gave = True
                return piece
            self._gave = False
            if (failure := content.exception()) is not None:
                raise failure
            if content.at_eof():
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            if await self._waiter:
                return b""

    def arrived(self, *, size: int = 0) -> None:
        """Note that so many bytes have come, or the end, and wake the reader."""
        waiter, content = self._waiter, self._content
        if self._taking:  # to read has resumed the parser, which brought more
            self._again = True
            return
        if waiter is None or waiter.done():
            return  # it stays where it is until the next step
        sink = self._sink
        if size > BURST or sink is None:
            waiter.set_result(False)
            return
        self._taking = self._again = True
        refused = False
        try:
            while self._again and not refused:
                self._again = False
                piece = self._read(-1)
                refused = bool(piece) and not sink(piece)
            if not refused and (failure := content.exception()) is not None:
                raise failure
        except Exception as failure:
            waiter.set_exception(failure)
        else:
            if refused or content.is_eof():
                waiter.set_result(refused)
        finally:
            self._taking = False

    async def aclose(self) -> None:
        if self._connection is not None and self._connection.body is self:
            self._connection.body = None
        self._response.release()


class Call(NamedTuple):
    """One call over HTTP."""

    method: str
    url: httpx2.URL
    headers: dict[str, str]
    """By their names in lower case."""
    content: bytes = b""
    connect_timeout_s: float | None = None


class Reply(NamedTuple):
    """What a call is answered with, once the head has come."""

    status: int
    headers: Mapping[str, str]
    """By their names in any case."""
    body: Body | AsyncGenerator[bytes]
    """As it was sent, for who opened it to close."""

    @property
    def coding(self) -> str:
        """The coding of the body, "identity" for none."""
        return self.headers.get("content-encoding", "").strip().lower()[:40] or "identity"


class _Response(aiohttp.ClientResponse):
    """aiohttp's, which need not know the headers for as long as its body lasts: 5 KiB."""

    def forget_head(self) -> None:
        self._headers, self._raw_headers = NO_HEADERS, ()
        info = self._request_info
        self._request_info = aiohttp.RequestInfo(info.url, info.method, NO_HEADERS)


class Connector(aiohttp.TCPConnector):
    """aiohttp's, which says what it gives; it keeps no connection that spoke since its answer."""

    async def connect(self, *call: Any, **options: Any) -> aiohttp.connector.Connection:
        """Return a connection to the upstream itself, through a proxy's tunnel and TLS if any."""
        link = await super().connect(*call, **options)
        reused.set(isinstance(link.protocol, Connection) and link.protocol.served)
        return link

    async def _get(self, *key: Any) -> aiohttp.connector.Connection | None:
        while (kept := await super()._get(*key)) is not None:
            if isinstance(kept.protocol, Connection) and kept.protocol.is_quiet():
                return kept
            kept.close()
        return None


class Transport(AiohttpTransport):
    """aiohttp's, without its limit of 100 connections and its memory for cookies.

    URLs go out as they are: aiohttp would quote them anew, and send ":" for "%3A", so that
    the model's name in a path, or a signature of the path, were not what was built.
    """

    def get_client(self) -> aiohttp.ClientSession:
        connector = Connector(
            limit=0,  # the hub bounds the streams in flight
            keepalive_timeout=KEEPALIVE_S,
            ssl=self.ssl_context,
        )
        loop = asyncio.get_running_loop()
        assert hasattr(connector, "_factory")  # noqa: S101  (or this would do nothing, quietly)
        connector._factory = partial(Connection, loop=loop)  # type: ignore[assignment]
        return aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), response_class=_Response
        )

    async def open(self, call: Call) -> Reply:
        """Make a call and return the reply when its head has come.

        What `handle_async_request` does, without a request and a response of httpx2's
        around aiohttp's: 80 us.
        """
        if not isinstance(self.client, aiohttp.ClientSession):
            self.client = self.get_client()
        proxy = self.proxy
        with map_aiohttp_exceptions():
            response = await self.client.request(
                call.method,
                URL(str(call.url), encoded=True),
                headers=call.headers,
                data=call.content or None,
                allow_redirects=False,
                auto_decompress=False,
                timeout=_timeout(call.connect_timeout_s),
                proxy=str(proxy.url) if proxy else None,
                proxy_headers=dict(proxy.headers) if proxy else None,
            )
        assert isinstance(response, _Response)  # noqa: S101  (for mypy)
        status, headers = response.status, response.headers
        response.forget_head()
        return Reply(status, headers, Body(response))


async def read_pieces(response: httpx2.Response) -> AsyncGenerator[bytes]:
    """Yield the pieces of a response as they come; to close it closes the response."""
    try:
        async with contextlib.aclosing(response.aiter_bytes()) as pieces:
            async for piece in pieces:
                yield piece
    finally:
        await response.aclose()


@cache
def _timeout(connect_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(sock_connect=connect_s, connect=connect_s)
