"""What waits in one connection: what came and is not parsed yet, what its client has not taken."""

import asyncio
import sys

import structlog
from uvicorn.protocols.http.flow_control import FlowControl

log = structlog.get_logger("seseragi.server")


class Flow(FlowControl):
    """Does not read on while something that came has not been parsed; drops slow readers.

    A client that takes less of what waits for it than `min_reader_rate` bytes a second, over
    `send_timeout_s`, is cut off: one timer while something waits, where a cancel scope
    around each send would cost 9 us a token.
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
        self.unparsed = b""
        """What came and is not parsed yet."""
        self.was_paused = False
        self._loop = loop
        self._send_timeout_s = send_timeout_s
        self._min_reader_rate = min_reader_rate
        self._timer: asyncio.TimerHandle | None = None
        self._waiting = 0
        self._waiting_since = 0.0
        self._waited_s = 0.0
        self._taken = 0

    # What comes

    def pause_reading(self) -> None:
        self.was_paused = True
        super().pause_reading()

    def resume_reading(self) -> None:
        if not self.unparsed:
            super().resume_reading()

    # What the client takes

    def pause_writing(self) -> None:
        super().pause_writing()
        self.watch_reader()

    def resume_writing(self) -> None:
        if self._timer is not None:
            self._count_taken(self._timer)
        super().resume_writing()

    def watch_reader(self) -> None:
        """See after the time how much of what waits has been taken."""
        if self._timer is None:
            self._waiting = count_unsent(self._transport)
            self._waiting_since = self._loop.time()
            self._timer = self._loop.call_later(self._send_timeout_s, self._check_reader)

    def forget_reader(self) -> None:
        """Stop watching a client that has gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_reader(self) -> None:
        self._timer = None
        self._drop_if_slow(self._waiting - count_unsent(self._transport), self._send_timeout_s)
        self.watch_reader()

    def _count_taken(self, timer: asyncio.TimerHandle) -> None:
        """Add up what was taken in waits that were too short to be judged alone."""
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
