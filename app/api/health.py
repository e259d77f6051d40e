"""`GET /healthz` and `GET /readyz`, the probes."""

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..errors import RequestError
from ..generation.hub import Hub
from ..identity.principal import Principal, check_may
from .request import principal_of, read_query


def routes(hub: Hub) -> list[Route]:
    async def healthz(request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers={"cache-control": "no-store"})

    async def readyz(request: Request) -> Response:
        status = hub.readiness
        code = 200 if status == "ready" else 503
        body: dict[str, Any] = {"status": status}
        if read_query(request, "verbose") is not None:
            _check_all_models(principal_of(request))
            found = hub.upstreams.health(now=asyncio.get_running_loop().time())
            body["targets"] = msgspec.to_builtins(found)
        return JSONResponse(body, code, headers={"cache-control": "no-store"})

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
