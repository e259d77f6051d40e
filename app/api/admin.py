"""`/admin` and what its page asks: `GET /v1/admin/summary` and `POST /v1/admin/targets`."""

from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from ..admin.service import Action, AdminService
from ..errors import RequestError
from ..generation.hub import Hub
from ..requests import Body
from .authentication import ADMIN_PAGE
from .body import document, read_options
from .http_settings import HttpSettings
from .page import COMPRESSED, HEADERS
from .request import check_admin, principal_of

EXAMPLE: Final = '{"target": "openai/gpt-6", "action": "rest", "for_s": 300}'


KEY: Final = b'data-credential="key"'
SESSION: Final = b'data-credential="session"'
"""In the page: whether it asks for a key first, or the host application knows its user."""


class Order(Body, frozen=True):
    """What is to become of a target."""

    target: Annotated[str, Meta(min_length=1, max_length=3000)]
    action: Action
    for_s: Annotated[float, Meta(ge=1, le=86_400)] = 300


_order = msgspec.json.Decoder(Order)


class Admin:
    """The endpoints; they hold what all their requests share."""

    def __init__(
        self, desk: AdminService, hub: Hub, policy: HttpSettings, page: Path, *, with_session: bool
    ) -> None:
        """Serve a desk; `with_session`: requests of the page need no key of its own."""
        self._desk = desk
        self._hub = hub
        self._policy = policy
        self._page = page
        self._with_session = with_session

    async def summary(self, request: Request) -> Response:
        """Tell how all processes fare."""
        check_admin(request, "this call needs")
        headers = {"cache-control": "no-store"}
        return Response(await self._desk.summary(), headers=headers, media_type="application/json")

    async def targets(self, request: Request) -> Response:
        """Order something of a target."""
        check_admin(request, "this call needs")
        order = await read_options(
            request, self._hub, policy=self._policy, decoder=_order, example=EXAMPLE
        )
        principal = principal_of(request)
        by = principal.key or principal.user
        ordered = await self._desk.command(order.target, order.action, for_s=order.for_s, by=by)
        return document(ordered, status_code=202)

    async def page(self, request: Request) -> Response:
        """Send the page, which asks for a key and has no data of its own."""
        if not self._page.is_file():
            raise RequestError("not_found", "there is nothing at '/admin'")
        if self._with_session:
            page = self._page.read_bytes().replace(KEY, SESSION)
            return HTMLResponse(page, headers=HEADERS)
        return FileResponse(self._page, headers=HEADERS)


def routes(
    desk: AdminService, hub: Hub, policy: HttpSettings, static: Path, *, with_session: bool
) -> list[Route]:
    admin = Admin(desk, hub, policy, static / "admin.html", with_session=with_session)
    return [
        Route(ADMIN_PAGE, admin.page, methods=["GET"], middleware=[COMPRESSED]),
        Route("/v1/admin/summary", admin.summary, methods=["GET"]),
        Route("/v1/admin/targets", admin.targets, methods=["POST"]),
    ]
