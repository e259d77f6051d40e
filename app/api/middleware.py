"""What every response has in common. Pure ASGI: nothing here touches a body."""

import re
import secrets

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NAME = b"x-request-id"
ANTHROPICS = b"request-id"
"""Where Anthropic's SDKs look for it."""
REQUEST_ID = re.compile(rb"[!-~]{1,128}")


class CommonHeaders:
    """Gives each request an id, the client's own if it sent a sane one, and says so.

    Every line that is logged of the request, and of the stream that it starts, has it too.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == NAME), b"")
        known = REQUEST_ID.fullmatch(given)
        request_id = given if known else b"req_" + secrets.token_hex(12).encode()
        scope["request_id"] = request_id.decode()
        # Each request has a task of its own, and what it starts takes this along.
        structlog.contextvars.bind_contextvars(request_id=scope["request_id"])

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    (NAME, request_id),
                    (ANTHROPICS, request_id),
                    (b"x-content-type-options", b"nosniff"),
                    # Where CORS is asked, as by fetch, EventSource and import, CORS decides.
                    (b"cross-origin-resource-policy", b"same-origin"),
                ]
            await send(message)

        await self._app(scope, receive, send_with_headers)
