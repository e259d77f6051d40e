"""A body that streams under any ASGI server, by sse-starlette."""

from collections.abc import AsyncIterator, Sequence

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent

from .http_settings import HttpSettings

GRACE_S = 2
"""How long readers have for the rest of their output after the drain."""


class _Heartbeat(ServerSentEvent):
    def __init__(self, line: bytes) -> None:
        super().__init__()
        self._line = line

    def encode(self) -> bytes:
        return self._line


def respond(
    pieces: AsyncIterator[bytes],
    headers: Sequence[tuple[bytes, bytes]],
    *,
    heartbeat: bytes,
    http_settings: HttpSettings,
    stopping: anyio.Event,
) -> EventSourceResponse:
    """Return the response that sends the pieces, and heartbeats between them.

    sse-starlette sets `stopping` when it can tell that the server stops; a response that has not
    ended `drain_s` later is cut off.
    """
    ping = _Heartbeat(heartbeat)
    response = EventSourceResponse(
        pieces,
        sep="\n",
        ping=http_settings.heartbeat_s,
        ping_message_factory=lambda: ping,
        send_timeout=http_settings.send_timeout_s,
        shutdown_event=stopping,
        shutdown_grace_period=http_settings.drain_s + GRACE_S,
    )
    # sse-starlette adds `connection`, which HTTP/2 forbids.
    response.raw_headers = list(headers)
    return response
