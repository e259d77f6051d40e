"""`GET /v1/models`: in OpenAI's form, and in Anthropic's for its clients."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.model_facts import ModelFacts, render_anthropic, render_openai
from ..errors import RequestError
from ..generation.hub import Hub
from ..identity.principal import check_may
from ..upstreams.routes import Listed
from .body import document
from .request import principal_of, read_query

MOST = 1000
"""The most models on a page of Anthropic's list; also the default of `limit`."""


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
        return document(_page({one.name: one.about for one in found}, request))

    async def model(request: Request) -> Response:
        wanted = request.path_params["model"]
        listed = await list_usable(request)
        found = next((one for one in listed if one.name == wanted), None)
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


def _page(models: Mapping[str, ModelFacts], request: Request) -> dict[str, object]:
    """Return at most `limit` models, after or before one of them."""
    limit = read_query(request, "limit", str(MOST))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 5 and 1 <= int(limit) <= MOST):
        raise RequestError("invalid_request", f"limit: send a number from 1 to {MOST}")
    after, before = (read_query(request, f"{side}_id") for side in ("after", "before"))
    names = list(models)
    for known in filter(None, (after, before)):
        if known not in names:
            raise RequestError("invalid_request", f"unknown model {known[:80]!r}")
    start = names.index(after) + 1 if after else 0
    stop = names.index(before) if before else len(names)
    rest = names[start:stop]
    shown = rest[-int(limit) :] if before and not after else rest[: int(limit)]
    return {
        "data": [render_anthropic(name, models[name]) for name in shown],
        "has_more": len(shown) < len(rest),
        "first_id": shown[0] if shown else None,
        "last_id": shown[-1] if shown else None,
    }
