"""The demo page and the browser client: the files of `static/`."""

from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    # Cheap to check again, and never a stale page after an upgrade.
    "cache-control": "no-cache",
}


class _Static(StaticFiles):
    """Files with the page's headers."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(HEADERS)
        return response


def routes(static: Path) -> list[BaseRoute]:
    async def index(request: Request) -> Response:
        return FileResponse(static / "index.html", headers=HEADERS)

    return [
        Route("/", index, methods=["GET"]),
        Mount("/static", _Static(directory=static), name="static"),
    ]
