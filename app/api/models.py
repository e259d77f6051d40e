"""`GET /v1/models`: in OpenAI's form, and in Anthropic's for its clients."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.model_facts import render_anthropic, render_openai
from ..errors import RequestError
from ..generation.hub import Hub
from ..identity.principal import check_may
from ..upstreams.routes import Listed
from .endpoints import document
from .request import principal_of


def routes(hub: Hub) -> list[Route]:
    async def list_usable(request: Request) -> list[Listed]:
        principal = principal_of(request)
        check_may(principal)
        return [model for model in await hub.models() if principal.may_use(model.name)]

    async def models(request: Request) -> Response:
        found = await list_usable(request)
        if not _speaks_anthropic(request):
            rows = [render_openai(*one) for one in found]
            return document({"object": "list", "data": rows})
        return document(
            {
                "data": [render_anthropic(one.name, one.about) for one in found],
                "has_more": False,
                "first_id": found[0].name if found else None,
                "last_id": found[-1].name if found else None,
            }
        )

    async def model(request: Request) -> Response:
        wanted = request.path_params["model"]
        listed, name = await list_usable(request), hub.upstreams.listed_name(wanted)
        found = next((one._replace(name=wanted) for one in listed if one.name == name), None)
        if found is not None:
            anthropic = _speaks_anthropic(request)
            row = render_anthropic(wanted, found.about) if anthropic else render_openai(*found)
            return document(row)
        raise RequestError(
            "model_not_found", f"unknown model {wanted[:80]!r}; GET /v1/models lists them"
        )

    return [
        Route("/v1/models", models, methods=["GET"]),
        Route("/v1/models/{model:path}", model, methods=["GET"]),
    ]


def _speaks_anthropic(request: Request) -> bool:
    return "anthropic-version" in request.headers
