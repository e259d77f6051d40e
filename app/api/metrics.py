"""`GET /metrics`, for Prometheus."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import RequestError
from ..identity.principal import ANYONE
from ..telemetry.metrics import Metrics
from .principal import principal_of

READERS = frozenset(("metrics", "admin"))
"""The roles that may."""


def routes(metrics: Metrics) -> list[Route]:
    async def get(request: Request) -> Response:
        principal = principal_of(request)
        if principal is not ANYONE and not principal.roles & READERS:
            raise RequestError(
                "forbidden", "the metrics are for keys with the role 'metrics' or 'admin'"
            )
        body, media_type = await metrics.render(request.headers.get("accept", ""))
        headers = {"cache-control": "no-store", "content-type": media_type}
        return Response(body, headers=headers)

    return [Route("/metrics", get, methods=["GET"])]
