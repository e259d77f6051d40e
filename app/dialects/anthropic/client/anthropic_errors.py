"""Errors in Anthropic's format."""

from typing import Any, Final

import msgspec

from ....errors import RelayError, RequestError
from ...client_format import PROVIDER_STATUSES, Failure
from .. import ERRORS

_KINDS: Final = {
    "unauthenticated": "authentication_error",
    "forbidden": "permission_error",
    "not_found": "not_found_error",
    "model_not_found": "not_found_error",
    "request_too_large": "request_too_large",
    "rate_limited": "rate_limit_error",
    "budget_exceeded": "rate_limit_error",
    "upstream_auth": "authentication_error",
    "upstream_forbidden": "permission_error",
    "upstream_billing": "billing_error",
    "upstream_not_found": "not_found_error",
    "upstream_rate_limited": "rate_limit_error",
    "overloaded": "overloaded_error",
    "upstream_overloaded": "overloaded_error",
    "upstream_timeout": "timeout_error",
    "cancelled": "api_error",
}

_TOO_LONG: Final = "prompt is too long"
"""Anthropic has no code for a full context: clients look for these words, and then compact."""

_STATUSES: Final = {
    **PROVIDER_STATUSES,
    "overloaded": 529,
    "upstream_overloaded": 529,
    # Anthropic's SDKs retry a 409; these errors would only recur.
    "cancelled": 499,
    "conflict": 400,
}


class ThreadRefused(RequestError):
    """A `thread`, a conversation stored on the server; the SDKs then send all of it."""

    def __init__(self) -> None:
        what = "thread: the relay does not store conversations; send all messages instead"
        super().__init__("invalid_request", what)


def render_error(error: RelayError, *, kind: str = "") -> dict[str, Any]:
    """Return the error as an event of a stream, which is also the body of a response.

    `kind` is Anthropic's own type, if it sent the error.
    """
    if ERRORS.get(kind) != error.code:
        default = "invalid_request_error" if error.status < 500 else "api_error"
        kind = _KINDS.get(error.code, default)
    message = error.message
    if error.code == "context_length_exceeded" and _TOO_LONG not in message.lower():
        message = f"{_TOO_LONG}: {message}"
    fields: dict[str, Any] = {"type": kind, "message": message}
    if isinstance(error, ThreadRefused):
        fields["details"] = {"error_code": "thread_unsupported_request"}
    elif error.code == "budget_exceeded":  # distinguishes it from a temporary rate limit
        fields["details"] = {"error_code": "budget_exceeded"}
    return {"type": "error", "error": fields}


def render_failure(error: RelayError, request_id: str) -> Failure:
    """Return the error response to a request."""
    body = {**render_error(error), "request_id": request_id}
    return Failure(_STATUSES.get(error.code, error.status), msgspec.json.encode(body))
