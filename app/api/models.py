"""`GET /v1/models`: in OpenAI's form, and in Anthropic's for its clients."""

import asyncio
from collections.abc import Sequence
from functools import lru_cache

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.model_facts import render_anthropic, render_openai
from ..errors import RequestError
from ..generation.hub import Hub
from ..identity.principal import check_may, may_use
from ..upstreams.routes import Listed
from .endpoints import document
from .request import principal_of

BODIES = 8
"""Rendered lists that are kept: 3.5 MB each with 10,000 models."""


def routes(hub: Hub) -> list[Route]:
    render = lru_cache(BODIES)(_render)

    async def models(request: Request) -> Response:
        principal = principal_of(request)
        check_may(principal)
        found, anthropic = await hub.models(), _speaks_anthropic(request)
        # In a thread, since the list may be large.
        return document(await asyncio.to_thread(render, found, principal.models, anthropic))

    async def model(request: Request) -> Response:
        principal = principal_of(request)
        check_may(principal)
        wanted = request.path_params["model"]
        found, name = await hub.models(), hub.upstreams.listed_name(wanted)
        one = next((one for one in found if one.name == name), None)
        if one is not None and principal.may_use(name):
            one = one._replace(name=wanted)
            anthropic = _speaks_anthropic(request)
            row = render_anthropic(wanted, one.about) if anthropic else render_openai(*one)
            return document(row)
        raise RequestError(
            "model_not_found", f"unknown model {wanted[:80]!r}; GET /v1/models lists them"
        )

    return [
        Route("/v1/models", models, methods=["GET"]),
        Route("/v1/models/{model:path}", model, methods=["GET"]),
    ]


def _render(found: Sequence[Listed], globs: tuple[str, ...] | None, anthropic: bool) -> msgspec.Raw:
    """Render the models that globs include, row by row: else collections would hold the GIL."""
    usable = [one for one in found if may_use(globs, one.name)]
    if not anthropic:
        rows = [_encode(render_openai(*one)) for one in usable]
        return _encode({"object": "list", "data": rows})
    rows = [_encode(render_anthropic(one.name, one.about)) for one in usable]
    first, last = (usable[0].name, usable[-1].name) if usable else (None, None)
    return _encode({"data": rows, "has_more": False, "first_id": first, "last_id": last})


def _encode(value: dict[str, object]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _speaks_anthropic(request: Request) -> bool:
    return "anthropic-version" in request.headers
