"""HTTP/1 for one connection: uvicorn's protocol with bounds and deadlines.

- Input is a sequence of requests: upgrades other than to WebSocket are declined, trailers are
  ignored, and nothing after the last request is parsed as another one.
- Every wait of a connection has a deadline, and everything read ahead has a bound.
- Malformed input is answered once, unless the answer could be taken for that to another request,
  and the connection closes.
"""

import asyncio
from functools import partial
from typing import Any, Literal

import httptools
import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ..api.middleware import NON_HTML_SECURITY
from ..api.request import CONNECTION, RESPONSES
from ..dialects.client_formats import client_format_of
from ..errors import RelayError, RequestError
from .connection_limits import ConnectionLimits
from .direct_writer import (
    CountingUnchunkedWriter,
    CountingWriter,
    DirectWriter,
    Event,
    Flow,
    UnchunkedWriter,
)

MAX_HEAD_BYTES = 128 * 1024
MAX_HEADERS = 256
"""The most fields of a head: each lookup scans all of them."""
MAX_PATH_BYTES = 4096
"""Decoding a path of 60 KB takes 5 ms, before any credential is read. A query is not decoded."""
MAX_OVERHEAD_BYTES = 16 * 1024
"""The most bytes of chunk extensions or trailers without a piece of the body."""

PIECE_BYTES = 8 * 1024
"""Bytes parsed at once; it bounds the pipelined requests that begin ahead of their turn."""

HEAD_S = 30
"""How long the head of a request may take, and a connection may be open without one."""

BODY_S = 300
"""How long a body may take, for endpoints that do not read it; those that do give up sooner: after
270 s for one of 32 MiB."""

REST_S = 30
REST_BYTES = 64 * 2**20
"""Seconds and bytes of input after an answer: many clients read it only after sending all, also a
body that is twice as large as `max_request_bytes`."""

CLOCK_S = 0.002
"""How early a timer may fire."""

SOCKET_PATH = RESPONSES.encode()
"""The end of the path where the app may accept a WebSocket handshake."""

BODY_HEADERS = (b"content-length", b"transfer-encoding")

UPGRADE_HEADERS = (b"connection", b"upgrade", b"http2-settings")

log = structlog.get_logger("seseragi.server")


_ParseState = Literal["between", "head", "body"]
"""The part of a request that the next byte belongs to."""

_Wait = Literal[
    "request",
    "head",
    "body",
    "rest",  # the end of the input of a client that has its answer already
    "answer",  # the app, which has its own deadlines
    "reader",  # the client, which takes the rest of its answer before the connection closes
]
"""The event that a connection waits for."""


class _ResponseTransport:
    """The transport that uvicorn's cycle writes to; `close` calls `Protocol.finish`."""

    __slots__ = ("_protocol", "write")

    def __init__(self, protocol: "Protocol") -> None:
        self._protocol = protocol
        self.write = protocol.transport.write

    def is_closing(self) -> bool:
        return self._protocol.finished or self._protocol.transport.is_closing()

    def close(self) -> None:
        self._protocol.finish()


class _Pipeline(list[Any]):
    """What uvicorn uses of a deque, which takes 760 bytes; it is nearly always empty."""

    __slots__ = ()

    def appendleft(self, item: Any) -> None:
        self.insert(0, item)


class Protocol(HttpToolsProtocol):
    """The HTTP protocol, which offers `CONNECTION` to the app; `Flow` limits slow readers."""

    # With these in its dictionary, that would be twice as large.
    __slots__ = (
        "_closing",
        "_due",
        "_last",
        "_limits",
        "_min_reader_rate",
        "_overhead",
        "_peer",
        "_response_transport",
        "_responses",
        "_send_timeout_s",
        "_state",
        "_timer",
        "_timer_at",
        "_unused",
        "_upgraded",
        "_upgrades",
        "_wait",
        "_writers",
        "finished",
    )

    def __init__(
        self,
        *args: Any,
        send_timeout_s: float,
        min_reader_rate: float,
        limits: ConnectionLimits,
        count_bytes: bool = False,
        upgrades: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._upgrades = upgrades
        self.pipeline = _Pipeline()  # type: ignore[assignment]
        self._writers: tuple[type[DirectWriter], type[DirectWriter]] = (
            (CountingWriter, CountingUnchunkedWriter)
            if count_bytes
            else (DirectWriter, UnchunkedWriter)
        )
        self._send_timeout_s = send_timeout_s
        self._min_reader_rate = min_reader_rate
        self._limits = limits

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow: Flow = Flow(
            transport,
            self.loop,
            send_timeout_s=self._send_timeout_s,
            min_reader_rate=self._min_reader_rate,
        )
        self._responses: list[DirectWriter] = []
        self._state: _ParseState = "between"
        self._overhead = 0
        """Bytes since the end of the last head or piece of a body."""
        self._unused = 0
        """Bytes received after an answer, and dropped."""
        self._last = False
        """Whether no further request is parsed."""
        self._closing = False
        """Whether the next request is the last."""
        self.finished = False
        """Whether the last answer has been sent."""
        self._response_transport = _ResponseTransport(self)
        self._upgraded = False
        """Whether the connection has become a WebSocket."""
        self._wait: _Wait | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._due = 0.0
        self._peer: str | None = None
        try:
            self._peer = self._limits.enter(self.client[0] if self.client else None)
        except RelayError as error:
            if count := self._limits.refusals(self.loop.time()):
                log.warning("connections refused", count=count, latest=error.message)
            self._last = True
            transport.write(_render_error(error))
            transport.close()
        self._update_wait()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._peer is not None:
            self._limits.leave(self._peer)
        if self._timer is not None:
            self._timer.cancel()
        self.flow.forget_reader()
        super().connection_lost(exc)
        for response in self._responses:
            response.lose()

    def shutdown(self) -> None:
        if self.finished:
            self.transport.close()
        super().shutdown()

    def last_used(self) -> float:
        """Return a time that orders idle connections by their last answer."""
        return self._due

    def take_last(self, *, within_s: float) -> None:
        """Close after the current answer, or after the next if there is none.

        An idle connection closes after `within_s`: a proxy may have a request on its way that it
        would not send again. After an answer that has begun, the proxy would send its next
        request over the connection when the relay already refuses it.
        """
        self._closing = True
        if self._wait == "answer":
            self.cycle.keep_alive = False
            self._last = True
        elif self._wait == "body":
            self.cycle.keep_alive = False
        elif self._wait == "request":
            self._arm(within_s)

    # Input

    def data_received(self, data: bytes) -> None:
        if self._last or self._wait == "rest":
            self._unused += len(data)
            if self._unused > REST_BYTES:
                self.transport.close()
        if not self._last:
            self._parse(self.flow.unparsed + data if self.flow.unparsed else data)
        self._update_wait()

    def _parse(self, data: bytes) -> None:
        """Parse input up to a pipelined request; keep the rest unparsed and pause reading."""
        self.flow.unparsed = b""
        view = memoryview(data)
        while view and not self._last:
            if self.pipeline:
                self.flow.pause_reading()
                self.flow.unparsed = bytes(view)
                return
            piece = view[:PIECE_BYTES]
            self._overhead += len(piece)
            try:
                view = view[self._feed(piece) :]
            except httptools.HttpParserError as error:
                # An error is also how a callback stops the parser.
                reason = error.__context__
                if not isinstance(reason, RelayError):
                    reason = RequestError("invalid_request", f"invalid HTTP request: {error}")
                if not self._last:
                    self._refuse(reason)
                return
            self._check_overhead()

    def _feed(self, piece: memoryview) -> int:
        """Parse a piece; return the number of bytes parsed."""
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            # It stops after the head, and would take the body for the next request.
            if self._is_socket():
                self._become_socket(bytes(piece[int(upgrade.args[0]) :]))
                return len(piece)
            head = self._head_without_upgrade()
            self.parser = httptools.HttpRequestParser(self)
            self.parser.feed_data(head)
            return int(upgrade.args[0])
        return len(piece)

    def _is_socket(self) -> bool:
        """Return whether the request is a WebSocket handshake that the app may accept."""
        if not (self._upgrades and self.parser.get_method() == b"GET") or self.cycle is not None:
            return False
        headers = dict(self.headers)
        return (
            self.url.partition(b"?")[0].endswith(SOCKET_PATH)
            and headers.get(b"upgrade", b"").lower() == b"websocket"
            and headers.keys().isdisjoint(BODY_HEADERS)
            and self.parser.get_http_version() == "1.1"
        )

    def _become_socket(self, rest: bytes) -> None:
        """Hand the connection over to the WebSocket protocol, with its head."""
        from .socket_protocol import SocketProtocol  # no other connection needs it

        self._upgraded = self._last = True
        if self._timer is not None:
            self._timer.cancel()
        self.connections.discard(self)
        leave, self._peer = partial(self._limits.leave, self._peer or ""), None
        protocol = SocketProtocol(
            config=self.config,
            server_state=self.server_state,
            app_state=self.app_state,
            flow=self.flow,
            on_lost=leave,
        )
        protocol.connection_made(self.transport)
        self.transport.set_protocol(protocol)
        lines = [b"GET %b HTTP/1.1" % self.url]
        lines += [b"%b: %b" % field for field in self.headers]
        protocol.data_received(b"\r\n".join((*lines, b"\r\n")) + rest)
        if not protocol.handshake_initiated:  # without an answer, or a deadline
            lines_at_most = "the head of a WebSocket handshake has at most 128 lines of 8192 bytes"
            self.transport.write(_render_error(RequestError("invalid_request", lines_at_most)))
            self.transport.close()

    def _head_without_upgrade(self) -> bytes:
        """Render the head without its upgrade, with `connection: close`.

        A client that offers an upgrade may continue in another protocol: bytes after the request
        must not be parsed as another one.
        """
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % field for field in self.headers if field[0] not in UPGRADE_HEADERS]
        return b"\r\n".join((*lines, b"connection: close\r\n\r\n"))

    def _check_overhead(self) -> None:
        """Bound the input that the parser consumes without a callback."""
        if self._state != "body":
            if self._overhead > MAX_HEAD_BYTES:
                self._refuse(_too_large("the head of the request is", MAX_HEAD_BYTES))
        elif self._overhead > MAX_OVERHEAD_BYTES:
            what = "the extension of a chunk, or the fields after the body, are"
            self._refuse(_too_large(what, MAX_OVERHEAD_BYTES))

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        if self._last:
            raise RequestError("invalid_request", "the connection is closing; use a new one")
        super().on_message_begin()
        self._state = "head"
        self._wait = None
        self._unused = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._state == "head":  # trailers would bypass the checks of the head
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        url = self.url
        if len(url) > MAX_PATH_BYTES and len(url.partition(b"?")[0]) > MAX_PATH_BYTES:
            raise _too_large("the path of the request is", MAX_PATH_BYTES)
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise RequestError("method_not_allowed", "CONNECT is not supported")
            return  # the same head comes again without it
        _check_head(self.headers, self.parser.get_http_version())
        super().on_headers_complete()
        if self._closing:
            self.cycle.keep_alive = False
        self._state = "body"
        self._overhead = 0
        self.cycle.transport = self._response_transport  # type: ignore[assignment]
        self.cycle.message_event = Event()  # type: ignore[assignment]
        writer_type = self._writers[self.scope["http_version"] != "1.1"]
        writer = writer_type(self.transport, self.cycle)
        self.scope["extensions"] = {CONNECTION: writer}  # type: ignore[dict-item]
        self._responses = [r for r in self._responses if not r.cycle.response_complete]
        self._responses.append(writer)

    def on_body(self, body: bytes) -> None:
        self._overhead = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._state = "between"
        self._overhead = 0
        self._last = not self.cycle.keep_alive
        super().on_message_complete()

    # Answers

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if not self._response_transport.is_closing():
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
            if self.flow.unparsed and not self.pipeline:
                self._parse(self.flow.unparsed)
            if not self.pipeline:
                self.flow.resume_reading()
        self._update_wait()

    def _refuse(self, error: RelayError) -> None:
        """Stop reading, and answer with the error unless that could pass for another answer."""
        log.debug("request refused", detail=error.message)
        cycle, within = self.cycle, self._state == "body"
        if not within:  # the client has no body left to send first
            self._unused = REST_BYTES - MAX_HEAD_BYTES
        self._state, self._last = "between", True
        if within and cycle.response_complete:
            self.finish()
        elif within and (cycle.response_started or self.pipeline):
            self.transport.abort()
        elif not within and cycle is not None and not cycle.response_complete:
            cycle.keep_alive = False  # closes when what came before is answered
        else:
            if within:
                self._responses[-1].lose()
            self.transport.write(_render_error(error))
            self.finish()

    def finish(self) -> None:
        """Send no more, and close when the client does.

        Closing at once would cut off the answer if more input is on its way: the system resets a
        connection that is closed with unread input.
        """
        if self.finished or self.transport.is_closing():
            return
        self.finished = self._last = True
        self.flow.unparsed = b""
        self.transport.write_eof()
        self.flow.resume_reading()
        self._update_wait()

    # Deadlines

    def _update_wait(self) -> None:
        """Update the wait and its deadline."""
        if self._upgraded:
            return
        wait = self._next()
        if wait == self._wait:
            return
        self._wait = wait
        if wait == "answer":
            return
        match wait:
            case "request":
                self._arm(self.timeout_keep_alive if self.cycle else HEAD_S)
            case "head":
                self._arm(HEAD_S)
            case "body":
                self._arm(BODY_S)
            case "rest":
                self._arm(REST_S)
            case "reader":
                self.flow.watch_reader()

    def _next(self) -> _Wait:
        cycle = self.cycle
        if self.transport.is_closing():
            return "reader"
        if self.finished:
            return "rest"
        if self._state == "head":
            return "head"
        if self._state == "body":
            return "rest" if cycle.response_complete else "body"
        return "request" if cycle is None or cycle.response_complete else "answer"

    def _arm(self, seconds: float) -> None:
        """Set the deadline; a timer that fires before it is kept and started again."""
        self.flow.was_paused = self.flow.read_paused
        self._due = self.loop.time() + seconds
        if self._timer is not None:
            if self._timer_at <= self._due:
                return
            self._timer.cancel()
        self._start_timer()

    def _start_timer(self) -> None:
        self._timer_at = self._due
        self._timer = self.loop.call_at(self._due, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._update_wait()  # a closing transport does not always call back
        now = self.loop.time()
        if self._wait in ("answer", "reader"):
            self._due = now + REST_S
        elif self._due <= now + CLOCK_S:
            self._due = now + REST_S
            if self.flow.was_paused:  # by the relay, so the client could not send
                self.flow.was_paused = self.flow.read_paused
            else:
                self._expire()
        if self._timer is None:
            self._start_timer()

    def _expire(self) -> None:
        if self._wait == "head":
            self._refuse(_too_slow("head", HEAD_S))
        elif self._wait == "body":
            self._refuse(_too_slow("body", BODY_S))
        else:
            self.transport.close()
        self._update_wait()


def _check_head(headers: list[tuple[bytes, bytes]], version: str) -> None:
    """Check what the parser accepts and uvicorn ignores.

    Raises:
        RequestError: `invalid_request`.
    """
    if version not in ("1.1", "1.0"):
        raise RequestError("invalid_request", f"use HTTP/1.1 instead of HTTP/{version}")
    if len(headers) > MAX_HEADERS:
        raise RequestError(
            "invalid_request", f"the request has more header fields than the limit of {MAX_HEADERS}"
        )
    if b"transfer-encoding" not in dict(headers):
        return
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    if version == "1.0":  # its proxies forward it without knowing it (RFC 9112, 6.1)
        raise RequestError("invalid_request", "HTTP/1.0 has no transfer-encoding")
    coding = b", ".join(codings).decode("latin-1")
    if coding.strip().lower() != "chunked":
        raise RequestError(
            "invalid_request",
            f"the transfer-encoding {coding[:100]!r} is not supported; use 'chunked'",
        )


def _too_large(what: str, limit: int) -> RequestError:
    """Return the error for input above a limit in bytes."""
    return RequestError("invalid_request", f"{what} larger than the limit of {limit} bytes")


def _too_slow(what: str, seconds: float) -> RequestError:
    """Return the error for input that is not complete in time."""
    return RequestError("invalid_request", f"the {what} did not come within {seconds:g} s")


def _render_error(error: RelayError) -> bytes:
    """Render an error as a whole HTTP response."""
    status, body, media_type = client_format_of("/").render_failure(error, "")
    head = (
        f"content-type: {media_type}\r\ncontent-length: {len(body)}\r\ncache-control: no-store\r\n"
        "connection: close\r\n"
    )
    if error.retry_after_s is not None:
        head += f"retry-after: {error.retry_after_s:.0f}\r\n"
    safe = b"".join([b"%b: %b\r\n" % header for header in NON_HTML_SECURITY])
    return b"%b%b%b\r\n%b" % (STATUS_LINE[status], head.encode(), safe, body)
