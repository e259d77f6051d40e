"""`GET /v1/models`: in OpenAI's form, and in Anthropic's for its clients."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.api.problems import failure
from app.api.query import read_query
from app.dialects.fronts import FRONTS
from app.errors import RequestError
from app.hub import Hub

MOST = 1000
"""The most models on one page of Anthropic's list; without `limit` all are there."""


def routes(hub: Hub) -> list[Route]:
    async def models(request: Request) -> Response:
        found = await hub.models()
        if not _speaks_anthropic(request):
            rows = [_row(name, owner) for name, owner in found]
            return _answer({"object": "list", "data": rows})
        try:
            return _answer(_page([name for name, _ in found], request))
        except RequestError as error:
            return failure(FRONTS["anthropic"], error, request)

    async def model(request: Request) -> Response:
        wanted = request.path_params["model"]
        owners = dict(await hub.models())
        anthropic = _speaks_anthropic(request)
        if wanted in owners:
            row = _anthropic_row(wanted) if anthropic else _row(wanted, owners[wanted])
            return _answer(row)
        error = RequestError(
            "model_not_found", f"unknown model {wanted[:80]!r}; GET /v1/models lists them"
        )
        front = FRONTS["anthropic" if anthropic else "openai_chat"]
        return failure(front, error, request)

    return [
        Route("/v1/models", models, methods=["GET"]),
        Route("/v1/models/{model:path}", model, methods=["GET"]),
    ]


def _speaks_anthropic(request: Request) -> bool:
    return "anthropic-version" in request.headers


def _row(name: str, owner: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": owner}


def _anthropic_row(name: str) -> dict[str, object]:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",  # what Anthropic says where it does not know
        "lifecycle": "active",
    }


def _page(names: list[str], request: Request) -> dict[str, object]:
    """Give the models after or before one of them, at most `limit`."""
    limit = read_query(request, "limit", str(MOST))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 5 and 1 <= int(limit) <= MOST):
        raise RequestError("invalid_request", f"limit: send a number from 1 to {MOST}")
    after, before = (read_query(request, f"{side}_id") for side in ("after", "before"))
    for known in filter(None, (after, before)):
        if known not in names:
            raise RequestError("invalid_request", f"unknown model {known[:80]!r}")
    start = names.index(after) + 1 if after else 0
    stop = names.index(before) if before else len(names)
    rest = names[start:stop]
    shown = rest[-int(limit) :] if before and not after else rest[: int(limit)]
    return {
        "data": [_anthropic_row(name) for name in shown],
        "has_more": len(shown) < len(rest),
        "first_id": shown[0] if shown else None,
        "last_id": shown[-1] if shown else None,
    }


def _answer(document: dict[str, object]) -> Response:
    return Response(
        msgspec.json.encode(document),
        headers={"cache-control": "no-store"},
        media_type="application/json",
    )
