"""One connection of a client: uvicorn's HTTP/1, where that leaves something open or unbounded.

- What comes is one request after the other and nothing else: an upgrade is not taken, fields
  after the body are ignored, and after the last request nothing is read as another one.
- Whatever a connection waits for has a time by which it must have come, and all that is
  read ahead of its use has a bound.
- What is no request is answered once, if nobody can take that for the answer to something
  else, and the connection closes.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any, cast

import httptools
import structlog
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from .api.connection import CONNECTION
from .api.middleware import NO_PAGE
from .dialects.client_formats import client_format_of
from .errors import RelayError, RequestError
from .peers import Peers

MAX_HEAD_BYTES = 128 * 1024
MAX_HEADERS = 256
"""Fields of one head: each look for one goes through all of them."""

MAX_LOOSE_BYTES = 16 * 1024
"""Extensions of a chunk, or fields after the last one: what comes without a piece of the body."""

PIECE_BYTES = 8 * 1024
"""How much is parsed at once: of pipelined requests no more are begun ahead of their turn."""

HEAD_S = 30
"""How long the head of a request may take, and a connection may be open without one."""

BODY_S = 60
"""How long a body may take. Who reads it gives up sooner; this is for those that do not."""

REST_S = 30
REST_BYTES = 16 * 2**20
"""What is still read of a client that has its answer: many read it after they have sent all."""

CLOCK_S = 0.002
"""A timer goes off that much too early at most."""

OF_UPGRADE = (b"connection", b"upgrade", b"http2-settings")

log = structlog.get_logger("seseragi.server")


class _Place(Enum):
    """What the next byte is part of."""

    BETWEEN = auto()
    HEAD = auto()
    BODY = auto()


class _Wait(Enum):
    """What a connection waits for."""

    REQUEST = auto()
    HEAD = auto()
    BODY = auto()
    REST = auto()
    """The end of what a client sends that has its answer already."""
    ANSWER = auto()
    """The app; what that waits for has its own limits."""
    READER = auto()
    """That the client takes the last of its answer; then it is closed."""


class _Connection:
    """An `api.connection.Connection`: what is sent past ASGI, whose `send` costs a task switch."""

    __slots__ = ("_transport", "cycle", "on_lost")

    def __init__(self, transport: asyncio.Transport, cycle: RequestResponseCycle) -> None:
        self._transport = transport
        self.cycle = cycle
        self.on_lost: Callable[[], object] | None = None

    def write(self, piece: bytes) -> bool:
        cycle = self.cycle
        if piece and not cycle.disconnected:
            self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        return not cycle.flow.write_paused

    async def drain(self) -> None:
        await self.cycle.flow.drain()

    def abort(self) -> None:
        self._transport.abort()

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


class _UnchunkedConnection(_Connection):
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


class _Transport:
    """What uvicorn sends an answer over, and closes: see `Protocol.finish`."""

    __slots__ = ("_protocol", "write")

    def __init__(self, protocol: "Protocol") -> None:
        self._protocol = protocol
        self.write = protocol.transport.write

    def is_closing(self) -> bool:
        return self._protocol.finished or self._protocol.transport.is_closing()

    def close(self) -> None:
        self._protocol.finish()


class _Flow(FlowControl):
    """Does not read on while something that came has not been parsed."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self.held = b""
        self.was_paused = False

    def pause_reading(self) -> None:
        self.was_paused = True
        super().pause_reading()

    def resume_reading(self) -> None:
        if not self.held:
            super().resume_reading()


class Protocol(HttpToolsProtocol):
    """Offers `CONNECTION` to the app.

    A client that takes less of what waits for it than `min_reader_rate` bytes a second, over
    `send_timeout_s`, is cut off: one timer while something waits, where a cancel scope
    around each send would cost 9 us a token.
    """

    def __init__(
        self,
        *args: Any,
        send_timeout_s: float,
        min_reader_rate: float,
        peers: Peers,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._send_timeout_s = send_timeout_s
        self._min_reader_rate = min_reader_rate
        self._peers = peers

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow: _Flow = _Flow(transport)
        self._responses: list[_Connection] = []
        self._place = _Place.BETWEEN
        self._loose = 0
        """Bytes since the last that were of use: the end of a head, a piece of a body."""
        self._unused = 0
        """Bytes that came after an answer and will not be looked at."""
        self._last = False
        """Whether nothing that comes from here on is a request."""
        self.finished = False
        """Whether the last answer has been sent."""
        self._sender = _Transport(self)
        self._wait: _Wait | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._due = 0.0
        self._reader_timer: asyncio.TimerHandle | None = None
        self._waiting = 0
        self._waiting_since = 0.0
        self._waited_s = 0.0
        self._taken = 0
        self._peer: str | None = None
        try:
            self._peer = self._peers.enter(self.client[0] if self.client else None)
        except RelayError as error:
            if told := self._peers.refusals(self.loop.time()):
                log.warning("connections refused", count=told, latest=error.message)
            self._last = True
            transport.write(answer(error))
            transport.close()
        self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._peer is not None:
            self._peers.leave(self._peer)
        if self._timer is not None:
            self._timer.cancel()
        if self._reader_timer is not None:
            self._reader_timer.cancel()
        super().connection_lost(exc)
        for response in self._responses:
            response.lose()

    def shutdown(self) -> None:
        if self.finished:
            self.transport.close()
        super().shutdown()

    # What the client sends

    def data_received(self, data: bytes) -> None:
        if self._last or self._wait is _Wait.REST:
            self._unused += len(data)
            if self._unused > REST_BYTES:
                self.transport.close()
        if not self._last:
            self._parse(self.flow.held + data if self.flow.held else data)
        self._settle()

    def _parse(self, data: bytes) -> None:
        """Parse what came, as far as it is its turn; the rest is held and nothing more read."""
        self.flow.held = b""
        view = memoryview(data)
        while view and not self._last:
            if self.pipeline:
                self.flow.pause_reading()
                self.flow.held = bytes(view)
                return
            piece = view[:PIECE_BYTES]
            self._loose += len(piece)
            try:
                view = view[self._feed(piece) :]
            except httptools.HttpParserError as error:
                # An error is also how a callback stops the parser.
                reason = error.__context__
                if not isinstance(reason, RelayError):
                    reason = RequestError("invalid_request", f"this is no HTTP request: {error}")
                if not self._last:
                    self._refuse(reason)
                return
            self._check_loose()

    def _feed(self, piece: memoryview) -> int:
        """Parse a piece; give how much of it has been."""
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            # It stops after the head, and would take the body for the next request.
            head = self._head_without_upgrade()
            self.parser = httptools.HttpRequestParser(self)
            self.parser.feed_data(head)
            return int(upgrade.args[0])
        return len(piece)

    def _head_without_upgrade(self) -> bytes:
        """Write the head again, as that of a request without an upgrade, which is the last.

        Whoever offers an upgrade may go on in another protocol, or have others do so: what
        follows the request is no other request, whatever it looks like.
        """
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % field for field in self.headers if field[0] not in OF_UPGRADE]
        return b"\r\n".join((*lines, b"connection: close\r\n\r\n"))

    def _check_loose(self) -> None:
        """Bound what the parser takes without giving anything."""
        if self._place is not _Place.BODY:
            if self._loose > MAX_HEAD_BYTES:
                self._refuse(too_large("the head of the request is", MAX_HEAD_BYTES))
        elif self._loose > MAX_LOOSE_BYTES:
            what = "the extension of a chunk, or the fields after the body, are"
            self._refuse(too_large(what, MAX_LOOSE_BYTES))

    # What the parser finds

    def on_message_begin(self) -> None:
        if self._last:
            raise RequestError("invalid_request", "there was a request before that was the last")
        super().on_message_begin()
        self._place = _Place.HEAD
        self._wait = None
        self._unused = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._place is _Place.HEAD:  # not after the body, past all that checked the head
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise RequestError("method_not_allowed", "this is no proxy to CONNECT through")
            return  # the same head comes again without it
        check_head(self.headers, self.parser.get_http_version())
        super().on_headers_complete()
        self._place = _Place.BODY
        self._loose = 0
        self.cycle.transport = self._sender  # type: ignore[assignment]  # what it uses of one
        kind = _Connection if self.scope["http_version"] == "1.1" else _UnchunkedConnection
        connection = kind(self.transport, self.cycle)
        self.scope["extensions"] = {CONNECTION: connection}  # type: ignore[dict-item]
        self._responses = [r for r in self._responses if not r.cycle.response_complete]
        self._responses.append(connection)

    def on_body(self, body: bytes) -> None:
        self._loose = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._place = _Place.BETWEEN
        self._loose = 0
        self._last = not self.cycle.keep_alive
        super().on_message_complete()

    # Answers

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if not self._sender.is_closing():
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
            if self.flow.held and not self.pipeline:
                self._parse(self.flow.held)
            if not self.pipeline:
                self.flow.resume_reading()
        self._settle()

    def _refuse(self, error: RelayError) -> None:
        """Read no further, and say why if that cannot be taken for another answer."""
        log.debug("request refused", detail=error.message)
        cycle, within = self.cycle, self._place is _Place.BODY
        if not within:  # no body is on its way that the client has to get rid of first
            self._unused = REST_BYTES - MAX_HEAD_BYTES
        self._place, self._last = _Place.BETWEEN, True
        if within and cycle.response_complete:
            self.finish()
        elif within and (cycle.response_started or self.pipeline):
            self.transport.abort()
        elif not within and cycle is not None and not cycle.response_complete:
            cycle.keep_alive = False  # closes when what came before is answered
        else:
            if within:
                self._responses[-1].lose()
            self.transport.write(answer(error))
            self.finish()

    def finish(self) -> None:
        """Send no more, and close when the client does.

        Closed at once, what is on its way from the client would break off the answer: the
        system resets a connection that is closed with something unread.
        """
        if self.finished or self.transport.is_closing():
            return
        self.finished = self._last = True
        self.flow.held = b""
        self.transport.write_eof()
        self.flow.resume_reading()
        self._settle()

    # Deadlines

    def _settle(self) -> None:
        """Note what is waited for now, and until when."""
        wait = self._next()
        if wait is self._wait:
            return
        self._wait = wait
        if wait is _Wait.ANSWER:
            return
        match wait:
            case _Wait.REQUEST:
                self._arm(self.timeout_keep_alive if self.cycle else HEAD_S)
            case _Wait.HEAD:
                self._arm(HEAD_S)
            case _Wait.BODY:
                self._arm(BODY_S)
            case _Wait.REST:
                self._arm(REST_S)
            case _Wait.READER:
                self._watch_reader()

    def _next(self) -> _Wait:
        cycle = self.cycle
        if self.transport.is_closing():
            return _Wait.READER
        if self.finished:
            return _Wait.REST
        if self._place is _Place.HEAD:
            return _Wait.HEAD
        if self._place is _Place.BODY:
            return _Wait.REST if cycle.response_complete else _Wait.BODY
        return _Wait.REQUEST if cycle is None or cycle.response_complete else _Wait.ANSWER

    def _arm(self, seconds: float) -> None:
        """Set the time; a timer that goes off too early for it is left, and set again then."""
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
        self._settle()  # that the transport is closing is not always told
        now = self.loop.time()
        if self._wait in (_Wait.ANSWER, _Wait.READER):
            self._due = now + REST_S
        elif self._due <= now + CLOCK_S:
            self._due = now + REST_S
            if self.flow.was_paused:  # by the relay: what did not come could not
                self.flow.was_paused = self.flow.read_paused
            else:
                self._expire()
        if self._timer is None:
            self._start_timer()

    def _expire(self) -> None:
        if self._wait is _Wait.HEAD:
            self._refuse(too_slow("head", HEAD_S))
        elif self._wait is _Wait.BODY:
            self._refuse(too_slow("body", BODY_S))
        else:
            self.transport.close()
        self._settle()

    # What the client takes

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        self._count_taken()
        super().resume_writing()

    def _watch_reader(self) -> None:
        """See after the time how much of what waits has been taken."""
        if self._reader_timer is None:
            self._waiting = untaken(self.transport)
            self._waiting_since = self.loop.time()
            self._reader_timer = self.loop.call_later(self._send_timeout_s, self._judge_reader)

    def _judge_reader(self) -> None:
        self._reader_timer = None
        self._judge(self._waiting - untaken(self.transport), self._send_timeout_s)
        self._watch_reader()

    def _count_taken(self) -> None:
        """Add up what was taken in waits that were too short to be judged alone."""
        if self._reader_timer is None:
            return
        self._reader_timer.cancel()
        self._reader_timer = None
        self._taken += self._waiting - untaken(self.transport)
        self._waited_s += self.loop.time() - self._waiting_since
        if self._waited_s >= self._send_timeout_s:
            self._judge(self._taken, self._waited_s)
            self._taken, self._waited_s = 0, 0.0
        if self.transport.is_closing():
            self._watch_reader()

    def _judge(self, taken: int, seconds: float) -> None:
        if taken < max(1, self._min_reader_rate * seconds):
            log.info("slow reader dropped", after_s=round(seconds, 3), taken=taken)
            self.transport.abort()


def untaken(transport: asyncio.Transport) -> int:
    """Count what has been sent and not been taken, in bytes."""
    waiting = transport.get_write_buffer_size()
    try:
        from fcntl import ioctl
        from termios import TIOCOUTQ

        # Linux takes more only when a third of its own buffer, of megabytes, is free.
        queued = ioctl(transport.get_extra_info("socket").fileno(), TIOCOUTQ, bytes(4))
    except (ImportError, OSError):  # another system, or the socket has been closed
        return waiting
    return waiting + int.from_bytes(queued, sys.byteorder)


def check_head(headers: list[tuple[bytes, bytes]], version: str) -> None:
    """Check what the parser lets pass and uvicorn would not heed.

    Raises:
        RequestError: `invalid_request`, it cannot be answered rightly.
    """
    if version not in ("1.1", "1.0"):
        raise RequestError("invalid_request", f"use HTTP/1.1 instead of HTTP/{version}")
    if len(headers) > MAX_HEADERS:
        raise RequestError(
            "invalid_request", f"the request has more header fields than the limit of {MAX_HEADERS}"
        )
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    if not codings:
        return
    if version == "1.0":  # whose proxies pass it on without knowing it (RFC 9112, 6.1)
        raise RequestError("invalid_request", "HTTP/1.0 has no transfer-encoding")
    coding = b", ".join(codings).decode("latin-1")
    if coding.strip().lower() != "chunked":
        raise RequestError(
            "invalid_request",
            f"the transfer-encoding {coding[:100]!r} is not supported; use 'chunked'",
        )


def too_large(what: str, limit: int) -> RequestError:
    return RequestError("invalid_request", f"{what} larger than the limit of {limit} bytes")


def too_slow(what: str, seconds: float) -> RequestError:
    return RequestError("invalid_request", f"the {what} did not come within {seconds:g} s")


def answer(error: RelayError) -> bytes:
    """Write the whole answer to what never becomes a request to the app."""
    status, body, media_type = client_format_of("/").render_failure(error, "")
    head = (
        f"content-type: {media_type}\r\ncontent-length: {len(body)}\r\ncache-control: no-store\r\n"
        "connection: close\r\n"
    )
    if error.retry_after_s is not None:
        head += f"retry-after: {error.retry_after_s:.0f}\r\n"
    safe = b"".join([b"%b: %b\r\n" % header for header in NO_PAGE])
    return b"%b%b%b\r\n%b" % (STATUS_LINE[status], head.encode(), safe, body)
