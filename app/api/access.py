"""One line of the log for each request, for those who ask for it. Pure ASGI.

Frames of a stream that our own server is given past ASGI are counted there. A line has the path
without its query, since clients put credentials there, and who asked by the name of the key,
the tenant and the user.
"""

import time

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..telemetry.access_logs import hide_tokens
from .authentication import PRINCIPAL
from .connection import connection_of
from .problems import CODE

MAX_PATH = 1000
"""Characters that are logged of a path."""

STREAM = b"stream-id"

log = structlog.get_logger("seseragi.access")


class AccessLog:
    """Logs each request when it is over; `complete` says whether the whole answer was sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        began = time.monotonic()
        try:
            await self._app(scope, receive, answer.send)
        finally:
            connection, principal = connection_of(scope), scope.get(PRINCIPAL)
            log.info(
                "request",
                method=scope["method"],
                path=hide_tokens(scope["path"][:MAX_PATH]),
                status=answer.status,
                code=scope.get(CODE),
                bytes=answer.bytes + (connection.sent if connection is not None else 0),
                duration_s=round(time.monotonic() - began, 4),
                complete=answer.complete,
                request_id=scope.get("request_id"),
                key=(principal and principal.key) or None,
                tenant=(principal and principal.tenant) or None,
                user=(principal and principal.user) or None,
                stream=answer.stream or scope.get("path_params", {}).get("stream"),
            )


class _Answer:
    """What is noted of an answer while it is sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None
        self.bytes = 0
        self.complete = False
        self.stream: str | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.stream = next(
                (value.decode() for name, value in message["headers"] if name == STREAM), None
            )
        await self._send(message)
        if message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
            self.complete = not message.get("more_body", False)
