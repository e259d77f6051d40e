"""What surrounds each request: its line in the access log, and its span in traces.

A line is written if the settings turn it on. It has the path without its query, since clients put
credentials there, and the caller by the names of its key, tenant and user. Our own server counts
the frames that bypass ASGI. Probes, scrapers and the page's own files have no span.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import structlog
from starlette.types import Scope

from ..telemetry.logs import hide_tokens
from .authentication import is_public
from .middleware import SentResponse
from .problems import CODE
from .request import PRINCIPAL, connection_of, path_of

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracing

MAX_PATH = 1000
"""The most characters of a path that are logged."""

METRICS: Final = "/metrics"

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


class RequestSpans:
    """Spans from each request to its answer.

    `route_of` returns the path template of a request's route, if it has one.
    """

    def __init__(self, tracing: "Tracing", route_of: Callable[[Scope], str | None]) -> None:
        self._tracing = tracing
        self._route_of = route_of

    @contextlib.contextmanager
    def watch(self, scope: Scope, response: SentResponse) -> Iterator[None]:
        """Trace a request."""
        if is_public(scope) or path_of(scope) == METRICS:
            yield
            return
        span = self._tracing.begin_request(scope)
        try:
            yield
        finally:
            connection, status = connection_of(scope), response.status
            self._tracing.end_request(
                span,
                method=scope["method"],
                route=self._route_of(scope),
                status=status,
                request_id=scope["request_id"],
                # Whatever fails has an answer.
                client_left=status is None or (connection is not None and connection.lost),
            )
