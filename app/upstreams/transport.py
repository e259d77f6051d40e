"""aiohttp connections behind httpx2's interface, and response bodies with push delivery.

The path of a token starts here: `Connection.data_received`, then `Payload.feed_data` of
`response_parser`, and the sink that it pushes to.
"""

import asyncio
import contextlib
import select
from collections.abc import AsyncGenerator, Mapping
from contextvars import ContextVar
from functools import cache, lru_cache, partial
from io import BytesIO
from typing import Any, NamedTuple

import aiohttp
import httpx2
from aiohttp.client_proto import ResponseHandler
from aiohttp.helpers import DEFAULT_CHUNK_SIZE, BaseTimerContext
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from httpx_aiohttp.httpx2 import AiohttpTransport
from httpx_aiohttp.httpx2.transport import map_aiohttp_exceptions
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from .response_parser import BURST, ByteSink, Payload, ResponseParser

# Many servers close idle connections after 5 s (uvicorn, Node). A shorter timeout avoids
# reusing a connection that the server is closing.
KEEPALIVE_S = 4.0

NO_HEADERS: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())

LARGE = 2**20
"""Bytes of a body above which aiohttp warns of one piece."""

KNOWN_URLS = 1024
"""URLs that are remembered; there are few: one per model."""

reused: ContextVar[bool | None] = ContextVar("reused", default=None)
"""Whether this task's connection was reused; None before it has one."""


class _Heads(list[Any]):
    """What aiohttp uses of a deque, which takes 760 bytes, for the heads of replies: one or two."""

    __slots__ = ()

    def popleft(self) -> Any:
        return self.pop(0)


class Connection(ResponseHandler):
    """A connection with a parser of our own, that fails the current body when it fails itself.

    aiohttp 3.14 only notifies the waiter for the next response: the reader of a body with
    malformed chunks would wait forever, though the connection is closed.
    """

    served = False
    """Whether a request was sent on it."""
    _responses: ResponseParser | None = None

    def set_response_params(
        self,
        *,
        auto_decompress: bool = True,
        read_bufsize: int = DEFAULT_CHUNK_SIZE,
        read_timeout: float | None = None,
        timer: BaseTimerContext | None = None,
        **settings: Any,
    ) -> None:
        self.served = True
        if auto_decompress:  # of a proxy's reply to CONNECT only
            super().set_response_params(**settings)
            return
        if self._responses is None:
            self._responses = ResponseParser(self, on_end=self._end)
            self._buffer: Any = _Heads()
        self._responses.begin(limit=read_bufsize, timer=timer)
        self._parser = self._responses  # type: ignore[assignment]  # its interface
        self._read_timeout = read_timeout
        self._drain_tail()

    def data_received(self, data: bytes) -> None:
        responses = self._responses
        if responses is not None and responses.complete:
            if data:  # unsolicited
                self._drop()
            return
        if responses is None or responses.payload is None:
            super().data_received(data)
        else:  # nearly every read
            try:
                responses.feed_data(data)
            except HttpProcessingError as error:
                if self.transport is not None:
                    self.transport.close()
                self.set_exception(error)
        if responses is not None and responses.excess:
            self._drop()

    def _end(self) -> None:
        if self.transport is not None and self.transport.get_write_buffer_size():
            self.force_close()  # the rest of the request would precede the next one

    def _drop(self) -> None:
        """Close the connection; buffered data can still be read."""
        self.force_close()
        if self.transport is not None:
            self.transport.close()

    def has_nothing_to_read(self) -> bool:
        """Return whether the socket has nothing to read, not even EOF."""
        socket = None if self.transport is None else self.transport.get_extra_info("socket")
        if socket is None or socket.fileno() < 0:
            return False
        poll = select.poll()  # unlike select, which is limited to 1,024 descriptors
        poll.register(socket.fileno(), select.POLLIN)
        return not poll.poll(0)

    def resume_reading(self, resume_parser: bool = True) -> None:
        # aiohttp reruns its parser and resumes the socket after each piece read: 3 us per
        # token, for a connection that was never paused.
        if self._reading_paused or self._buffer_paused:
            super().resume_reading(resume_parser)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        payload = self._payload
        super().set_exception(exc, *cause)
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(aiohttp.ClientPayloadError("the body is malformed"))


class HttpBody(httpx2.AsyncByteStream):
    """The body of a response; each step returns all bytes since the last.

    After `push` set a sink, pieces go to it within the read that brought them: no task wakes
    up for a token. The steps then only return for pieces that the sink declined, as one empty
    piece, and for the end. A step returns a bounded piece and yields to others before the
    next.

    It raises aiohttp's errors, which are among `http.FAILURES`, and the sink's.
    """

    def __init__(self, response: "aiohttp.ClientResponse | PooledResponse") -> None:
        self._response = response
        self._content = content = response.content
        # aiohttp's public method discards unread data when the connection fails.
        self._read = content.read_nowait if content is EMPTY_PAYLOAD else content._read_nowait
        self._returned = False
        """Whether the last step returned a piece without waiting."""

    def push(self, sink: ByteSink) -> None:
        """Deliver later pieces to a sink first."""
        if isinstance(self._content, Payload):
            self._content.sink = sink

    @property
    def at_end(self) -> bool:
        """Whether the whole body was read, so that the connection is free."""
        return self._content.at_eof()

    def left(self) -> bytes:
        """Return the bytes that are buffered after the reader stopped waiting."""
        return self._read(4 * BURST)

    def __aiter__(self) -> "HttpBody":
        return self

    async def __anext__(self) -> bytes:
        content = self._content
        if self._returned:
            await asyncio.sleep(0)
        while True:
            if piece := self._read(BURST):
                self._returned = True
                return piece
            self._returned = False
            if (failure := content.exception()) is not None:
                raise failure
            if content.at_eof():
                raise StopAsyncIteration
            assert isinstance(content, Payload)  # noqa: S101  (any other is empty)
            await content.expect()
            if content.refused:
                content.refused = False
                return b""

    async def aclose(self) -> None:
        self._response.release()


class HttpCall(NamedTuple):
    """One HTTP call."""

    method: str
    url: httpx2.URL
    headers: dict[str, str]
    """With lower-case names."""
    content: bytes = b""
    connect_timeout_s: float | None = None


class HttpReply(NamedTuple):
    """The response to a call, once its head arrived."""

    status: int
    headers: Mapping[str, str]
    """With names in any case."""
    body: HttpBody | AsyncGenerator[bytes]
    """As sent; the caller closes it."""

    @property
    def coding(self) -> str:
        """The content coding of the body, "identity" for none."""
        return self.headers.get("content-encoding", "").strip().lower()[:40] or "identity"


class _Response(aiohttp.ClientResponse):
    """A response that drops its headers while its body lasts, which saves 5 KiB."""

    def forget_head(self) -> None:
        self._headers, self._raw_headers = NO_HEADERS, ()
        self._raw_cookie_headers = None
        self._cache.clear()  # which has the headers too
        info = self._request_info
        self._request_info = aiohttp.RequestInfo(info.url, info.method, NO_HEADERS)


class PooledResponse:
    """A response on a pooled connection, with what `HttpBody` needs of aiohttp's own."""

    __slots__ = ("connection", "content")

    def __init__(self, connection: aiohttp.connector.Connection, content: StreamReader) -> None:
        self.connection: aiohttp.connector.Connection | None = connection
        self.content = content
        content.on_eof(self.release)

    def release(self) -> None:
        """Give the connection back, which closes it unless the body has ended."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.release()


class Connector(aiohttp.TCPConnector):
    """A connector that reports reuse, and drops connections with unsolicited data."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._keys: dict[URL, aiohttp.client_reqrep.ConnectionKey] = {}
        """The keys of the pool, by the URLs of earlier calls."""

    async def connect(
        self, req: aiohttp.ClientRequest, *more: Any, **options: Any
    ) -> aiohttp.connector.Connection:
        """Return a connection to the upstream itself, through a proxy's tunnel and TLS if any."""
        link = await super().connect(req, *more, **options)
        reused.set(isinstance(link.protocol, Connection) and link.protocol.served)
        if req.proxy is None:
            if len(self._keys) >= KNOWN_URLS:
                self._keys.clear()
            self._keys[req.original_url] = req.connection_key
        return link

    async def take(self, url: URL) -> aiohttp.connector.Connection | None:
        """Return a pooled connection for a URL that was called before, if there is one."""
        key = self._keys.get(url)
        link = None if key is None else await self._get(key, [])
        if link is not None:
            reused.set(True)
        return link

    async def _get(self, *key: Any) -> aiohttp.connector.Connection | None:
        while (pooled := await super()._get(*key)) is not None:
            if isinstance(pooled.protocol, Connection) and pooled.protocol.has_nothing_to_read():
                return pooled
            pooled.close()
        return None


class Transport(AiohttpTransport):
    """aiohttp transport without its limit of 100 connections and without cookies.

    URLs are sent unchanged: aiohttp would requote them and send ":" for "%3A", which would
    change a model's name in a path, or a signed path.
    """

    def get_client(self) -> aiohttp.ClientSession:
        connector = Connector(
            limit=0,  # the hub limits the streams in flight
            keepalive_timeout=KEEPALIVE_S,
            ssl=self.ssl_context,
        )
        loop = asyncio.get_running_loop()
        assert hasattr(connector, "_factory")  # noqa: S101  (else it would have no effect)
        connector._factory = partial(Connection, loop=loop)  # type: ignore[assignment]
        return aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), response_class=_Response
        )

    async def open(self, call: HttpCall) -> HttpReply:
        """Send a call and return the reply once its head arrived.

        Equals `handle_async_request` without httpx2's request and response objects: saves
        80 us. On a pooled connection it also works without aiohttp's: saves 100 us.
        """
        if not isinstance(self.client, aiohttp.ClientSession):
            self.client = self.get_client()
        url, proxy = _encoded(call.url), self.proxy
        connector = self.client.connector
        if proxy is None and isinstance(connector, Connector):
            link = await connector.take(url)
            if link is not None:
                try:
                    return await _exchange(link, call)
                except BaseException as error:
                    link.close()
                    if not isinstance(error, Exception):
                        raise
                    with map_aiohttp_exceptions():
                        raise
        with map_aiohttp_exceptions():
            response = await self.client.request(
                call.method,
                url,
                headers=call.headers,
                data=_body_of(call),
                allow_redirects=False,
                auto_decompress=False,
                timeout=_timeout(call.connect_timeout_s),
                proxy=str(proxy.url) if proxy else None,
                proxy_headers=dict(proxy.headers) if proxy else None,
            )
        assert isinstance(response, _Response)  # noqa: S101  (for mypy)
        status, headers = response.status, response.headers
        response.forget_head()
        return HttpReply(status, headers, HttpBody(response))


async def _exchange(link: aiohttp.connector.Connection, call: HttpCall) -> HttpReply:
    """Send a call over a pooled connection, and return the reply once its head arrived."""
    protocol = link.protocol
    assert protocol is not None  # noqa: S101  (for mypy)
    assert protocol.transport is not None  # noqa: S101  (the pool has connected ones only)
    protocol.set_response_params(read_until_eof=True, auto_decompress=False)
    protocol.transport.writelines([_render_head(call), call.content])
    while True:
        try:
            message, content = await protocol.read()
        except HttpProcessingError as error:
            raise httpx2.RemoteProtocolError("not HTTP") from error
        if not 100 <= message.code < 200 or message.code == 101:
            return HttpReply(message.code, message.headers, HttpBody(PooledResponse(link, content)))


def _render_head(call: HttpCall) -> bytes:
    headers = {"host": call.url.netloc.decode(), **call.headers}
    lines = [
        f"{call.method} {call.url.raw_path.decode()} HTTP/1.1",
        *[f"{name}: {value}" for name, value in headers.items()],
    ]
    if call.content:
        lines.append(f"content-length: {len(call.content)}")
    head = "\r\n".join(lines)
    if head.count("\n") >= len(lines) or head.count("\r") >= len(lines):
        raise ValueError("a header has a line end")
    return f"{head}\r\n\r\n".encode()


def _body_of(call: HttpCall) -> bytes | BytesIO | None:
    """Return a body as aiohttp takes it: a large one in pieces, so that other tasks can run."""
    content = call.content
    return BytesIO(content) if len(content) > LARGE else content or None


@lru_cache(KNOWN_URLS)
def _encoded(url: httpx2.URL) -> URL:
    return URL(str(url), encoded=True)


async def read_pieces(response: httpx2.Response) -> AsyncGenerator[bytes]:
    """Yield the pieces of a response as they arrive; closing this closes the response."""
    try:
        async with contextlib.aclosing(response.aiter_bytes()) as pieces:
            async for piece in pieces:
                yield piece
    finally:
        await response.aclose()


@cache
def _timeout(connect_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(sock_connect=connect_s, connect=connect_s)
