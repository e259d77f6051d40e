"""Parser of HTTP responses over httptools, with the interface of aiohttp's own. No I/O.

aiohttp's calls three Python functions for every chunk of a body, and most providers send a token a
chunk: 0.5 us of a token in a burst, instead of 0.05.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import httptools
from aiohttp import HttpVersion10, HttpVersion11
from aiohttp.client_proto import ResponseHandler
from aiohttp.helpers import BaseTimerContext
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import BadHttpMessage, TransferEncodingError
from aiohttp.streams import StreamReader
from multidict import CIMultiDict, CIMultiDictProxy

INTERIM_HEADS = 16
"""The maximum number of interim responses (RFC 9110, 15.2) before the final one."""

MAX_HEAD = 256 * 1024
"""The maximum bytes of the heads of one response, and of anything else that is not its body."""

MAX_FIELDS = 128
"""The maximum number of fields of one head or trailer, as aiohttp's."""

BURST: Final = 16 * 1024
"""The maximum bytes of a body that are pushed at once: more are left to the reading task, which
reads at most this many per step, some 50 tokens in 0.5 ms, and yields after each. A step of 4 KiB
costs a third more per token. libuv would push 8 MiB of one socket before the next."""

ByteSink = Callable[[bytes], bool]
"""Consumes a piece of a body within the read that brought it; False: wake the reading task."""

Messages = list[tuple[RawResponseMessage, StreamReader]]


class Payload(StreamReader):
    """A body, whose bytes go straight to `sink` while a reader waits for them."""

    __slots__ = ("refused", "sink")
    _buffer: Any

    def __init__(self, protocol: ResponseHandler, limit: int, timer: BaseTimerContext | None):
        super().__init__(protocol, limit, timer=timer)
        self.sink: ByteSink | None = None
        self.refused = False
        """Whether the sink declined the last piece."""

    def expect(self) -> asyncio.Future[None]:
        """Return what a reader waits for: bytes for it, a declined piece, the end or a failure."""
        self._buffer = ()  # it is empty, and a deque takes 760 bytes
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def feed_data(self, data: bytes, size: int = 0) -> bool:
        waiter, sink = self._waiter, self.sink
        if waiter is None or sink is None or waiter.done() or len(data) > BURST:
            if not self._buffer:
                self._buffer = deque()
            return super().feed_data(data)
        try:
            self.refused = not sink(data)
        except Exception as failure:  # for the reader
            self.set_exception(failure)
        else:
            if self.refused:
                self._waiter = None
                waiter.set_result(None)
        return False


class ResponseParser:
    """Parses the responses on one connection, which ends after any of its errors."""

    def __init__(self, protocol: ResponseHandler, *, on_end: Callable[[], None]) -> None:
        """`on_end` is called when a response is complete, before those who wait for its body."""
        self._protocol = protocol
        self._on_end = on_end
        self._pieces: list[bytes] = []
        self._fields: list[tuple[bytes, bytes]] = []
        self._messages: Messages = []
        # Called by httptools, as are the methods whose names begin with `on_`.
        self.on_body = self._pieces.append
        self._parser = parser = httptools.HttpResponseParser(self)
        # As aiohttp's.
        parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )

    def begin(self, *, limit: int, timer: BaseTimerContext | None = None) -> None:
        """Expect the response to the next request, with a body of at most `limit` bytes unread."""
        self.complete = False
        """Whether the whole final response has arrived."""
        self.excess = False
        """Whether something came after it."""
        self.interim = 0
        """The number of interim responses."""
        self._limit, self._timer = limit, timer
        self.payload: Payload | None = None
        """The body that the next bytes belong to, or whose end they are."""
        self._until_close = False
        self._other_bytes = 0

    def feed_data(self, data: bytes) -> tuple[Messages, bool, bytes]:
        """Parse the next bytes; return messages, whether the protocol changed, and bytes of it.

        Raises:
            BadHttpMessage: they are not HTTP, or exceed a limit.
        """
        upgraded, rest = False, b""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            upgraded, rest = True, data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            if not self.complete:
                self._flush(self.payload)
                begun = "" if self.payload else f": {data[:20]!r}"
                raise BadHttpMessage(f"{error.__context__ or error}{begun}") from None
            self.excess = True
        if self._pieces:
            self._flush(self.payload)
            self._other_bytes = 0
        elif not self.complete:
            self._other_bytes += len(data)
            if self._other_bytes > MAX_HEAD:
                raise BadHttpMessage(f"more than {MAX_HEAD} bytes without a body")
        if not self._messages:
            return [], upgraded, rest
        messages, self._messages = self._messages, []
        return messages, upgraded, rest

    def feed_eof(self) -> None:
        """End the input.

        Raises:
            TransferEncodingError: the body is incomplete.
        """
        payload, self.payload = self.payload, None
        del self._parser  # which refers to this parser: its connection would wait for the collector
        if payload is not None:
            if not self._until_close:
                raise TransferEncodingError("the body is incomplete")
            payload.feed_eof()

    def pause_reading(self) -> None:
        """Do nothing: the connection stops reading, and what it has read is parsed."""

    def on_message_begin(self) -> None:
        self.excess = self.complete
        self._fields.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self._fields) >= MAX_FIELDS:
            raise BadHttpMessage(f"more than {MAX_FIELDS} header fields")
        self._fields.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        parser, raw = self._parser, tuple(self._fields)
        self._fields.clear()  # those of trailers follow
        if self.complete:
            return
        headers = CIMultiDict(
            (name.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape"))
            for name, value in raw
        )
        if any("\0" in value for value in headers.values()):
            raise BadHttpMessage("a header field with a NUL character")
        status = parser.get_status_code()
        if 100 <= status < 200:
            self.interim += 1
            if self.interim > INTERIM_HEADS:
                raise BadHttpMessage(f"more than {INTERIM_HEADS} interim responses")
        chunked = headers.get("transfer-encoding", "").lower().endswith("chunked")
        self._until_close = not chunked and "content-length" not in headers
        message = RawResponseMessage(
            HttpVersion11 if parser.get_http_version() == "1.1" else HttpVersion10,
            status,
            "",
            CIMultiDictProxy(headers),
            raw,
            not parser.should_keep_alive(),
            None,
            parser.should_upgrade(),
            chunked,
        )
        self.payload = Payload(self._protocol, self._limit, self._timer)
        self._messages.append((message, self.payload))

    def on_message_complete(self) -> None:
        payload, self.payload = self.payload, None
        if payload is None:
            return
        if not 100 <= self._parser.get_status_code() < 200:
            self.complete = True
            self._on_end()
        self._flush(payload)
        payload.feed_eof()

    def _flush(self, payload: Payload | None) -> None:
        pieces = b"".join(self._pieces)
        self._pieces.clear()
        if pieces and payload is not None:
            payload.feed_data(pieces)
