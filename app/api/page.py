"""The files of `static/`: the demo page, the API's and the operator's page, the browser client."""

from pathlib import Path
from typing import Any, Final

from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from ..admin.service import AdminService
from ..errors import RequestError
from .authentication import ADMIN_PAGE, DOCS_PAGE, PAGE
from .request import check_admin

KEY: Final = b'data-credential="key"'
SESSION: Final = b'data-credential="session"'
"""Attributes of the operator's page: it asks for a key, or the host identifies the user."""

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


def routes(static: Path, admin: AdminService | None, *, with_session: bool) -> list[BaseRoute]:
    """List the routes; those of the operator's page, `/admin`, with an `admin` service only.

    `with_session`: a host application identifies the user, so that page asks for no key.
    """
    files = _Static(directory=static)

    async def index(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)

    async def docs(request: Request) -> Response:
        return await files.get_response("docs.html", request.scope)

    found: list[BaseRoute] = [
        Route(PAGE, index, methods=["GET"], middleware=[COMPRESSED]),
        Route(DOCS_PAGE, docs, methods=["GET"], middleware=[COMPRESSED]),
        Mount("/static", files, name="static", middleware=[COMPRESSED]),
    ]
    if admin is None:
        return found
    return [*_admin_routes(admin, static / "admin.html", with_session), *found]


def _admin_routes(service: AdminService, file: Path, with_session: bool) -> list[Route]:
    async def summary(request: Request) -> Response:
        """Return the state of all processes."""
        check_admin(request, "this call requires")
        return Response(
            await service.summary(),
            headers={"cache-control": "no-store"},
            media_type="application/json",
        )

    async def page(_: Request) -> Response:
        return _send_page(file, with_session)

    return [
        Route(ADMIN_PAGE, page, methods=["GET"], middleware=[COMPRESSED]),
        Route("/v1/admin/summary", summary, methods=["GET"]),
    ]


def _send_page(file: Path, with_session: bool) -> Response:
    """Return the operator's page, which has no data of its own."""
    if not file.is_file():
        raise RequestError("not_found", "there is nothing at '/admin'")
    if with_session:
        return HTMLResponse(file.read_bytes().replace(KEY, SESSION), headers=HEADERS)
    return FileResponse(file, headers=HEADERS)
