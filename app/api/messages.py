"""Anthropic's endpoint: `/v1/messages`."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.anthropic import BETA
from ..dialects.anthropic.client.format import CLIENT_FORMAT
from ..dialects.anthropic.client.request import parse_request
from ..generation.hub import Hub
from ..identity.tokens import Tokens
from .generation import Generation
from .http_settings import HttpSettings


class Messages:
    """The endpoint of Anthropic's Messages."""

    def __init__(self, hub: Hub, http_settings: HttpSettings, tokens: Tokens | None) -> None:
        self._hub = hub
        self._http_settings = http_settings
        self._tokens = tokens

    async def post(self, request: Request) -> Response:
        """Start a generation; the betas in the header are part of the request."""
        betas = ",".join(request.headers.getlist(BETA))
        client_format = CLIENT_FORMAT._replace(parse_request=partial(parse_request, betas=betas))
        generation = Generation(self._hub, self._http_settings, client_format, tokens=self._tokens)
        return await generation.post(request)


def routes(hub: Hub, http_settings: HttpSettings, tokens: Tokens | None = None) -> list[Route]:
    messages = Messages(hub, http_settings, tokens)
    return [
        Route("/v1/messages", messages.post, methods=["POST"]),
    ]
