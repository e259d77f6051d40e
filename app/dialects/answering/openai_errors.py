"""OpenAI's error object, for both of its formats.

Its clients choose the class of their exception by the status, and show `message`.
"""

import re
from typing import Any, Final

import msgspec

from ...errors import CODES, RelayError
from ...events import ErrorInfo
from ..client_format import PROVIDER_STATUSES, Failure

_PARAM: Final = re.compile(
    r"(?:unknown|object missing required) field `(\w+)`|([a-z_]+(?:\[\d+\]|\.\w+)*): ", re.ASCII
)
"""Matches the field at the start of an error message of `requests.parse_body`."""

_OPENAI_CODES: Final = {
    "rate_limited": "rate_limit_exceeded",
    "upstream_rate_limited": "rate_limit_exceeded",
    "upstream_not_found": "model_not_found",
    "budget_exceeded": "insufficient_quota",
    "upstream_billing": "insufficient_quota",
}
"""OpenAI's own codes, which callers of its clients compare with."""

_TOO_LONG: Final = "This model's maximum context length is"
"""LiteLLM matches these words, opencode and pi those about reducing the length."""


def render_failure(error: RelayError, request_id: str) -> Failure:
    """Return the response to a request that started no stream."""
    status = _status_of(error.code)
    body = {"error": error_object(error.info())}
    return Failure(status, msgspec.json.encode(body))


def error_object(error: ErrorInfo) -> dict[str, Any]:
    """Return the `error` of a response or of a stream."""
    return {
        "message": message_of(error),
        "type": _type_of(error.code),
        "param": _param_of(error),
        "code": code_of(error),
    }


def message_of(error: ErrorInfo) -> str:
    """Return the message; for a full context with the phrases that clients match."""
    if error.code == "context_length_exceeded" and _TOO_LONG.lower() not in error.message.lower():
        return f"{_TOO_LONG} exceeded; reduce the length of the messages: {error.message}"
    return error.message


def _status_of(code: str) -> int:
    status = PROVIDER_STATUSES.get(code, CODES[code].status)
    # The official clients retry after a 409.
    return 400 if status == 409 else status


def _type_of(code: str) -> str:
    if _OPENAI_CODES.get(code) == "insufficient_quota":
        return "insufficient_quota"
    match _status_of(code):
        case 401:
            return "authentication_error"
        case 403:
            return "permission_error"
        case 429:
            return "rate_limit_error"
        case status if status >= 500:
            return "server_error"
        case _:
            return "invalid_request_error"


def code_of(error: ErrorInfo) -> str:
    """Return OpenAI's code for an error, or else the relay's own."""
    if error.provider_code is not None and error.code == "upstream_invalid_request":
        return error.provider_code
    return _OPENAI_CODES.get(error.code, error.code)


def _param_of(error: ErrorInfo) -> str | None:
    if error.param is not None:
        return error.param
    if error.code == "model_not_found":
        return "model"
    if error.code == "previous_response_not_found":
        return "previous_response_id"
    match = _PARAM.match(error.message) if error.code == "invalid_request" else None
    return (match[1] or match[2]) if match else None
