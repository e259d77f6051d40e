"""`GET /healthz` and `GET /readyz`, for whatever keeps the process running."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..generation.hub import Hub
from .request import principal_of, read_query


def routes(hub: Hub) -> list[Route]:
    async def healthz(request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers={"cache-control": "no-store"})

    async def readyz(request: Request) -> Response:
        status = hub.readiness
        code = 200 if status == "ready" else 503
        body: dict[str, Any] = {"status": status}
        if read_query(request, "verbose") is not None:
            body["targets"] = msgspec.to_builtins(hub.health(principal_of(request)))
        return JSONResponse(body, code, headers={"cache-control": "no-store"})

    return [
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
    ]
