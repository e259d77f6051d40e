"""Where generations are started, a path for each dialect."""

from starlette.routing import Route

from app.api.generation import Generation
from app.api.policy import HttpSettings
from app.dialects.client_formats import CLIENT_FORMATS
from app.generation.hub import Hub

OWN = ("openai_responses", "anthropic")
"""Those whose calls need more than the one endpoint; they have files of their own."""


def routes(hub: Hub, policy: HttpSettings) -> list[Route]:
    return [
        Route(front.path, Generation(hub, policy, front).post, methods=["POST"])
        for name, front in CLIENT_FORMATS.items()
        if name not in OWN
    ]
