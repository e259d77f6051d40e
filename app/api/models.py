"""`GET /v1/models`, in OpenAI's list form."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.hub import Hub


def routes(hub: Hub) -> list[Route]:
    async def models(request: Request) -> Response:
        rows = [
            {"id": name, "object": "model", "created": 0, "owned_by": owner}
            for name, owner in await hub.models()
        ]
        return Response(
            msgspec.json.encode({"object": "list", "data": rows}),
            headers={"cache-control": "no-store"},
            media_type="application/json",
        )

    return [Route("/v1/models", models, methods=["GET"])]
