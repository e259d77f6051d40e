"""`POST /v1/embeddings`, in OpenAI's form for every provider."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.embeddings_calls import estimate, parse_request, render_answer
from ..generation.calls import CallContext
from ..generation.single_call import embed
from ..policies.admission import RequestMemory
from ..upstreams.client_headers import ignored_header
from .endpoints import HttpParts, document
from .single_call import ESTIMATED, SingleCall, Work


def routes(parts: HttpParts) -> list[Route]:
    call = SingleCall(parts, kind="embeddings")

    async def embeddings(request: Request) -> Response:
        return await call.answer(request, _embed)

    return [Route("/v1/embeddings", embeddings, methods=["POST"])]


def _embed(body: bytes, memory: RequestMemory) -> Work[Response]:
    """Parse a request for embeddings."""
    request = parse_request(body)

    async def work(context: CallContext) -> Response:
        found = await embed(context, request, memory.add)
        tokens, headers = found.tokens, ignored_header(found.ignored)
        if tokens is None:
            tokens = estimate(request.inputs)
            headers[ESTIMATED] = "true"
        answer = render_answer(found.vectors, model=found.model, tokens=tokens)
        return document(answer, headers=headers)

    return work
