"""Failures before a stream began: `application/problem+json` (RFC 9457)."""

import math
from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from app.errors import RelayError, RequestError, ServiceError

_BY_STATUS = {404: "not_found", 405: "method_not_allowed"}


def problem(
    error: RelayError, request: Request, *, headers: Mapping[str, str] | None = None
) -> Response:
    """Give the response that tells a client of a failure."""
    body: dict[str, object] = {
        "type": "about:blank",
        "title": error.title,
        "status": error.status,
        "detail": error.message,
        "code": error.code,
        "retryable": error.retryable,
        "request_id": request.scope.get("request_id", ""),
    }
    all_headers = {"cache-control": "no-store", **(headers or {})}
    if error.retry_after_s is not None:
        body["retry_after_s"] = error.retry_after_s
        all_headers["retry-after"] = str(math.ceil(error.retry_after_s))
    return Response(
        msgspec.json.encode(body),
        status_code=error.status,
        headers=all_headers,
        media_type="application/problem+json",
    )


async def on_relay_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RelayError)  # noqa: S101  (registered for it)
    return problem(error, request)


async def on_http_error(request: Request, error: Exception) -> Response:
    """Give Starlette's own failures (no route, wrong method) the same form."""
    assert isinstance(error, HTTPException)  # noqa: S101  (registered for it)
    path, method = request.url.path, request.method
    code = _BY_STATUS.get(error.status_code, "invalid_request")
    match code:
        case "not_found":
            detail = f"there is nothing at {path!r}"
        case "method_not_allowed":
            allowed = (error.headers or {}).get("Allow", "another method")
            detail = f"{method} is not allowed at {path!r}; use {allowed}"
        case _:
            detail = error.detail
    return problem(RequestError(code, detail), request, headers=error.headers)


async def on_bug(request: Request, error: Exception) -> Response:
    return problem(ServiceError("internal", "the relay failed; its log tells more"), request)
