"""Checks of `Host` and `Origin` against pages of other sites, and of the path. No I/O.

By DNS rebinding, a page of any site reaches a relay on this machine as its own origin: its name
resolves to this machine after the page was loaded. The page cannot change the name in `Host`, so
requests for unknown names are refused. Addresses are safe: a page has the origin of an address
only if that address has sent the page.

Unsafe methods are refused for pages of
other origins: browsers send `Origin` also without a CORS preflight, as with forms, `sendBeacon`
and simple `fetch`.
"""

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from starlette.types import Scope

from ..addresses import is_loopback, parse_address
from ..errors import RequestError
from .authentication import ADMIN_PAGE, PROBES
from .request import REQUEST_HEADERS, path_of

MAX_HOST = 262
"""The longest name in DNS, its dot, a colon and a port."""

ANY = "*"

_HOST = re.compile(
    rb"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?)(?::(\d{0,5}))?", re.IGNORECASE
)
"""RFC 3986, `host [":" port]`, with the names that DNS and containers have.

No user, no escapes, no zone, no name that is not in ASCII: no browser sends these."""


class Host(NamedTuple):
    name: str
    """In lower case, without a dot at its end; of an IPv6 address with its brackets."""
    port: int | None


def parse_host(value: bytes) -> Host | None:
    """Parse a `Host` header; None if it is malformed."""
    match = _HOST.fullmatch(value) if len(value) <= MAX_HOST else None
    if match is None:
        return None
    name = match[1].decode().lower().removesuffix(".")
    if name.startswith("[") and parse_address(name) is None:
        return None
    return Host(name, int(match[2]) if match[2] else None)


class HostNames:
    """The loopback names, the bound address, and the allowed names."""

    def __init__(self, bound: str, allowed: Iterable[str] = ()) -> None:
        names = {bound.lower(), *map(_normalise, allowed)}
        addresses = [address for name in names if (address := parse_address(name)) is not None]
        self._any_name = ANY in names
        self._names = frozenset(names)
        self._endings = tuple(name.removeprefix(ANY) for name in names if name.startswith("*."))
        self._addresses = frozenset(addresses)
        # A wildcard is bound to every address, a name to an unknown one.
        own = parse_address(bound)
        self._any_address = own.is_unspecified if own else not is_loopback(bound.lower())

    def allow(self, name: str) -> bool:
        """Return whether the relay answers to a name, normalised by `parse_host`."""
        if self._any_name or name in self._names or is_loopback(name):
            return True
        address = parse_address(name)
        if address is not None:
            return self._any_address or address in self._addresses
        return name.endswith(self._endings)


def _normalise(name: str) -> str:
    """Normalise an allowed name as `parse_host` does; browsers send Punycode."""
    name = name.lower().removesuffix(".")
    return name if name.isascii() else name.encode("idna").decode()


OPERATOR: Final = "seseragi.operator"
"""The key in the scope of requests on the operator's port."""

OPERATOR_PATHS: Final = frozenset((ADMIN_PAGE, "/metrics", *PROBES))
OPERATOR_PREFIXES: Final = ("/v1/admin/", "/v1/streams/", "/static/")
"""The paths of that port: metrics, probes, and the operator's page with its calls and files."""

LOCAL_ORIGINS = r"https?://((?:[a-z0-9-]+\.)*localhost|127\.0\.0\.1|\[::1\])(:\d+)?"
"""Development servers on the same machine."""

SAFE = ("GET", "HEAD", "OPTIONS")
"""Safe methods (RFC 9110, 9.2.1)."""

MAX_ORIGIN = MAX_HOST + len("https://")

REMEMBERED = 256
"""How many verdicts of each kind are cached."""

_ESCAPED_UNRESERVED = re.compile(
    rb"%(?:2[de]|3[0-9]|[46][1-9a-f]|5[0-9af]|7[0-9ae])", re.IGNORECASE
)
"""RFC 3986, 2.3: proxies compare paths without decoding, and would let `/%6detrics` pass."""

_ORIGIN = re.compile(rb"(https?)://([^/]+)")
_DEFAULT_PORTS = {b"http": 80, b"https": 443}


_Refusal = tuple[str, str]
"""The code and message of an error."""


class Guard:
    """The checks of a request's path, `Host` and `Origin`."""

    def __init__(self, names: HostNames, *, origins: Collection[str], local_origins: bool) -> None:
        self._names = names
        self._any_origin = "*" in origins
        self._origins = frozenset(origin.encode() for origin in origins)
        self._local_origins = re.compile(LOCAL_ORIGINS.encode()) if local_origins else None
        # Clients repeat these headers: 0.2 us instead of 6. No error is cached: each time that it
        # is raised, it keeps the frames of one more request.
        self._judge_host = lru_cache(REMEMBERED)(self._check_host)
        self._judge_origin = lru_cache(REMEMBERED)(self._check_origin)

    def check(self, scope: Scope) -> RequestError | None:
        """Return the error for a request; None if it is allowed."""
        if b"%" in scope.get("raw_path", b"") and _ESCAPED_UNRESERVED.search(scope["raw_path"]):
            return RequestError(
                "invalid_request",
                "path: letters, digits, '-', '.', '_' and '~' must not be percent-encoded",
            )
        if OPERATOR in scope and not _is_operators(path_of(scope)):
            return RequestError("not_found", "this is not on the operator's port; use the relay's")
        hosts, origins = (
            scope[REQUEST_HEADERS].get(b"host", ()),
            scope[REQUEST_HEADERS].get(b"origin", ()),
        )
        if len(hosts) > 1 or len(origins) > 1:  # RFC 9112, 3.2
            name = "Host" if len(hosts) > 1 else "Origin"
            return RequestError("invalid_request", f"{name}: the header is repeated; send it once")
        host = hosts[0][: MAX_HOST + 1] if hosts else None
        if host is None:
            # Every browser sends one; health checks in HTTP/1.0, such as HAProxy's, do not.
            if scope["http_version"] != "1.0":
                return RequestError("invalid_request", "Host: the header is missing")
        elif (refused := self._judge_host(host)) is not None and not _takes_any_name(scope):
            return RequestError(*refused)
        if not origins or scope["method"] in SAFE:
            return None
        refused = self._judge_origin(origins[0][: MAX_ORIGIN + 1], host)
        return None if refused is None else RequestError(*refused)

    def _check_host(self, value: bytes) -> _Refusal | None:
        shown = value.decode("latin-1")[:80]
        host = parse_host(value)
        if host is None:
            return "invalid_request", f"Host: {shown!r} is not a host name"
        if self._names.allow(host.name):
            return None
        return (
            "forbidden",
            f"{shown!r} is not a name of this relay; if it should be, add {host.name[:80]!r} to "
            "the setting allowed_hosts",
        )

    def _check_origin(self, value: bytes, host: bytes | None) -> _Refusal | None:
        if self._any_origin or value in self._origins or _is_same(value, host):
            return None
        if self._local_origins is not None and self._local_origins.fullmatch(value):
            return None
        shown = value.decode("latin-1")[:80]
        return (
            "forbidden",
            f"Origin: {shown!r} is not allowed; add it to the setting cors_origins (or set "
            "local_origins, for pages of this machine)",
        )


def _is_operators(path: str) -> bool:
    return path in OPERATOR_PATHS or path.startswith(OPERATOR_PREFIXES)


def _takes_any_name(scope: Scope) -> bool:
    """Return whether a request is a probe, or from Starlette's test client.

    Health checks may use any name (Caddy and Traefik use the relay's own address), and return one
    word. With a query they return more, and are checked like any other path.
    The test client names the host `testserver`, and offers an extension that no server has.
    """
    if path_of(scope) in PROBES and not scope["query_string"]:
        return True
    return "http.response.debug" in (scope.get("extensions") or {})


def _is_same(origin: bytes, host: bytes | None) -> bool:
    """Return whether an origin has the host and port of `Host`.

    The scheme is not compared: behind a proxy that terminates TLS only the page knows it.
    """
    match = _ORIGIN.fullmatch(origin)
    named = parse_host(match[2]) if match else None
    own = parse_host(host) if host else None
    if match is None or named is None or own is None:
        return False
    default = _DEFAULT_PORTS[match[1]]
    port, own_port = (default if one.port is None else one.port for one in (named, own))
    return named.name == own.name and port == own_port
