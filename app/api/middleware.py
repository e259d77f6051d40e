"""What every response has in common. Pure ASGI: nothing here touches a body."""

import asyncio
import contextlib
import re
import secrets
from collections.abc import Callable

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .connection import connection_of

PAGES_OWN = b"content-security-policy"
SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    # Where CORS is asked, as by fetch, EventSource and import, CORS decides.
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
NO_PAGE = (*SECURITY, (PAGES_OWN, b"default-src 'none'; frame-ancestors 'none'"))
"""Of what no browser is to show as a page."""

NAME = b"x-request-id"
ANTHROPICS = b"request-id"
"""Where Anthropic's SDKs look for it."""
REQUEST_ID = re.compile(rb"[!-~]{1,128}")

MAX_UNREAD = 2**20
"""How many bytes of a body are taken before an answer that has not asked for them."""
UNREAD_S = 1.0
"""How long that may take."""


class CommonHeaders:
    """Gives each request an id, the client's own if it sent a sane one, and says so.

    Every line that is logged of the request, and of the stream that it starts, has it too.
    """

    def __init__(
        self, app: ASGIApp, *, on_answer: Callable[[Scope, int], None] | None = None
    ) -> None:
        self._app = app
        self._on_answer = on_answer
        """Is told of the status of each answer when that begins."""

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
                if self._on_answer is not None:
                    self._on_answer(scope, message["status"])
                headers = message["headers"]
                is_page = any(name == PAGES_OWN for name, _ in headers)
                message["headers"] = [
                    *headers,
                    (NAME, request_id),
                    (ANTHROPICS, request_id),
                    *(SECURITY if is_page else NO_PAGE),
                ]
            await send(message)

        await self._app(scope, receive, send_with_headers)


class ReadBeforeAnswer:
    """Takes what is left of a request's body before the answer begins, under foreign servers.

    Hypercorn (0.18) and granian (2.8) close the connection, answer and all, when a body goes on
    after its answer has ended; over HTTP/2, with every stream on it and at a mere empty frame
    (pgjones/hypercorn, issue 329).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or connection_of(scope) is not None:
            await self._app(scope, receive, send)
            return
        whole = False

        async def receive_body() -> Message:
            nonlocal whole
            message = await receive()
            whole = whole or not message.get("more_body", False)
            return message

        async def read_rest() -> None:
            left = MAX_UNREAD
            while not whole and left > 0:
                left -= len((await receive_body()).get("body", b"")) + 1

        async def send_after_body(message: Message) -> None:
            if not whole and message["type"] == "http.response.start":
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(read_rest(), UNREAD_S)
            await send(message)

        await self._app(scope, receive_body, send_after_body)
