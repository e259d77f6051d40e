"""`POST /v1/embeddings`, in OpenAI's form for every provider."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.embeddings import estimate, parse_request, render_answer
from ..generation.admission import RequestMemory
from ..generation.hub import Hub
from ..generation.metered_call import CallContext
from ..generation.single_call import embed
from .body import document
from .http_settings import HttpSettings
from .single_call import ESTIMATED, IGNORED, SingleCall, Work


def routes(hub: Hub, http_settings: HttpSettings) -> list[Route]:
    call = SingleCall(hub, http_settings, kind="embeddings")

    async def embeddings(request: Request) -> Response:
        return await call.answer(request, _embed)

    return [Route("/v1/embeddings", embeddings, methods=["POST"])]


def _embed(body: bytes) -> Work:
    """Parse a request for embeddings."""
    request = parse_request(body)

    async def work(context: CallContext, memory: RequestMemory) -> Response:
        found = await embed(context, request, memory.add)
        tokens, headers = found.tokens, {}
        if tokens is None:
            tokens = estimate(request.inputs)
            headers[ESTIMATED] = "true"
        if found.ignored:
            headers[IGNORED] = ", ".join(found.ignored).encode("ascii", "replace").decode()
        answer = render_answer(found.vectors, model=found.model, tokens=tokens)
        return document(answer, headers=headers)

    return work
