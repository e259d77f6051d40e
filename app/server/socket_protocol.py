"""A WebSocket connection: uvicorn's protocol, counted, bounded and drained as any other one."""

import logging
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from ..api.request import SOCKET
from ..errors import RelayError
from .flow import Flow

MAX_FRAGMENTS = 4096
"""The maximum frames of one message: even empty ones take memory."""

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
        """Bytes since the last complete message."""
        self.reserve: Callable[[int], object] = ignore
        """See `SocketMemory`."""

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        if self._received > COUNTED_BYTES and not self.close_sent:
            try:
                self.reserve(self._received)
            except RelayError as error:
                self.conn.fail(1013, error.message[:100])
                self.handle_parser_exception()

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            cast(dict[str, Any], self.scope)["extensions"][SOCKET] = self

    def send_receive_event_to_app(self) -> None:
        super().send_receive_event_to_app()
        self._received = 0

    def connection_lost(self, exc: Exception | None) -> None:
        self._flow.forget_reader()
        self._on_lost()
        super().connection_lost(exc)

    def handle_cont(self, event: Any) -> None:
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(1009, f"more than {MAX_FRAGMENTS} fragments")
            self.handle_parser_exception()

    def handle_parser_exception(self) -> None:
        if self.conn.close_sent is not None:
            super().handle_parser_exception()
        else:  # the handshake is not answered yet
            self.queue.put_nowait({"type": "websocket.disconnect", "code": 1006})
            self.close_sent = True
            self.transport.close()

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:  # a pong that the client would not read
            self.conn.data_to_send()

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

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.close_sent:  # also by an answer that refuses the handshake, which uvicorn logs
            self.handshake_complete = True

    def take_last(self, *, within_s: float) -> None:
        """Do nothing: the relay refuses new responses, and closes the connection at its end."""
