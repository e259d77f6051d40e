"""The outer layer of every request: its id, its guard, and the common headers of its answer.

Pure ASGI: nothing here reads a body, except to discard it under other servers.
"""

import asyncio
import contextlib
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .client_connection import connection_of
from .guard import Guard
from .problems import refuse

PAGES_OWN = b"content-security-policy"
SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    # CORS overrides this for requests that use it, as by fetch, EventSource and import.
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
NO_PAGE = (*SECURITY, (PAGES_OWN, b"default-src 'none'; frame-ancestors 'none'"))
"""Security headers for non-HTML responses."""

NAME = b"x-request-id"
ANTHROPICS = b"request-id"
"""The request id for Anthropic's SDKs."""
STREAM = b"stream-id"
REQUEST_ID = re.compile(rb"[!-~]{1,128}")

MAX_UNREAD = 2**20
"""The most bytes of an unread body that are discarded before the answer."""
UNREAD_S = 1.0
"""The most time for that."""


OnAnswer = Callable[[Scope, int], None]
"""Called with the status when each answer begins."""


class Answer:
    """The answer to one request: adds the common headers, and records facts for logs and traces."""

    def __init__(
        self, scope: Scope, send: Send, request_id: bytes, on_answer: OnAnswer | None
    ) -> None:
        self._scope = scope
        self._send = send
        self._request_id = request_id
        self._on_answer = on_answer
        self.status: int | None = None
        self.stream: str | None = None
        self.bytes = 0
        """Bytes of the body sent through ASGI."""
        self.complete = False
        """Whether all of it was sent."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begin(message)
        await self._send(message)
        if message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
            self.complete = not message.get("more_body", False)

    def _begin(self, message: Message) -> None:
        self.status = message["status"]
        if self._on_answer is not None:
            self._on_answer(self._scope, message["status"])
        headers = message["headers"]
        known = dict(headers)
        self.stream = known[STREAM].decode() if STREAM in known else None
        message["headers"] = [
            *headers,
            (NAME, self._request_id),
            (ANTHROPICS, self._request_id),
            *(SECURITY if PAGES_OWN in known else NO_PAGE),
        ]


class UnreadBody:
    """Discards the rest of a request's body before the answer begins, under other servers.

    Hypercorn (0.18) and granian (2.8) close the connection, with the answer, if a body continues
    after its answer has ended; over HTTP/2, with every stream on it and at a mere empty frame
    (pgjones/hypercorn, issue 329).
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._whole = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._whole = self._whole or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if not self._whole and message["type"] == "http.response.start":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._read_rest(), UNREAD_S)
        await self._send(message)

    async def _read_rest(self) -> None:
        left = MAX_UNREAD
        while not self._whole and left > 0:
            left -= len((await self.receive()).get("body", b"")) + 1


Watch = Callable[[Scope, Answer], AbstractContextManager[None]]
"""Surrounds a request and its answer, to log or to trace them."""


class RequestMiddleware:
    """Middleware that sets the request id, applies the guard, and adds the common headers.

    The id is the client's own if it sent a valid one. Every log line of the request, and of the
    stream that it starts, has it.
    """

    def __init__(
        self,
        app: ASGIApp,
        guard: Guard,
        *,
        on_answer: OnAnswer | None = None,
        watches: Sequence[Watch] = (),
    ) -> None:
        """Wrap an app; the first of the watches is the outermost."""
        self._app = app
        self._guard = guard
        self._on_answer = on_answer
        self._watches = watches

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _choose_id(scope["headers"])
        scope["request_id"] = request_id.decode()
        # Each request has its own task, and tasks that it starts inherit this.
        structlog.contextvars.bind_contextvars(request_id=scope["request_id"])
        if connection_of(scope) is None:
            unread = UnreadBody(receive, send)
            receive, send = unread.receive, unread.send
        answer = Answer(scope, send, request_id, self._on_answer)
        with contextlib.ExitStack() as stack:
            for watch in self._watches:
                stack.enter_context(watch(scope, answer))
            error = self._guard.check(scope)
            if error is None:
                await self._app(scope, receive, answer.send)
            else:
                await refuse(error, scope, receive, answer.send)


def _choose_id(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the client's request id, or a new one."""
    for name, value in headers:
        if name == NAME:
            if REQUEST_ID.fullmatch(value):
                return value
            break
    return b"req_" + secrets.token_hex(12).encode()
