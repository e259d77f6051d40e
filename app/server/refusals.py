"""Errors answered before ASGI: malformed or oversized HTTP."""

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ..api.middleware import NON_HTML_SECURITY
from ..dialects.client_formats import client_format_of
from ..errors import RelayError, RequestError


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
    safe = b"".join([b"%b: %b\r\n" % header for header in NON_HTML_SECURITY])
    return b"%b%b%b\r\n%b" % (STATUS_LINE[status], head.encode(), safe, body)
