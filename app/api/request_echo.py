"""`GET /v1/echo`: echoes the request's headers, to debug proxies.

Only headers that identify proxies or that clients of the relay depend on are echoed: others may
be secrets that a proxy adds.
"""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import __version__
from .endpoints import document
from .http_settings import HttpSettings

ECHOED: Final = frozenset(
    (
        *("host", "via", "forwarded", "cdn-loop", "connection", "te"),
        *("x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto"),
        *("accept", "accept-encoding", "prefer", "last-event-id", "idempotency-key", "origin"),
    )
)
MAX_VALUE: Final = 512
"""The most characters of a header; longer ones are cut."""
MAX_HEADERS: Final = 40


class Echo(msgspec.Struct):
    """A request as it arrived."""

    version: str
    http_version: str
    client: str | None
    headers: list[list[str]]
    """Names with values."""
    heartbeat_s: float
    max_request_bytes: int


def routes(http_settings: HttpSettings) -> list[Route]:
    async def echo(request: Request) -> Response:
        headers = [
            [name.decode("latin-1"), value.decode("latin-1")[:MAX_VALUE]]
            for name, value in request.scope["headers"]
            if name.decode("latin-1") in ECHOED
        ]
        return document(
            Echo(
                version=__version__,
                http_version=request.scope["http_version"],
                client=request.client.host if request.client else None,
                headers=headers[:MAX_HEADERS],
                heartbeat_s=http_settings.heartbeat_s,
                max_request_bytes=http_settings.max_request_bytes,
            )
        )

    return [Route("/v1/echo", echo, methods=["GET"])]
