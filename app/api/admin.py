"""`/admin`, and its API: `GET /v1/admin/summary`."""

from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from ..admin.service import AdminService
from ..errors import RequestError
from .authentication import ADMIN_PAGE
from .endpoints import Endpoints, HttpParts
from .page import COMPRESSED, HEADERS
from .request import check_admin

KEY: Final = b'data-credential="key"'
SESSION: Final = b'data-credential="session"'
"""Attributes of the page: it asks for a key, or the host application identifies the user."""


class Admin(Endpoints):
    """The endpoints of the admin page."""

    def __init__(
        self, parts: HttpParts, service: AdminService, page: Path, *, with_session: bool
    ) -> None:
        """`with_session`: a host application identifies the user, so the page asks for no key."""
        super().__init__(parts)
        self._service = service
        self._page = page
        self._with_session = with_session

    async def summary(self, request: Request) -> Response:
        """Return the state of all processes."""
        check_admin(request, "this call requires")
        headers = {"cache-control": "no-store"}
        return Response(
            await self._service.summary(), headers=headers, media_type="application/json"
        )

    async def page(self, request: Request) -> Response:
        """Send the page, which has no data of its own."""
        if not self._page.is_file():
            raise RequestError("not_found", "there is nothing at '/admin'")
        if self._with_session:
            page = self._page.read_bytes().replace(KEY, SESSION)
            return HTMLResponse(page, headers=HEADERS)
        return FileResponse(self._page, headers=HEADERS)


def routes(
    parts: HttpParts, service: AdminService, static: Path, *, with_session: bool
) -> list[Route]:
    admin = Admin(parts, service, static / "admin.html", with_session=with_session)
    return [
        Route(ADMIN_PAGE, admin.page, methods=["GET"], middleware=[COMPRESSED]),
        Route("/v1/admin/summary", admin.summary, methods=["GET"]),
    ]
