"""Errors answered before ASGI: malformed or oversized HTTP."""

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ..api.middleware import NO_PAGE
from ..dialects.client_formats import client_format_of
from ..errors import RelayError, RequestError

MAX_HEADERS = 256
"""The most fields of a head: each lookup scans all of them."""


def check_head(headers: list[tuple[bytes, bytes]], version: str) -> None:
    """Check what the parser accepts and uvicorn ignores.

    Raises:
        RequestError: `invalid_request`.
    """
    if version not in ("1.1", "1.0"):
        raise RequestError("invalid_request", f"use HTTP/1.1 instead of HTTP/{version}")
    if len(headers) > MAX_HEADERS:
        raise RequestError(
            "invalid_request", f"the request has more header fields than the limit of {MAX_HEADERS}"
        )
    if b"transfer-encoding" not in dict(headers):
        return
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    if version == "1.0":  # its proxies forward it without knowing it (RFC 9112, 6.1)
        raise RequestError("invalid_request", "HTTP/1.0 has no transfer-encoding")
    coding = b", ".join(codings).decode("latin-1")
    if coding.strip().lower() != "chunked":
        raise RequestError(
            "invalid_request",
            f"the transfer-encoding {coding[:100]!r} is not supported; use 'chunked'",
        )


def too_large(what: str, limit: int) -> RequestError:
    """Return the error for input above a limit in bytes."""
    return RequestError("invalid_request", f"{what} larger than the limit of {limit} bytes")


def too_slow(what: str, seconds: float) -> RequestError:
    """Return the error for input that is not complete in time."""
    return RequestError("invalid_request", f"the {what} did not come within {seconds:g} s")


def render_error(error: RelayError) -> bytes:
    """Render an error as a whole HTTP response."""
    status, body, media_type = client_format_of("/").render_failure(error, "")
    head = (
        f"content-type: {media_type}\r\ncontent-length: {len(body)}\r\ncache-control: no-store\r\n"
        "connection: close\r\n"
    )
    if error.retry_after_s is not None:
        head += f"retry-after: {error.retry_after_s:.0f}\r\n"
    safe = b"".join([b"%b: %b\r\n" % header for header in NO_PAGE])
    return b"%b%b%b\r\n%b" % (STATUS_LINE[status], head.encode(), safe, body)
