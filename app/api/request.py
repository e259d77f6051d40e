"""One request as its handlers see it: path, query, headers, cursor, caller, and its connection.

Our own server offers a `ClientConnection` with each request; under any other server, ASGI's
`receive` reports when the client disconnects.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import itemgetter
from typing import Final, Protocol, overload

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from ..errors import RequestError
from ..identity.principal import ANYONE, Principal
from ..upstreams.client_headers import REQUEST_NAMES

PRINCIPAL: Final = "seseragi.principal"
"""The key in the scope of the principal; absent for public requests."""

REQUEST_HEADERS: Final = "seseragi.headers"
"""The key in the scope of the `Headers`."""

CREDENTIALS: Final = frozenset((b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"))
"""The headers of credentials: OpenAI's, Anthropic's, Azure's, Google's."""

CONNECTION: Final = "seseragi.connection"
"""The ASGI extension by which our own server offers a `ClientConnection`."""

SOCKET: Final = "seseragi.socket"
"""The ASGI extension by which our own server offers a `ClientSocket`."""

AS_MESSAGES: Final = "seseragi.messages"
"""The key in the scope of a request whose answer is written by a `MessageWriter`."""

PAGE: Final = 20
MAX_PAGE: Final = 100
"""The default and the greatest `limit` of a list."""

JSON_LINES: Final = "application/x-ndjson"
"""The media type of NDJSON."""

_Q = re.compile(r"q\s*=\s*([01](?:\.\d{0,3})?)", re.ASCII)

RESPONSES: Final = "/v1/responses"
"""The path where a WebSocket connection can be served."""

HANDSHAKE: Final = b"sec-websocket-key"
"""The header of a WebSocket handshake (RFC 6455, 4.1)."""

_READ: Final = CREDENTIALS | {
    b"x-request-id",
    b"host",
    b"origin",
    b"via",
    b"cdn-loop",
    b"content-encoding",
    b"content-length",
    b"content-type",
    b"idempotency-key",
    b"last-event-id",
    b"prefer",
    b"seseragi-chat",
    b"seseragi-overlap",
    HANDSHAKE,
    *REQUEST_NAMES,
}

NO_VALUE: Final = (b"",)

Headers = Mapping[bytes, tuple[bytes, ...]]
"""The values of each header that the steps before an endpoint use."""


def read_headers(scope: Scope) -> Headers:
    """Read these headers, and store them in the scope for the later steps."""
    found: dict[bytes, tuple[bytes, ...]] = {}
    for name, value in scope["headers"]:
        if name in _READ:
            found[name] = (*found.get(name, ()), value)
    scope[REQUEST_HEADERS] = found
    return found


def root_of(scope: Scope) -> str:
    """Return the path under which clients see the relay, ASGI's `root_path`; "" for none."""
    return str(scope.get("root_path", "")).rstrip("/")


def path_of(scope: Scope) -> str:
    """Return the path of a request within the relay, wherever that is mounted."""
    path, root = str(scope["path"]), root_of(scope)
    if root and (path == root or path.startswith(f"{root}/")):
        return path[len(root) :] or "/"
    return path


@overload
def read_query(request: Request, name: str, default: str) -> str: ...
@overload
def read_query(request: Request, name: str) -> str | None: ...


def read_query(request: Request, name: str, default: str | None = None) -> str | None:
    """Return a parameter of the query, or the default.

    Raises:
        RequestError: `invalid_request`, the parameter is repeated: a proxy may have checked
            another value than the relay would use.
    """
    values = request.query_params.getlist(name)
    if len(values) > 1:
        times = f"the query has it {len(values)} times; send it once"
        raise RequestError("invalid_request", f"{name}: {times}")
    return values[0] if values else default


def read_limit(request: Request) -> int:
    """Return how many entries of a list a query asks for.

    Raises:
        RequestError: `invalid_request`, it is no number, or too great.
    """
    limit = read_query(request, "limit", str(PAGE))
    if not re.fullmatch(r"0*[1-9][0-9]{0,2}", limit, re.ASCII) or int(limit) > MAX_PAGE:
        raise RequestError(
            "invalid_request", f"limit: {limit[:20]!r} must be a number from 1 to {MAX_PAGE}"
        )
    return int(limit)


def last_event_id(request: Request) -> str | None:
    """Return `Last-Event-ID`, None if empty; servers keep its trailing white space."""
    value = request.scope[REQUEST_HEADERS].get(b"last-event-id", NO_VALUE)[0]
    return value.decode("latin-1").strip(" \t") or None


def principal_of(request: Request) -> Principal:
    """Return the principal that makes a request.

    Raises:
        KeyError: the request is public, or has not passed `Authentication`.
    """
    principal: Principal = request.scope[PRINCIPAL]
    return principal


def check_admin(request: Request, what: str) -> None:
    """Check that the principal is an operator.

    Raises:
        RequestError: `unauthenticated` or `forbidden`; `what` is the beginning of its message.
    """
    principal = principal_of(request)
    if "admin" in principal.roles:
        return
    if principal is ANYONE:
        raise RequestError(
            "unauthenticated",
            f"{what} an operator's key: the one that the start of the relay printed, or a [[key]] "
            "with the role 'admin'",
        )
    raise RequestError("forbidden", f"{what} a key with the role 'admin'")


def prefers_json_lines(request: Request) -> bool:
    """Return whether `Accept` names NDJSON and prefers it to server-sent events, the default.

    The greater q counts, of equal ones the first; wildcards do not.
    """
    accept = ",".join(request.headers.getlist("accept")).lower()
    if JSON_LINES not in accept:
        return False
    found: list[tuple[str, float]] = []
    for item in accept.split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        if name in (JSON_LINES, "text/event-stream"):
            given = [_Q.fullmatch(parameter) for parameter in parameters]
            found.append((name, min((float(q[1]) for q in given if q), default=1.0)))
    name, weight = max(found, key=itemgetter(1), default=("", 0.0))
    return name == JSON_LINES and weight > 0


class RequestClient(Protocol):
    """The client of one request."""

    def take_body(self) -> bytes | None:
        """Return the body if all of it has arrived, which ASGI's `receive` then lacks."""

    def watch(self, on_lost: Callable[[], object]) -> AbstractContextManager[None]:
        """Call `on_lost` when the client disconnects, at once if it has already.

        The body must have been read.
        """


class ClientConnection(RequestClient, Protocol):
    """A connection of our own server, for the head and the body of a response that streams."""

    on_lost: Callable[[], object] | None
    """Called when the client disconnects."""
    sent: int
    """Bytes passed to `write`, if they are counted."""
    joins_head: bool
    """Whether `begin` leaves the head to the first write, which has to follow at once."""

    @property
    def lost(self) -> bool:
        """Whether the client has disconnected."""

    def is_taken(self) -> bool:
        """Return whether the client's system has taken all that was sent.

        Raises:
            ConnectionError: the connection is lost, so that nobody knows.
        """

    def begin(self, status: int, headers: Sequence[tuple[bytes, bytes]], send: Send) -> bool:
        """Send the head of a response of unknown length; return False if ASGI has to send it.

        It has to if another app wraps this one and replaces the server's `send`.
        """

    def write(self, piece: bytes) -> bool:
        """Send a piece of the body now; return False if the next should wait for `drain`."""

    async def drain(self) -> None:
        """Wait until the client has taken most of what was sent."""

    def abort(self) -> None:
        """Close the connection without ending the response."""

    def break_off(self) -> None:
        """End the response without its last chunk, after everything written.

        The client sees that it is incomplete; with HTTP/1.0 it cannot.
        """


class ClientSocket(Protocol):
    """A WebSocket connection of our own server."""

    send: Send
    reserve: Callable[[int], object]
    """Called with the bytes of a message that is not complete yet, if they are many.

    Its `RelayError` closes the connection.
    """

    def push(self, text: bytes) -> bool:
        """Send a message now; return False, with nothing sent, if ASGI's `send` has to wait."""


def connection_of(scope: Scope) -> ClientConnection | None:
    """Return the connection that our own server offers; None under any other server."""
    connection: ClientConnection | None = (scope.get("extensions") or {}).get(CONNECTION)
    return connection


def client_of(request: Request) -> RequestClient:
    """Return the client of a request, under any server."""
    return connection_of(request.scope) or AsgiClient(request.receive)


@contextlib.contextmanager
def watch_connection(connection: ClientConnection, on_lost: Callable[[], object]) -> Iterator[None]:
    """See `RequestClient.watch`."""
    if connection.lost:
        on_lost()
    connection.on_lost = on_lost
    try:
        yield
    finally:
        connection.on_lost = None


class AsgiClient:
    """A `RequestClient` over ASGI's `receive`."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive

    def take_body(self) -> bytes | None:
        return None

    @contextlib.contextmanager
    def watch(self, on_lost: Callable[[], object]) -> Iterator[None]:
        listening = asyncio.ensure_future(self._listen(on_lost))
        try:
            yield
        finally:
            listening.cancel()

    async def _listen(self, on_lost: Callable[[], object]) -> None:
        with contextlib.suppress(Exception):  # some servers raise once the client has disconnected
            while (await self._receive())["type"] != "http.disconnect":
                pass
        on_lost()
