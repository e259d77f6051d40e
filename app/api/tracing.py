"""The span of each request. Pure ASGI: nothing here touches a body.

What probes, scrapers and browsers ask for by themselves has none.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from .authentication import is_public
from .connection import connection_of
from .paths import path_of

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracing

METRICS: Final = "/metrics"
STATUS: Final = "seseragi.status"
"""Where a scope has the status of the answer, once that has begun."""


def note_status(
    scope: Scope, status: int, *, then: Callable[[Scope, int], None] | None = None
) -> None:
    """Note the status of an answer that begins, and tell who else wants to know."""
    scope[STATUS] = status
    if then is not None:
        then(scope, status)


class RequestSpans:
    """Begins a span with each request and ends it with its answer.

    `route_of` returns the path of the route that took a request, if one did.
    """

    def __init__(
        self, app: ASGIApp, tracing: "Tracing", route_of: Callable[[Scope], str | None]
    ) -> None:
        self._app = app
        self._tracing = tracing
        self._route_of = route_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_public(scope) or path_of(scope) == METRICS:
            await self._app(scope, receive, send)
            return
        span = self._tracing.begin_request(scope)
        try:
            await self._app(scope, receive, send)
        finally:
            connection, status = connection_of(scope), scope.get(STATUS)
            self._tracing.end_request(
                span,
                method=scope["method"],
                route=self._route_of(scope),
                status=status,
                request_id=scope.get("request_id"),
                # Whatever fails has an answer.
                client_left=status is None or (connection is not None and connection.lost),
            )
