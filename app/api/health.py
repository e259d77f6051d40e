"""`GET /healthz` and `GET /readyz`, for whatever keeps the process running."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.hub import Hub


def routes(hub: Hub) -> list[Route]:
    async def healthz(request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers={"cache-control": "no-store"})

    async def readyz(request: Request) -> Response:
        status = hub.readiness
        code = 200 if status == "ready" else 503
        return JSONResponse({"status": status}, code, headers={"cache-control": "no-store"})

    return [
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
    ]
