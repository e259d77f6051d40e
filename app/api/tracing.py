"""The span of each request, except those of probes, scrapers and the page's own files."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from starlette.types import Scope

from .authentication import is_public
from .middleware import SentResponse
from .request import connection_of, path_of

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracing

METRICS: Final = "/metrics"


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
