"""A WebSocket connection: uvicorn's protocol, counted, bounded and drained as any other one."""

import logging
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from .flow import Flow

MAX_FRAGMENTS = 4096
"""The maximum frames of one message: even empty ones take memory."""

_log = logging.getLogger("seseragi.server.websocket")
_log.setLevel(logging.WARNING)  # below, there are URLs, credentials and prompts


class SocketProtocol(WebSocketsSansIOProtocol):
    """The protocol after the handshake; `on_lost` is called once the connection is lost."""

    def __init__(self, *args: Any, flow: Flow, on_lost: Callable[[], None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = self.conn.logger = _log
        self.conn.debug = False
        self._flow = flow
        self._on_lost = on_lost

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
