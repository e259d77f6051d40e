"""The ASGI layer of all routes: everything that their requests have in common.

It sets the request id, applies the guard, CORS and authentication, calls the endpoint, answers what
that raises, and adds the common headers. Nothing here reads a body, except to discard it under
other servers.
"""

import asyncio
import contextlib
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from inspect import isfunction
from typing import Final

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import RelayError, RequestError
from ..identity.keys import PREFIX as KEY_PREFIX
from ..identity.principal import Principal
from ..upstreams.transport import owner
from . import problems
from .authentication import Authentication, challenge
from .guard import Guard
from .request import (
    CONNECTION,
    HANDSHAKE,
    PRINCIPAL,
    REQUEST_HEADERS,
    RESPONSES,
    ClientConnection,
    connection_of,
    path_of,
    read_headers,
    root_of,
)

CONTENT_SECURITY_POLICY = b"content-security-policy"
SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    # CORS overrides this for requests that use it, as by fetch, EventSource and import.
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
NON_HTML_SECURITY = (
    *SECURITY,
    (CONTENT_SECURITY_POLICY, b"default-src 'none'; frame-ancestors 'none'"),
)
"""Security headers for non-HTML responses."""

REQUEST_ID = b"x-request-id"
ANTHROPIC_REQUEST_ID = b"request-id"
"""The request id for Anthropic's SDKs."""
STREAM_ID = b"stream-id"
CONTENT_LENGTH = b"content-length"
VARY = b"vary"

_VALID_ID = re.compile(rb"[!-~]{1,128}")

MAX_UNREAD = 2**20
"""The most bytes of an unread body that are discarded before the answer."""
UNREAD_S = 1.0
"""The most time for that."""


KEY_PROTOCOL: Final = "openai-insecure-api-key."
"""The begin of the subprotocol with a credential, which OpenAI's SDK sends from pages."""

DENIAL: Final = "websocket.http.response"
"""The ASGI extension for an HTTP answer to a WebSocket handshake."""

REFUSED: Final = "seseragi.refused"
"""The key in the scope of the error for a WebSocket handshake."""

RESPONSE: Final = "seseragi.response"
"""The key in the scope of the `SentResponse`."""

OnResponse = Callable[[Scope, int], None]
"""Called with the status when each answer begins."""

OnRefused = Callable[[Request, Principal, RelayError], None]
"""Called for each authenticated request that fails without a stream."""

Endpoint = Callable[[Request], Awaitable[Response]]


class SentResponse:
    """The answer to one request: adds the common headers, and records facts for logs and traces."""

    def __init__(
        self,
        scope: Scope,
        send: Send,
        request_id: bytes,
        *,
        connection: ClientConnection | None,
        varies: bool,
        on_answer: OnResponse | None,
    ) -> None:
        self._scope = scope
        self._send = send
        self._connection = connection
        self._request_id = request_id
        self.varies = varies
        """Whether `Vary: Origin` is added here, since CORS does not see the request."""
        self._on_answer = on_answer
        self.status: int | None = None
        self.stream: str | None = None
        self.bytes = 0
        """Bytes of the body sent through ASGI."""
        self.complete = False
        """Whether all of it was sent."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and self._begin(message):
            return
        await self._send(message)
        if message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
            self.complete = not message.get("more_body", False)

    def _begin(self, message: Message) -> bool:
        """Add the common headers; return whether the head is sent."""
        self.status = status = message["status"]
        if self._on_answer is not None:
            self._on_answer(self._scope, status)
        headers = message["headers"]
        known = dict(headers)
        self.stream = known[STREAM_ID].decode() if STREAM_ID in known else None
        message["headers"] = headers = [
            *(_vary(headers, known) if self.varies else headers),
            (REQUEST_ID, self._request_id),
            (ANTHROPIC_REQUEST_ID, self._request_id),
            *(SECURITY if CONTENT_SECURITY_POLICY in known else NON_HTML_SECURITY),
        ]
        if self._connection is None or CONTENT_LENGTH in known:
            return False
        return self._connection.begin(status, headers, self._send)


Header = tuple[bytes, bytes]


def _vary(headers: Iterable[Header], known: Mapping[bytes, bytes]) -> list[Header]:
    """Return headers with `Vary: Origin`, as CORS adds it."""
    if VARY not in known:
        return [*headers, (VARY, b"Origin")]
    return [*(one for one in headers if one[0] != VARY), (VARY, known[VARY] + b", Origin")]


class UnreadBody:
    """Discards the rest of a request's body before the answer begins, under other servers.

    Hypercorn (0.18) and granian (2.8) close the connection, with the answer, if a body continues
    after its answer has ended; over HTTP/2, with every stream on it and at a mere empty frame
    (pgjones/hypercorn, issue 329). A GET is taken to have no body: its answer may stream, and
    granian takes a second `receive` beside that of sse-starlette for the client's leaving.
    """

    def __init__(self, receive: Receive, send: Send, *, method: str) -> None:
        self._receive = receive
        self._send = send
        self._whole = method in ("GET", "HEAD")

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


Watch = Callable[[Scope, SentResponse], AbstractContextManager[None]]
"""Surrounds a request and its answer, to log or to trace them."""


class RequestMiddleware:
    """The ASGI app of all routes.

    The id of a request is the client's own if it sent a valid one, else a new one. Every log line
    of the request, and of the stream that it starts, has it. CORS is outside authentication, so
    that pages can read its errors.
    """

    def __init__(
        self,
        routes: Sequence[BaseRoute],
        *,
        guard: Guard,
        authentication: Authentication,
        add_cors: Callable[[ASGIApp], ASGIApp],
        on_refused: OnRefused,
        on_answer: OnResponse | None = None,
        watches: Sequence[Watch] = (),
        serve_socket: Callable[[ASGIApp, Scope, Receive, Send], Awaitable[None]] | None = None,
    ) -> None:
        """Serve routes; the first of the watches is the outermost.

        `serve_socket` serves WebSocket connections at `RESPONSES`; it gets this app for requests.
        It refuses a handshake by a `RelayError`, before it receives anything.
        """
        self.routes = routes
        self._endpoints = list_endpoints(routes)
        self._router = Router(routes, redirect_slashes=False, default=_raise_not_found)
        self._guard = guard
        self._authentication = authentication
        self._with_cors = add_cors(self._respond)
        self._on_refused = on_refused
        self._on_answer = on_answer
        self._watches = watches
        self._serve_socket = serve_socket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] != "websocket":
                return
            if self._serve_socket is not None and path_of(scope) == RESPONSES:
                try:
                    await self._admit_socket(scope)
                    await self._serve_socket(self, scope, receive, send)
                    return
                except RelayError as refused:
                    scope[REFUSED] = refused
            if DENIAL not in (scope.get("extensions") or {}):
                await send({"type": "websocket.close", "code": 1008})
                return
            scope, receive, send = _as_http(scope, send)
        scope["root_path"] = root_of(scope)  # Starlette's router takes it as it is
        headers = read_headers(scope)
        request_id = headers.get(REQUEST_ID, (b"",))[0]
        if _VALID_ID.fullmatch(request_id) is None:
            request_id = b"req_" + secrets.token_hex(12).encode()
        scope["request_id"] = request_id.decode()
        # Each request has its own task, and tasks that it starts inherit this.
        structlog.contextvars.bind_contextvars(request_id=scope["request_id"])
        connection = connection_of(scope)
        if connection is None:
            unread = UnreadBody(receive, send, method=scope["method"])
            receive, send = unread.receive, unread.send
        has_origin = b"origin" in headers
        scope[RESPONSE] = sent = SentResponse(
            scope,
            send,
            request_id,
            connection=connection,
            varies=not has_origin,
            on_answer=self._on_answer,
        )
        try:
            if not self._watches:  # an ExitStack takes 1 KiB while a stream runs
                await self._answer(scope, receive, sent)
                return
            with contextlib.ExitStack() as stack:
                for watch in self._watches:
                    stack.enter_context(watch(scope, sent))
                await self._answer(scope, receive, sent)
        finally:  # both refer to the server's request, and that to the scope
            del scope[RESPONSE]
            if connection is not None:
                del scope["extensions"][CONNECTION]

    async def _admit_socket(self, scope: Scope) -> None:
        """Check a handshake as the requests of its connection, also its `Origin`.

        Raises:
            RelayError: it is refused.
        """
        _read_subprotocols(scope)
        post = {**scope, "type": "http", "method": "POST", "root_path": root_of(scope)}
        scope[REQUEST_HEADERS] = read_headers(post)
        if (error := self._guard.check(post)) is not None:
            raise error
        scope[PRINCIPAL] = await self._authentication.identify(post)

    def _answer(self, scope: Scope, receive: Receive, sent: SentResponse) -> Awaitable[None]:
        """Answer a request that the guard lets pass, with CORS if it has an `Origin`."""
        if (error := self._guard.check(scope) or self._check_upgrade(scope)) is not None:
            refusal = problems.on_relay_error(Request(scope), error)
            return refusal(scope, receive, sent.send)
        if sent.varies:
            return self._respond(scope, receive, sent.send)
        return self._with_cors(scope, receive, sent.send)

    def _check_upgrade(self, scope: Scope) -> RelayError | None:
        """Return the error for a WebSocket handshake, by a header that proxies pass on.

        Clients that try WebSocket first then use HTTP at once, instead of trying again. None if
        nothing is at the path, not even for HTTP.
        """
        if HANDSHAKE not in scope[REQUEST_HEADERS] or scope["method"] != "GET":
            return None
        refused: RelayError | None = scope.get(REFUSED)
        if refused is None and all(one.matches(scope)[0] is Match.NONE for one in self.routes):
            return None
        return refused or RequestError(
            "upgrade_required",
            "WebSocket is not supported here; send the request by HTTP, as a POST",
        )

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate the request and call its endpoint; answer the errors of both."""
        scope["app"] = self
        request = Request(scope, receive, send)
        try:
            principal = await self._authentication.identify(scope)
            if principal is not None:
                scope[PRINCIPAL] = principal
                owner.set(principal.owner)  # for this task and those it starts
            endpoint = self._endpoints.get((scope["method"], path_of(scope)))
            if endpoint is None:
                await self._router(scope, receive, send)
                return
            scope["endpoint"] = endpoint
            response = await endpoint(request)
            await response(scope, receive, send)
        except Exception as error:
            if scope[RESPONSE].status is not None:  # an answer has begun
                raise
            response = self._answer_error(request, error)
            await response(scope, receive, send)
            if not isinstance(error, RelayError | HTTPException | ClientDisconnect):
                raise  # so that the server logs it

    def _answer_error(self, request: Request, error: Exception) -> Response:
        match error:
            case RelayError():
                principal: Principal | None = request.scope.get(PRINCIPAL)
                headers = None
                if principal is None:
                    headers = challenge(error, request.scope)
                else:
                    self._on_refused(request, principal, error)
                return problems.on_relay_error(request, error, headers=headers)
            case HTTPException():
                return problems.on_http_error(request, error)
            case ClientDisconnect():
                return Response(status_code=499)  # nginx's, which only logs show
            case _:
                return problems.on_bug(request)


def list_endpoints(routes: Sequence[BaseRoute]) -> dict[tuple[str, str], Endpoint]:
    """Return the endpoints of routes without parameters and middleware, by method and path.

    Looking them up here saves the router's search and its two calls around each endpoint: 60 us.
    """
    found: dict[tuple[str, str], Endpoint] = {}
    for route in routes:
        if not isinstance(route, Route) or route.param_convertors or not isfunction(route.app):
            continue
        for method in route.methods or ():
            scope = {"type": "http", "method": method, "path": route.path}
            if next(one for one in routes if one.matches(scope)[0] is Match.FULL) is route:
                found[method, route.path] = route.endpoint
    return found


def _read_subprotocols(scope: Scope) -> None:
    """Move the credential of a page from the subprotocols to the headers; leave none with values.

    Raises:
        RequestError: `unauthenticated`, it is a key.
    """
    headers = [one for one in scope["headers"] if one[0] != b"sec-websocket-protocol"]
    names = scope.get("subprotocols") or ()
    for credential in {one[len(KEY_PROTOCOL) :] for one in names if one.startswith(KEY_PROTOCOL)}:
        if credential.startswith(KEY_PREFIX):
            raise RequestError(
                "unauthenticated",
                "subprotocol: proxies log it, and a key is valid for long; send a client secret "
                "(POST /v1/client_secrets)",
            )
        headers.append((b"authorization", b"Bearer " + credential.encode("latin-1", "replace")))
    scope["headers"] = headers
    scope["subprotocols"] = [one for one in names if not one.startswith("openai-")]


def _as_http(scope: Scope, send: Send) -> tuple[Scope, Receive, Send]:
    """Return a WebSocket handshake as the HTTP request that it is."""

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send_denial(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return {**scope, "type": "http", "method": "GET"}, receive, send_denial


async def _raise_not_found(scope: Scope, receive: Receive, send: Send) -> None:
    raise HTTPException(404)
