"""Back-pressure for one connection: unparsed input and unsent output."""

import asyncio
import sys

import structlog
from uvicorn.protocols.http.flow_control import FlowControl

from .direct_writer import Event

log = structlog.get_logger("seseragi.server")


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
