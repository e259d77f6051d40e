"""A WebSocket connection: uvicorn's protocol, counted and drained as any other connection."""

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class SocketProtocol(WebSocketsSansIOProtocol):
    """The protocol after the handshake; `on_lost` is called once the connection is lost."""

    def __init__(self, *args: Any, on_lost: Callable[[], None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._on_lost = on_lost

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost()
        super().connection_lost(exc)

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.close_sent:  # also by an answer that refuses the handshake, which uvicorn logs
            self.handshake_complete = True

    def take_last(self, *, within_s: float) -> None:
        """Do nothing: the relay refuses new responses, and closes the connection at its end."""
