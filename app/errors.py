"""Errors: their codes, HTTP statuses and messages for clients.

    RelayError                a code, a message that is safe to show
    ├── RequestError          the client's request: the client can fix it
    ├── UpstreamError         the provider, the connection to it, or its response
    └── ServiceError          the relay: overloaded, shutting down, a lost stream, a bug

`CODES` lists the codes, each with its HTTP status before a stream has begun. Afterwards the same
code is in the `error` of `stream.end`. A message names the thing, what is wrong and what to do;
it contains no key, no URL with credentials and no stack.
"""

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from .events import ErrorInfo


class CodeInfo(NamedTuple):
    status: int
    title: str
    retryable: bool = False


CODES: dict[str, CodeInfo] = {
    # The client's request.
    "invalid_request": CodeInfo(400, "The request is not valid"),
    "unauthenticated": CodeInfo(401, "Credentials are missing or wrong"),
    "forbidden": CodeInfo(403, "Not allowed"),
    "not_found": CodeInfo(404, "Not found"),
    "previous_response_not_found": CodeInfo(400, "The previous response is not stored"),
    "model_not_found": CodeInfo(404, "The model does not exist"),
    "method_not_allowed": CodeInfo(405, "The method is not allowed here"),
    "conflict": CodeInfo(409, "The request does not fit the state of the stream"),
    "stream_expired": CodeInfo(410, "The stream is gone"),
    "request_too_large": CodeInfo(413, "The request is too large"),
    "unsupported_media_type": CodeInfo(415, "The content type is not supported"),
    "idempotency_mismatch": CodeInfo(422, "The Idempotency-Key was used for another request"),
    "upgrade_required": CodeInfo(426, "WebSocket is not supported here"),
    "rate_limited": CodeInfo(429, "Too many requests", retryable=True),
    "budget_exceeded": CodeInfo(429, "The budget is used up"),
    # The request, according to the provider.
    "context_length_exceeded": CodeInfo(400, "The conversation is too long for the model"),
    "content_filtered": CodeInfo(400, "The provider's content filter blocked the request"),
    "upstream_invalid_request": CodeInfo(400, "The provider refused the request"),
    # The provider.
    "upstream_auth": CodeInfo(502, "The provider refused the relay's credentials"),
    "upstream_forbidden": CodeInfo(502, "The provider forbids this request"),
    "upstream_billing": CodeInfo(402, "The provider account cannot pay"),
    "upstream_not_found": CodeInfo(404, "The provider does not have this model"),
    "upstream_rate_limited": CodeInfo(429, "The provider's rate limit is reached", retryable=True),
    "upstream_unavailable": CodeInfo(502, "The provider failed", retryable=True),
    "upstream_overloaded": CodeInfo(503, "The provider is overloaded", retryable=True),
    "upstream_timeout": CodeInfo(504, "The provider took too long", retryable=True),
    "upstream_invalid_response": CodeInfo(502, "The provider's answer is invalid"),
    "upstream_tool_failed": CodeInfo(502, "The model produced a broken tool call", retryable=True),
    "upstream_truncated": CodeInfo(502, "The provider's answer was cut off", retryable=True),
    # The relay.
    "overloaded": CodeInfo(503, "The relay is at its limit", retryable=True),
    "producer_lost": CodeInfo(502, "The relay that ran the stream is gone", retryable=True),
    "cancelled": CodeInfo(409, "The stream was cancelled"),
    "internal": CodeInfo(500, "Something went wrong in the relay"),
}


MAX_MESSAGE = 2000
"""Characters of a message, which may quote input and is stored with its stream."""


class RelayError(Exception):
    """A failure with a code of `CODES` and a message that is safe to show.

    `retry_after_s` is the requested wait in seconds; `provider_code` and `param` are a provider's
    own code for a request that it refuses, and the field at fault. `provider_message` is a
    provider's own text, for the operator's log only, never for clients.
    """

    stream: str | None = None
    """The running stream that is in the way."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retry_after_s: float | None = None,
        provider_code: str | None = None,
        param: str | None = None,
        provider_message: str = "",
    ) -> None:
        if len(message) > MAX_MESSAGE:
            message = f"{message[: MAX_MESSAGE - 1]}…"
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s
        self.provider_code = provider_code
        self.param = param
        self.provider_message = provider_message

    @property
    def status(self) -> int:
        return CODES[self.code].status

    @property
    def title(self) -> str:
        return CODES[self.code].title

    @property
    def retryable(self) -> bool:
        return CODES[self.code].retryable

    def info(self) -> ErrorInfo:
        """Return the failure as the `error` of a `stream.end`, in the types that a log returns."""
        wait_s = self.retry_after_s
        return ErrorInfo(
            self.code,
            self.message,
            retryable=self.retryable,
            retry_after_s=None if wait_s is None else float(wait_s),
            provider_code=self.provider_code,
            param=self.param,
        )

    @classmethod
    def of(cls, info: ErrorInfo) -> "RelayError":
        """Return the failure in the `error` of a `stream.end`."""
        return cls(
            info.code,
            info.message,
            retry_after_s=info.retry_after_s,
            provider_code=info.provider_code,
            param=info.param,
        )


class RequestError(RelayError):
    """The request is at fault."""


class UpstreamError(RelayError):
    """The provider, the connection to it, or its response is at fault."""


class ServiceError(RelayError):
    """The relay itself is at fault or cannot serve now."""


def shutting_down() -> ServiceError:
    """Return the error for requests during a shutdown."""
    return ServiceError("overloaded", "the relay is shutting down; try again", retry_after_s=2)


def suggest(word: str, known: Iterable[str]) -> str:
    """Return a suggestion for a misspelled word, as the end of a sentence; "" if none is close."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
