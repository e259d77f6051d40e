"""aiohttp's connections under httpx2's interface, and bodies that are taken as they come.

The way of a token begins here: `Connection.data_received`, `Body.arrived`, and whoever has
asked the body to `push`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, NamedTuple

import aiohttp
import httpx2
from aiohttp.client_proto import ResponseHandler
from httpx_aiohttp.httpx2 import AiohttpTransport
from httpx_aiohttp.httpx2.transport import map_aiohttp_exceptions
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

# Many servers close idle connections after 5 s (uvicorn, Node). A connection that is kept for
# less is not found closed by the request that wants it.
KEEPALIVE_S = 4.0

NO_HEADERS: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())

BURST = 16 * 1024
"""More bytes than that at once wait for their task: the socket is paused meanwhile, and other
connections have their turn. libuv would read and push 8 MiB of one before it looks at another."""

Taker = Callable[[bytes], bool]
"""Takes a piece of a body within the read that brought it; False: it wants to be asked first."""

reused: ContextVar[bool] = ContextVar("reused", default=False)
"""Whether the connection that this task uses had served before."""


class Connection(ResponseHandler):
    """Ends the body that is being read when the connection fails, and says if it is reused.

    aiohttp 3.14 tells only who waits for the next response: a body whose chunks are
    malformed would never end for its reader, though the connection is closed.
    """

    body: "Body | None" = None
    """The one that is being read."""
    _served = False

    def set_response_params(self, **settings: Any) -> None:
        reused.set(self._served)
        self._served = True
        super().set_response_params(**settings)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.body is not None:
            self.body.arrived(size=len(data))

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

    Where somebody has asked for a `push`, pieces go to him within the read that brings them:
    no task has to wake up for a token. The steps then wait for what he does not take, which
    one empty piece stands for, and for the end.

    It fails with aiohttp's errors, which are among `http.FAILURES`, and with his.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._content = response.content
        self._taker: Taker = lambda _: False
        self._waiter: asyncio.Future[bool] | None = None
        """Resolves to whether a piece was not taken."""
        self._taking = self._again = False
        link = response.connection  # none if the whole has come with the head
        self._connection: Connection | None = None
        if link is not None and isinstance(link.protocol, Connection):
            self._connection = link.protocol
            self._connection.body = self

    def push(self, taker: Taker) -> None:
        """Give the pieces to come to a taker first."""
        self._taker = taker

    @property
    def at_end(self) -> bool:
        """Whether all of it has been read, so that its connection is free."""
        return self._content.at_eof()

    def __aiter__(self) -> "Body":
        return self

    async def __anext__(self) -> bytes:
        content = self._content
        while True:
            if piece := content.read_nowait():
                return piece
            if content.at_eof():
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            if await self._waiter:
                return b""

    def arrived(self, *, size: int = 0) -> None:
        """Take note that so many bytes have come, or the end; whoever waits for it is told."""
        waiter, content = self._waiter, self._content
        if self._taking:  # to read has resumed the parser, which brought more
            self._again = True
            return
        if waiter is None or waiter.done():
            return  # it stays where it is until the next step
        if size > BURST:
            waiter.set_result(False)
            return
        self._taking = self._again = True
        refused = False
        try:
            while self._again and not refused:
                self._again = False
                piece = content.read_nowait()
                refused = bool(piece) and not self._taker(piece)
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
    """For who opened it to close."""


class _Response(aiohttp.ClientResponse):
    """aiohttp's, which need not know the headers for as long as its body lasts: 5 KiB."""

    def forget_head(self) -> None:
        self._headers, self._raw_headers = NO_HEADERS, ()
        info = self._request_info
        self._request_info = aiohttp.RequestInfo(info.url, info.method, NO_HEADERS)


class Transport(AiohttpTransport):
    """aiohttp's, without its limit of 100 connections and its memory for cookies.

    URLs go out as they are: aiohttp would quote them anew, and send ":" for "%3A", so that
    the model's name in a path, or a signature of the path, were not what was built.
    """

    def get_client(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
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
        """Make a call; give the reply when its head has come.

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
        body = Body(response)
        if headers.get("content-encoding", "identity").strip().lower() in ("", "identity"):
            return Reply(status, headers, body)
        encoded = httpx2.Response(status, headers=headers, stream=body)
        return Reply(status, headers, read_pieces(encoded))


async def read_pieces(response: httpx2.Response) -> AsyncGenerator[bytes]:
    """Give the pieces of a response as they come, decoded; to close it closes the response."""
    try:
        async for piece in response.aiter_bytes():
            yield piece
    finally:
        await response.aclose()


@cache
def _timeout(connect_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(sock_connect=connect_s, connect=connect_s)
