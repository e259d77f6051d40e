"""A body of server-sent events under any ASGI server, by sse-starlette."""

from collections.abc import AsyncIterator, Sequence

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent

from .http_settings import HttpSettings

GRACE_S = 2
"""How long readers get to take what is left after the drain."""


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

    `stopping` is set when the server stops, where that can be known; what has not come to its
    end after the time for that is cut off.
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
    # Its own have `connection`, which HTTP/2 forbids.
    response.raw_headers = list(headers)
    return response
