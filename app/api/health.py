"""`GET /healthz` and `GET /readyz`, the probes."""

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import RequestError
from ..generation.hub import Hub
from ..identity.principal import Principal, check_may
from ..upstreams.routes import Health
from .endpoints import document
from .request import principal_of, read_query


class ProcessStatus(msgspec.Struct, omit_defaults=True):
    """The state of the process, and of its targets if they were asked for."""

    status: str
    targets: list[Health] | None = None


def routes(hub: Hub) -> list[Route]:
    async def healthz(request: Request) -> Response:
        return document(ProcessStatus("ok"))

    async def readyz(request: Request) -> Response:
        status = ProcessStatus(hub.readiness)
        if read_query(request, "verbose") is not None:
            _check_all_models(principal_of(request))
            status.targets = hub.upstreams.health(now=asyncio.get_running_loop().time())
        return document(status, status_code=200 if status.status == "ready" else 503)

    return [
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
    ]


def _check_all_models(principal: Principal) -> None:
    check_may(principal)
    if principal.models is not None:
        raise RequestError(
            "forbidden",
            "verbose: the health of targets needs a credential that may use every model",
        )
