"""A WebSocket connection: uvicorn's protocol, counted, bounded and drained as any other one."""

import logging
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

from ..api.request import SOCKET
from ..errors import RelayError
from .direct_writer import Flow

PIECE_BYTES = 8 * 1024
"""Bytes parsed at once; it bounds the frames that are parsed before they are counted."""

MESSAGE_S = 60
"""How long a message may take."""

MAX_FRAMES = 4096
FRAMES_S = 60
"""The frames that a client may send within so many seconds: even an empty one takes 5 us, and as
part of a message 50 bytes."""

COUNTED_BYTES = 64 * 1024
"""The bytes of an incomplete message above which they are reserved."""

_log = logging.getLogger("seseragi.server.websocket")
_log.setLevel(logging.WARNING)  # below, there are URLs, credentials and prompts


def ignore(size: int) -> None:
    """Reserve nothing."""


class SocketProtocol(WebSocketsSansIOProtocol):
    """The protocol after the handshake; `on_lost` is called once the connection is lost."""

    def __init__(self, *args: Any, flow: Flow, on_lost: Callable[[], None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = self.conn.logger = _log
        self.conn.debug = False
        self._flow = flow
        self._on_lost = on_lost
        self._received = 0
        """Bytes since the last frame that completed a message, or was outside of one."""
        self.reserve: Callable[[int], object] = ignore
        """See `ClientSocket`."""
        self._begun_at = 0.0
        """When the first of them came."""
        self._frames, self._frames_until = 0, 0.0

    def data_received(self, data: bytes) -> None:
        now = self.loop.time()
        if not self._received:
            self._begun_at = now
        for start in range(0, len(data), PIECE_BYTES):
            if not self.transport.is_closing():
                piece = data[start : start + PIECE_BYTES]
                self._received += len(piece)
                super().data_received(piece)
        # A client that stops within a frame cannot answer pings either.
        if self._received and now > self._begun_at + MESSAGE_S:
            self._fail(1008, f"the message did not come within {MESSAGE_S} s")
        elif self._received > COUNTED_BYTES and not self.close_sent:
            try:
                self.reserve(self._received)
            except RelayError as error:
                self._fail(1013, error.message[:100])

    def _fail(self, code: int, reason: str) -> None:
        if not self.close_sent:
            self.conn.fail(code, reason)
            self.handle_parser_exception()

    def handle_events(self) -> None:
        frames, now = len(self.conn.events), self.loop.time()
        super().handle_events()
        if frames and not self.frames:
            self._received, self._begun_at = 0, now
        if now > self._frames_until:
            self._frames, self._frames_until = 0, now + FRAMES_S
        self._frames += frames
        if self._frames > MAX_FRAMES:
            self._fail(1008, f"more than {MAX_FRAMES} frames within {FRAMES_S} s")

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            cast(dict[str, Any], self.scope)["extensions"][SOCKET] = self
            # Until the app has checked the handshake, which may wait for an identity provider.
            self.read_paused = True
            self.transport.pause_reading()

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text":
            data = b"".join(self.frames)
            try:
                data.decode()
            except UnicodeDecodeError:  # uvicorn logs a traceback
                self._fail(1007, "the message is not UTF-8")
            # The app takes bytes; with one wide character, a text has four bytes per character.
            self.frames, self.curr_msg_data_type = [data], "bytes"
        super().send_receive_event_to_app()

    def connection_lost(self, exc: Exception | None) -> None:
        self._flow.forget_reader()
        self._on_lost()
        super().connection_lost(exc)

    def handle_parser_exception(self) -> None:
        if self.conn.close_sent is not None:
            super().handle_parser_exception()
        else:  # the handshake is not answered yet
            self.queue.put_nowait({"type": "websocket.disconnect", "code": 1006})
            self.close_sent = True
            self.transport.close()

    def handle_ping(self) -> None:
        if self.close_sent or not self.writable.is_set():  # a pong that the client would not read
            self.conn.data_to_send()
        else:
            super().handle_ping()

    # A client that takes nothing is cut off

    def pause_writing(self) -> None:
        super().pause_writing()
        self._flow.pause_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._flow.resume_writing()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._flow.watch_reader()

    async def run_asgi(self) -> None:
        await super().run_asgi()
        if not self.disconnected:
            self._flow.watch_reader()

    def push(self, text: bytes) -> bool:
        """See `ClientSocket`."""
        if self.conn.state is State.OPEN:  # else the client leaves, or nothing may follow
            if not self.writable.is_set():
                return False
            self.conn.send_text(text)
            self.transport.write(b"".join(self.conn.data_to_send()))
        return True

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.close_sent:  # also by an answer that refuses the handshake, which uvicorn logs
            self.handshake_complete = True
