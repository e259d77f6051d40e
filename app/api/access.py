"""The access log: one line for each request, if the settings turn it on.

Our own server counts the frames that bypass ASGI. A line has the path without its query, since
clients put credentials there, and the caller by the names of its key, tenant and user.
"""

import contextlib
import time
from collections.abc import Iterator

import structlog
from starlette.types import Scope

from ..telemetry.logs import hide_tokens
from .middleware import SentResponse
from .problems import CODE
from .request import PRINCIPAL, connection_of

MAX_PATH = 1000
"""The most characters of a path that are logged."""

log = structlog.get_logger("seseragi.access")


@contextlib.contextmanager
def log_request(scope: Scope, response: SentResponse) -> Iterator[None]:
    """Log a request when it is over; `complete` is whether the whole answer was sent."""
    began = time.monotonic()
    try:
        yield
    finally:
        connection, principal = connection_of(scope), scope.get(PRINCIPAL)
        log.info(
            "request",
            method=scope["method"],
            path=hide_tokens(scope["path"][:MAX_PATH]),
            status=response.status,
            code=scope.get(CODE),
            bytes=response.bytes + (connection.sent if connection is not None else 0),
            duration_s=round(time.monotonic() - began, 4),
            complete=response.complete,
            request_id=scope["request_id"],
            key=(principal and principal.key) or None,
            tenant=(principal and principal.tenant) or None,
            user=(principal and principal.user) or None,
            stream=response.stream or scope.get("path_params", {}).get("stream"),
        )
