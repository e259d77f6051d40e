"""The demo page, the API's page and the browser client: the files of `static/`."""

from pathlib import Path
from typing import Any

from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from .authentication import DOCS_PAGE, PAGE

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


OF_THE_PACKAGE = frozenset({"package.json", "README.md", "LICENSE"})
"""Files for npm only: the version is for authenticated clients."""


# The page's files are 200 kB, and 70 kB of gzip: seconds of a phone's connection. Level 6 takes
# half the time of 9, and 1 % more bytes.
COMPRESSED = Middleware(GZipMiddleware, minimum_size=1000, compresslevel=6)


class _Static(StaticFiles):
    """Files with the page's headers."""

    def lookup_path(self, path: str) -> tuple[str, Any]:
        return ("", None) if path in OF_THE_PACKAGE else super().lookup_path(path)

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(HEADERS)
        if "etag" in response.headers:  # one for both encodings, so weak (RFC 9110, 8.8.3)
            response.headers["etag"] = f"W/{response.headers['etag'].removeprefix('W/')}"
        return response


def routes(static: Path) -> list[BaseRoute]:
    files = _Static(directory=static)

    async def index(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)

    async def docs(request: Request) -> Response:
        return await files.get_response("docs.html", request.scope)

    return [
        Route(PAGE, index, methods=["GET"], middleware=[COMPRESSED]),
        Route(DOCS_PAGE, docs, methods=["GET"], middleware=[COMPRESSED]),
        Mount("/static", files, name="static", middleware=[COMPRESSED]),
    ]
