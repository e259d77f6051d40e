"""One request as its handlers read it: path, query, headers, cursor and caller."""

from collections.abc import Mapping
from typing import Final, overload

from starlette.requests import Request
from starlette.types import Scope

from ..errors import RequestError
from ..identity.principal import ANYONE, Principal

PRINCIPAL: Final = "seseragi.principal"
"""The key in the scope of the principal; absent for public requests."""

REQUEST_HEADERS: Final = "seseragi.headers"
"""The key in the scope of the `Headers`."""

CREDENTIALS: Final = frozenset((b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"))
"""The headers of credentials: OpenAI's, Anthropic's, Azure's, Google's."""

HANDSHAKE: Final = b"sec-websocket-key"
"""The header of a WebSocket handshake (RFC 6455, 4.1)."""

_READ: Final = CREDENTIALS | {
    b"x-request-id",
    b"host",
    b"origin",
    b"via",
    b"cdn-loop",
    HANDSHAKE,
}

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


def last_event_id(request: Request) -> str | None:
    """Return `Last-Event-ID`, None if empty; servers keep its trailing white space."""
    return request.headers.get("last-event-id", "").strip(" \t") or None


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
