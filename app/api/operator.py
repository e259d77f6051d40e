"""The operator's port: metrics, probes, and the operator's page with what that asks."""

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import RequestError
from .authentication import ADMIN_PAGE
from .problems import refuse
from .request import path_of

PATHS: Final = frozenset((ADMIN_PAGE, "/metrics", "/healthz", "/readyz"))
PREFIXES: Final = ("/v1/admin/", "/v1/streams/", "/static/")
"""What the page asks for: the summary, one stream and its end, its own files."""


class OperatorPaths:
    """The relay's app for the operator's port: any other path is 404."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_of(scope)
        if path in PATHS or path.startswith(PREFIXES):
            await self._app(scope, receive, send)
            return
        error = RequestError("not_found", "this is not on the operator's port; use the relay's")
        await refuse(error, scope, receive, send)
