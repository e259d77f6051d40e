"""What never becomes a request to the app: why, and the whole answer to it."""

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ..api.middleware import NO_PAGE
from ..dialects.client_formats import client_format_of
from ..errors import RelayError, RequestError

MAX_HEADERS = 256
"""Fields of one head: each look for one goes through all of them."""


def check_head(headers: list[tuple[bytes, bytes]], version: str) -> None:
    """Check what the parser lets pass and uvicorn would not heed.

    Raises:
        RequestError: `invalid_request`, it cannot be answered rightly.
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
    if version == "1.0":  # whose proxies pass it on without knowing it (RFC 9112, 6.1)
        raise RequestError("invalid_request", "HTTP/1.0 has no transfer-encoding")
    coding = b", ".join(codings).decode("latin-1")
    if coding.strip().lower() != "chunked":
        raise RequestError(
            "invalid_request",
            f"the transfer-encoding {coding[:100]!r} is not supported; use 'chunked'",
        )


def too_large(what: str, limit: int) -> RequestError:
    """Return the error for what has more bytes than the limit."""
    return RequestError("invalid_request", f"{what} larger than the limit of {limit} bytes")


def too_slow(what: str, seconds: float) -> RequestError:
    """Return the error for what takes longer than it may."""
    return RequestError("invalid_request", f"the {what} did not come within {seconds:g} s")


def render_error(error: RelayError) -> bytes:
    """Write the whole answer to what never becomes a request to the app."""
    status, body, media_type = client_format_of("/").render_failure(error, "")
    head = (
        f"content-type: {media_type}\r\ncontent-length: {len(body)}\r\ncache-control: no-store\r\n"
        "connection: close\r\n"
    )
    if error.retry_after_s is not None:
        head += f"retry-after: {error.retry_after_s:.0f}\r\n"
    safe = b"".join([b"%b: %b\r\n" % header for header in NO_PAGE])
    return b"%b%b%b\r\n%b" % (STATUS_LINE[status], head.encode(), safe, body)
