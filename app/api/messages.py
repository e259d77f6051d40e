"""Anthropic's endpoint: `/v1/messages`."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.anthropic import BETA
from ..dialects.anthropic.client.format import CLIENT_FORMAT
from ..dialects.anthropic.client.request import parse_request
from .endpoints import HttpParts
from .generation import Generation


def routes(parts: HttpParts) -> list[Route]:
    async def post(request: Request) -> Response:
        """Start a generation; the betas in the header are part of the request."""
        betas = ",".join(request.headers.getlist(BETA))
        client_format = CLIENT_FORMAT._replace(parse_request=partial(parse_request, betas=betas))
        return await Generation(parts, client_format).post(request)

    return [Route("/v1/messages", post, methods=["POST"])]
