"""Where generations are started, a path for each dialect."""

from starlette.routing import Route

from app.api.generation import Generation
from app.api.policy import Policy
from app.dialects.fronts import FRONTS
from app.hub import Hub

PATHS = {
    "native": "/v1/chat",
    "openai_chat": "/v1/chat/completions",
    "ui": "/v1/ui/chat",
    "ag_ui": "/v1/ag-ui",
}


def routes(hub: Hub, policy: Policy) -> list[Route]:
    return [
        Route(path, Generation(hub, policy, FRONTS[name]).post, methods=["POST"])
        for name, path in PATHS.items()
    ]
