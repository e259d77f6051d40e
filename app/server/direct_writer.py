"""Direct writes to the client connection, bypassing ASGI `send`, which costs a task switch.

Also the back-pressure of the connection, and the `Event` that uvicorn sets for tasks that wait
for it.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import structlog
from starlette.types import Send
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from ..api.request import watch_connection

log = structlog.get_logger("seseragi.server")

_FRAMING: Final = frozenset((b"", b"connection", b"content-length", b"transfer-encoding"))
"""Names of fields that concern the body or the connection, and no name."""
_IN_NAMES: Final = b"abcdefghijklmnopqrstuvwxyz0123456789-"
_CONTROLS: Final = bytes((*range(9), *range(10, 32), 127))
"""Not in a field, whose line ends with two of them."""


class Event:
    """As `asyncio.Event`, in a tenth of its 820 bytes: a connection has two for its whole life."""

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[asyncio.Future[None]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def clear(self) -> None:
        self._is_set = False

    async def wait(self) -> None:
        """Wait until it is set, also if it is cleared at once."""
        if self._is_set:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)


class DirectWriter:
    """The `ClientConnection` of one request."""

    __slots__ = ("_head", "_transport", "_write", "cycle", "joins_head", "on_lost", "sent")

    def __init__(self, transport: asyncio.Transport, cycle: RequestResponseCycle) -> None:
        self._transport = transport
        self._write: Callable[[bytes], object] = cycle.transport.write
        self._head = b""
        self.cycle = cycle
        self.joins_head = False
        self.on_lost: Callable[[], object] | None = None
        self.sent = 0

    def begin(self, status: int, headers: Sequence[tuple[bytes, bytes]], send: Send) -> bool:
        cycle = self.cycle
        if cycle.response_started or cycle.disconnected or cycle.flow.write_paused:
            return False
        if send != cycle.send or status in (204, 304) or cycle.scope["method"] == "HEAD":
            return False
        fields = [*cycle.default_headers, *headers]
        names = dict(fields)
        if not _FRAMING.isdisjoint(names) or b"".join(names).translate(None, _IN_NAMES):
            return False
        head = b"".join([b"%b: %b\r\n" % field for field in fields])
        if len(head) - len(head.translate(None, _CONTROLS)) != 2 * len(fields):
            return False
        cycle.response_started = cycle.chunked_encoding = True
        cycle.waiting_for_100_continue = False
        close = b"" if cycle.keep_alive else b"connection: close\r\n"
        end = b"transfer-encoding: chunked\r\n\r\n"
        head = b"%b%b%b%b" % (STATUS_LINE[status], head, close, end)
        if self.joins_head:
            self._head = head
            self._write = cast(Any, cycle.transport).write = self._write_first
        else:
            self._write(head)
        return True

    def _write_first(self, data: bytes) -> None:
        """Write the head with the first bytes of the body: each write is a system call.

        It stands for the transport's `write` until then, also in uvicorn's cycle.
        """
        self._write = cast(Any, self.cycle.transport).write = self._transport.write
        self._write(self._head + data)
        self._head = b""

    def write(self, piece: bytes) -> bool:
        cycle = self.cycle
        if piece and not cycle.disconnected:
            self._write(b"%x\r\n%b\r\n" % (len(piece), piece))
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

    def is_taken(self) -> bool:
        cycle = self.cycle
        if cycle.disconnected or (cycle.keep_alive and self._transport.is_closing()):
            raise ConnectionError
        # One that closes after the answer, as for a proxy of HTTP/1.0, cannot be asked.
        return not (cycle.keep_alive and count_unsent(self._transport))

    def take_body(self) -> bytes | None:
        cycle = self.cycle
        if cycle.more_body:
            return None
        if cycle.flow.read_paused:  # the body was larger than uvicorn's buffer
            cycle.flow.resume_reading()
        cycle.message_event.clear()
        body = bytes(cycle.body)
        cycle.body = bytearray()
        return body

    watch = watch_connection

    def lose(self) -> None:
        # uvicorn notifies only the latest of pipelined requests; the one that is being
        # answered would keep writing to a closed connection.
        if not self.cycle.response_complete:
            self.cycle.disconnected = True
        self.cycle.message_event.set()
        if self.on_lost is not None:
            self.on_lost()


class UnchunkedWriter(DirectWriter):
    """A writer for HTTP/1.0, which has no chunks: the body ends with the connection."""

    __slots__ = ()

    def __init__(self, transport: asyncio.Transport, cycle: RequestResponseCycle) -> None:
        super().__init__(transport, cycle)
        send = cycle.send

        async def send_unchunked(message: ASGISendEvent) -> None:
            # A known length keeps uvicorn from chunking; it is set to each piece, so that
            # uvicorn finds the sum right.
            cycle.chunked_encoding = False
            if message["type"] == "http.response.body":
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        cast(Any, cycle).send = send_unchunked
        cycle.waiting_for_100_continue = False

    def begin(self, status: int, headers: Sequence[tuple[bytes, bytes]], send: Send) -> bool:
        return False

    def write(self, piece: bytes) -> bool:
        cycle = self.cycle
        if not cycle.disconnected:
            self._write(piece)
        return not cycle.flow.write_paused


class CountingWriter(DirectWriter):
    """A writer that counts bytes, for the access log only: it costs one more call a token."""

    __slots__ = ()

    def write(self, piece: bytes) -> bool:
        self.sent += len(piece)
        return super().write(piece)


class CountingUnchunkedWriter(UnchunkedWriter):
    """A counting writer for HTTP/1.0."""

    __slots__ = ()

    def write(self, piece: bytes) -> bool:
        self.sent += len(piece)
        return super().write(piece)


class Flow(FlowControl):
    """Flow control that stops reading while input is unparsed, and drops slow readers.

    A client that takes fewer than `min_reader_rate` bytes a second of pending output, over
    `send_timeout_s`, is cut off. One timer runs while output is pending: a cancel scope around
    each send would cost 9 us a token.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        *,
        send_timeout_s: float,
        min_reader_rate: float,
    ) -> None:
        super().__init__(transport)
        self._is_writable_event = Event()  # type: ignore[assignment]
        self._is_writable_event.set()
        self.unparsed = b""
        """Input that is not parsed yet."""
        self.was_paused = False
        self._loop = loop
        self._send_timeout_s = send_timeout_s
        self._min_reader_rate = min_reader_rate
        self._timer: asyncio.TimerHandle | None = None
        self._waiting = 0
        self._waiting_since = 0.0
        self._waited_s = 0.0
        self._taken = 0

    # Input

    def pause_reading(self) -> None:
        self.was_paused = True
        super().pause_reading()

    def resume_reading(self) -> None:
        if not self.unparsed:
            super().resume_reading()

    # Output

    def pause_writing(self) -> None:
        super().pause_writing()
        self.watch_reader()

    def resume_writing(self) -> None:
        if self._timer is not None:
            self._count_taken(self._timer)
        super().resume_writing()

    def watch_reader(self) -> None:
        """Check after `send_timeout_s` how much of the pending output the client has taken."""
        if self._timer is None:
            self._waiting = count_unsent(self._transport)
            self._waiting_since = self._loop.time()
            self._timer = self._loop.call_later(self._send_timeout_s, self._check_reader)

    def forget_reader(self) -> None:
        """Stop watching a client that has disconnected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_reader(self) -> None:
        self._timer = None
        self._drop_if_slow(self._waiting - count_unsent(self._transport), self._send_timeout_s)
        self.watch_reader()

    def _count_taken(self, timer: asyncio.TimerHandle) -> None:
        """Add up the bytes taken in waits shorter than `send_timeout_s`."""
        timer.cancel()
        self._timer = None
        self._taken += self._waiting - count_unsent(self._transport)
        self._waited_s += self._loop.time() - self._waiting_since
        if self._waited_s >= self._send_timeout_s:
            self._drop_if_slow(self._taken, self._waited_s)
            self._taken, self._waited_s = 0, 0.0
        if self._transport.is_closing():
            self.watch_reader()

    def _drop_if_slow(self, taken: int, seconds: float) -> None:
        if taken < max(1, self._min_reader_rate * seconds):
            log.info("slow reader dropped", after_s=round(seconds, 3), taken=taken)
            self._transport.abort()


def count_unsent(transport: asyncio.Transport) -> int:
    """Return the bytes that were sent and that the client has not taken."""
    waiting = transport.get_write_buffer_size()
    try:
        from fcntl import ioctl
        from termios import TIOCOUTQ

        # Linux takes more only when a third of its own buffer, of megabytes, is free.
        queued = ioctl(transport.get_extra_info("socket").fileno(), TIOCOUTQ, bytes(4))
    except (ImportError, OSError):  # another system, or a closed socket
        return waiting
    return waiting + int.from_bytes(queued, sys.byteorder)
