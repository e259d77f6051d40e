"""Authentication of requests by their heads.

Every path needs a credential except those listed here, so that a new route cannot be left open.
The credential is in `Authorization: Bearer`, or in the header of an official client. A stream
token may be in the query too, for `EventSource` and `sendBeacon`, which send no headers.
"""

import re
from contextlib import suppress
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.types import Scope

from ..addresses import is_loopback, parse_address
from ..errors import RelayError, RequestError
from ..identity.authenticator import Authenticator
from ..identity.hook import IdentifyHook
from ..identity.principal import ANYONE, Principal
from .problems import REALM
from .request import CREDENTIALS, REQUEST_HEADERS, Headers, path_of

PAGE: Final = "/"
ADMIN_PAGE: Final = "/admin"
DOCS_PAGE: Final = "/docs"
STATIC: Final = "/static/"
PROBES: Final = frozenset(("/healthz", "/readyz"))
"""Public without a query; with one, `/readyz` lists the upstreams."""
STREAMS: Final = "/v1/streams/"
"""The paths that accept stream tokens."""
TOKEN: Final = b"token="

MAX_CREDENTIAL: Final = 16 * 1024
MAX_FIELDS: Final = 100
"""The most fields of a query that may have a token."""
REMEMBERED: Final = 256
"""How many addresses of the relay itself are cached."""

INVALID: Final = f'{REALM}, error="invalid_token"'

_CREDENTIAL = re.compile(rb"[!-~]+")

SEND = "send it as 'Authorization: Bearer ...', or in the header x-api-key"


class _Credentials(msgspec.Struct, frozen=True):
    """The credentials of a request."""

    header: str | None
    token: str | None
    """Of the query."""


class Authentication:
    """Identifies the principal of each request, unless the request is public.

    Without an authenticator, or with one for operators only, every request is accepted: with an
    operator's key as that operator's, else as `ANYONE`'s. With `loopback_only`, requests without
    that key are refused if the server's address is not a loopback address.
    With a `hook`, that identifies the caller, and the authenticator checks stream tokens only.
    """

    def __init__(
        self,
        authenticator: Authenticator | None,
        *,
        loopback_only: bool = False,
        hook: IdentifyHook | None = None,
    ) -> None:
        self._authenticator = authenticator
        self._loopback_only = loopback_only
        self._hook = hook

    async def identify(self, scope: Scope) -> Principal | None:
        """Return the principal that makes a request; None for a public one.

        Raises:
            RelayError: the request has no valid credential.
        """
        if is_public(scope):
            return None
        authenticator = self._authenticator
        if self._hook is not None and _read_token(scope) is None:
            return await self._hook.authenticate(scope)
        if authenticator is not None and not authenticator.operators_only:
            # With a hook too: a link is valid for its holder, whatever user a cookie names.
            return await _authenticate(scope, authenticator, token_only=self._hook is not None)
        if authenticator is not None and _has_credential(scope):
            # Other credentials are ignored: clients send placeholders, and proxies their own.
            with suppress(RequestError):
                shown = read_credentials(scope).header
                principal = None if shown is None else await authenticator.find(shown)
                if principal is not None and principal.roles:
                    _check_origin(principal, scope)
                    return principal
        if self._loopback_only:
            _check_server_address(scope)
        return ANYONE


async def _authenticate(
    scope: Scope, authenticator: Authenticator, *, token_only: bool = False
) -> Principal:
    credentials = (
        _Credentials(None, _check(_read_token(scope))) if token_only else read_credentials(scope)
    )
    principal = await _resolve(credentials, authenticator)
    _check_origin(principal, scope)
    if principal.stream is not None and not path_of(scope).startswith(STREAMS):
        raise RequestError(
            "forbidden", "a stream token is for its stream alone; send a key or a client secret"
        )
    return principal


def is_public(scope: Scope) -> bool:
    """Return whether a request needs no credential."""
    if scope["method"] not in ("GET", "HEAD"):
        return False
    path = path_of(scope)
    if path in PROBES:
        return not scope["query_string"]
    return path in (PAGE, ADMIN_PAGE, DOCS_PAGE) or path.startswith(STATIC)


def read_credentials(scope: Scope) -> _Credentials:
    """Read the credentials in the head of a request.

    Raises:
        RequestError: `unauthenticated`, no credential, or several.
    """
    credential = authorization = None
    headers: Headers = scope[REQUEST_HEADERS]
    for name in CREDENTIALS & headers.keys():
        for value in filter(None, (value.strip(b" \t") for value in headers[name])):
            if name == b"authorization":
                if authorization not in (None, value):
                    raise _conflicting()
                authorization = value
                kind, _, value = value.partition(b" ")
                value = value.strip(b" \t")
                if kind.lower() != b"bearer" or not value:
                    continue  # a proxy's own, such as Basic, may stand beside a key
            if credential not in (None, value):
                raise _conflicting()
            credential = value
    token = _read_token(scope)
    if credential is None and token is None:
        if authorization is not None:
            raise RequestError(
                "unauthenticated", "Authorization: send 'Bearer', a space and the credential"
            )
        raise RequestError("unauthenticated", f"a credential is needed: {SEND}")
    return _Credentials(_check(credential), _check(token))


def _read_token(scope: Scope) -> bytes | None:
    """Return the token of a query, by its unescaped name: logs redact no other."""
    query: bytes = scope["query_string"]
    if not query or not path_of(scope).startswith(STREAMS):
        return None
    fields = query.split(b"&", MAX_FIELDS)
    if len(fields) > MAX_FIELDS:
        raise RequestError("invalid_request", f"the query has more than {MAX_FIELDS} fields")
    tokens = {unquote_to_bytes(field[len(TOKEN) :]) for field in fields if field.startswith(TOKEN)}
    tokens.discard(b"")
    if len(tokens) > 1:
        raise _conflicting()
    return tokens.pop() if tokens else None


def _check(credential: bytes | None) -> str | None:
    """Check the length and characters of a credential before it is hashed."""
    if credential is None:
        return None
    if len(credential) > MAX_CREDENTIAL:
        raise RequestError(
            "unauthenticated", f"the credential is longer than {MAX_CREDENTIAL} characters"
        )
    if _CREDENTIAL.fullmatch(credential) is None:
        raise RequestError("unauthenticated", "the credential contains invalid characters")
    return credential.decode()


async def _resolve(credentials: _Credentials, authenticator: Authenticator) -> Principal:
    by_header = by_token = None
    if credentials.header is not None:
        by_header = await authenticator.authenticate(credentials.header)
    if credentials.token is not None:
        by_token = await authenticator.authenticate(credentials.token)
        if by_token.stream is None:  # queries are in the logs of proxies
            raise RequestError("unauthenticated", f"token: the query is for stream tokens; {SEND}")
    if by_header is None:
        assert by_token is not None  # noqa: S101  (one of them was shown)
        return by_token
    # A client with a key that uses the URL of a 202 as it is sends both.
    if by_token is not None and by_token.owner != by_header.owner:
        raise _conflicting()
    return by_header


def _conflicting() -> RequestError:
    return RequestError("unauthenticated", "there are two different credentials; send one")


def _check_origin(principal: Principal, scope: Scope) -> None:
    if not principal.origins:
        return
    for value in scope[REQUEST_HEADERS].get(b"origin", ()):
        origin = value.decode("latin-1")
        if origin not in principal.origins:
            raise RequestError(
                "forbidden", f"Origin: the credential does not allow pages of {origin[:80]!r}"
            )


def _check_server_address(scope: Scope) -> None:
    """Refuse a request to a server that other machines can reach.

    Some servers have no address: those on a Unix socket, and functions that a gateway calls. There
    the client's address must be a loopback address, and no proxy may have forwarded the request.
    """
    server, client = scope.get("server") or ("", None), scope.get("client") or ("", None)
    name = str(server[0])
    reachable = _is_reachable(name)
    if not reachable and parse_address(name) is None:
        reachable = _is_reachable(str(client[0])) or _is_forwarded(scope)
    if reachable:
        raise RequestError(
            "unauthenticated",
            "authentication: other machines can reach this server and no credentials are "
            "configured; set a [[key]], an [[issuer]] or a keys_file (`seseragi key new`), "
            "SESERAGI_HOST to its address for a key of this run, or auth = 'none' behind a proxy "
            "that authenticates clients",
        )


def _is_forwarded(scope: Scope) -> bool:
    """Return whether any header shows that a proxy forwarded the request."""
    return any(
        name in (b"forwarded", b"via", b"x-real-ip") or name.startswith(b"x-forwarded-")
        for name, _ in scope["headers"]
    )


@lru_cache(REMEMBERED)
def _is_reachable(host: str) -> bool:
    address = parse_address(host)
    if address is None:  # a name that others may resolve, unless it is the path of a socket
        return "." in host and "/" not in host and not is_loopback(host.lower())
    return not address.is_loopback


def challenge(error: RelayError, scope: Scope) -> dict[str, str]:
    """Return the header that tells a client that its credential is not valid, if it sent one."""
    if error.code != "unauthenticated" or not _has_credential(scope):
        return {}
    return {"www-authenticate": INVALID}


def _has_credential(scope: Scope) -> bool:
    """Return whether a request has anything that could be a credential."""
    if not CREDENTIALS.isdisjoint(scope[REQUEST_HEADERS]):
        return True
    return TOKEN in scope["query_string"] and path_of(scope).startswith(STREAMS)
