"""Error responses, and rate limit headers, in the dialect of the client."""

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.client_format import ClientFormat
from ..dialects.client_formats import CLIENT_FORMATS, client_format_of, correct_path
from ..errors import RelayError, RequestError, ServiceError
from ..framing.content_coding import CODINGS
from ..ledger.accounts import LimitReached, RateLimitState
from ..telemetry.logs import hide_tokens
from .request import path_of


class UnsupportedCoding(RequestError):
    """The body has a content coding that is not decoded."""


REALM: Final = 'Bearer realm="seseragi"'

CODE: Final = "seseragi.code"
"""The key in the scope of the error code of a response."""

KEPT_S: Final = 59
"""The longest `Retry-After` that all official SDKs keep: at a longer one the AI SDK and OpenAI's in
Node ask again within seconds."""

RETRY_NAMES: Final = ("retry-after", "x-should-retry")

RETRIES: Final = 2
"""How often they ask again."""

_STORED: Final = re.compile(
    "/v1/(?:assistants|batches|chatkit|containers|conversations|evals|files|fine_tuning|skills"
    "|threads|uploads|vector_stores|videos)(?:/|$)"
)
"""OpenAI's paths of data that it stores."""

_BY_STATUS = {404: "not_found", 405: "method_not_allowed"}


def failure(
    client_format: ClientFormat,
    error: RelayError,
    request: Request,
    *,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the response for an error, in a dialect."""
    request.scope[CODE] = error.code
    status, body, media_type = client_format.render_failure(
        error, request.scope.get("request_id", "")
    )
    all_headers = {"cache-control": "no-store", **(headers or {})}
    if error.code == "unauthenticated":  # RFC 9110, 11.6.1
        all_headers.setdefault("www-authenticate", REALM)
    if isinstance(error, UnsupportedCoding):  # RFC 9110, 12.5.3: not for other causes of 415
        all_headers["accept-encoding"] = ", ".join(CODINGS)
    if error.code == "upgrade_required":  # RFC 9110, 15.5.22
        all_headers["upgrade"] = "HTTP/1.1"
    if error.stream is not None:
        all_headers["stream-id"] = error.stream
    all_headers |= retry_headers(error)
    if isinstance(error, LimitReached) and error.rate_limit is not None:
        requests = error.rate_limit if error.limit.counts == "requests" else None
        tokens = error.rate_limit if error.limit.counts == "tokens" else None
        all_headers |= rate_limit_headers(client_format, requests, tokens)
    return Response(body, status_code=status, headers=all_headers, media_type=media_type)


def retry_headers(error: RelayError) -> dict[str, str]:
    """Return the headers that official SDKs read before they retry; `CODES` says what is retryable.

    A limit per minute may need 65 s: they reach it by two waits.
    """
    wait_s, headers = math.ceil(error.retry_after_s or 0), {}
    retries = error.retryable and wait_s <= KEPT_S * RETRIES
    if wait_s:
        headers["retry-after"] = str(min(wait_s, KEPT_S) if retries else wait_s)
    if not retries:
        # Without it they retry every 5xx, 429, 409 and 408.
        headers["x-should-retry"] = "false"
    return headers


def on_relay_error(
    request: Request, error: RelayError, *, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response for an error of authentication or of an endpoint."""
    return failure(_front_of(request), error, request, headers=headers)


def on_http_error(request: Request, error: HTTPException) -> Response:
    """Return the response for Starlette's own errors (no route, wrong method)."""
    path, method = path_of(request.scope), request.method
    code = _BY_STATUS.get(error.status_code, "invalid_request")
    headers = dict(error.headers or {})
    match code:
        case "not_found":
            detail = f"there is nothing at {_show(path)}{_advise(path, request)}"
        case "method_not_allowed":
            allowed = _methods_at(request) or headers.get("Allow", "")
            headers["Allow"] = allowed
            detail = f"{method} is not allowed at {_show(path)}; use {allowed}"
        case _:
            detail = error.detail
    return failure(_front_of(request), RequestError(code, detail), request, headers=headers)


def _show(path: str) -> str:
    """Quote a path without tokens: a query may be encoded into it."""
    return repr(hide_tokens(path)[:200])


def _advise(path: str, request: Request) -> str:
    """Return a hint on a likely mistake in an unknown path, else what there is beside it."""
    if path.rstrip("/") == "/v1":
        return "; it is where the paths of clients begin: GET /v1/models lists the models"
    if path.startswith("/v1/v1/"):
        return "; take '/v1' off the end of the client's base URL"
    if correct_path(path) != path:
        return "; add '/v1' to the end of the client's base URL"
    if _STORED.match(path):
        return "; what is stored at the provider would belong to all clients: it is not supported"
    if path.startswith("/v1/realtime"):
        return "; speech in real time is not supported: use /v1/audio, or /v1/responses for text"
    family = "/".join(path.split("/")[:3])
    beside = sorted(
        f"{method} {route.path}"
        for route in request.app.routes
        if isinstance(route, Route) and f"{route.path}/".startswith(f"{family}/")
        for method in (route.methods or set()) - {"HEAD"}
    )
    if family.startswith("/v1/") and beside:
        return f"; there is {', '.join(beside)}"
    return "; GET /openapi.json lists what there is"


def _methods_at(request: Request) -> str:
    """List the methods of all routes at a path: Starlette names only the first route's.

    A path with a route of its own (`/responses/input_tokens`) is not `/responses/{response_id}`.
    """
    path = path_of(request.scope)
    routes = [
        route
        for route in request.app.routes
        if isinstance(route, Route) and route.path_regex.match(path)
    ]
    own = [route for route in routes if route.path == path]
    return ", ".join(sorted({method for route in own or routes for method in route.methods or ()}))


def on_bug(request: Request) -> Response:
    """Return the response for an unexpected exception."""
    bug = ServiceError("internal", "the relay failed; its log tells more")
    return failure(_front_of(request), bug, request)


def _front_of(request: Request) -> ClientFormat:
    return client_format_of(path_of(request.scope), request.scope["headers"])


_KINDS: Final = ("requests", "tokens")
_FIELDS: Final = ("limit", "remaining", "reset")
RATE_LIMIT_HEADERS: Final = tuple(
    dict.fromkeys(
        one.rate_limit_header.format(kind=kind, field=field)
        for one in CLIENT_FORMATS.values()
        for kind in _KINDS
        for field in _FIELDS
    )
)
"""The names of all headers of rate limits, which the official SDKs read."""


def rate_limit_headers(
    client_format: ClientFormat, requests: RateLimitState | None, tokens: RateLimitState | None
) -> dict[str, str]:
    """Return the headers of rate limits for a dialect."""
    headers = {}
    for kind, state in zip(_KINDS, (requests, tokens), strict=True):
        if state is None:
            continue
        if client_format.resets_are_times:
            reset = datetime.fromtimestamp(time.time() + state.reset_s, UTC)
            reset_at = f"{reset:%Y-%m-%dT%H:%M:%SZ}"
        else:
            reset_at = _duration(state.reset_s)
        for field, value in zip(_FIELDS, (state.limit, state.remaining, reset_at), strict=True):
            headers[client_format.rate_limit_header.format(kind=kind, field=field)] = str(value)
    return headers


def _duration(seconds: float) -> str:
    """Format a duration as OpenAI does: `8.64s`, `1m4.5s`."""
    minutes, rest = divmod(round(seconds, 3), 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"
