"""Where generations are started, a path for each dialect."""

from starlette.routing import Route

from ..dialects.client_formats import CLIENT_FORMATS
from ..generation.hub import Hub
from ..identity.tokens import Tokens
from .generation import Generation
from .policy import HttpSettings

OWN = ("openai_responses", "anthropic")
"""Those whose calls need more than the one endpoint; they have files of their own."""


def routes(hub: Hub, policy: HttpSettings, tokens: Tokens | None = None) -> list[Route]:
    return [
        Route(
            client_format.path,
            Generation(hub, policy, client_format, tokens=tokens).post,
            methods=["POST"],
        )
        for name, client_format in CLIENT_FORMATS.items()
        if name not in OWN
    ]
