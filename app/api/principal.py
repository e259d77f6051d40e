"""Who makes a request, and which streams it reaches: the only way from a route to a stream."""

from starlette.requests import Request

from ..generation.hub import Hub, OwnedStreams
from ..identity.principal import Principal
from .authentication import PRINCIPAL


def principal_of(request: Request) -> Principal:
    """Return who makes a request.

    Raises:
        KeyError: it has not passed `Authentication`, or is for something public.
    """
    principal: Principal = request.scope[PRINCIPAL]
    return principal


def streams_of(hub: Hub, request: Request) -> OwnedStreams:
    """Return the streams of whoever makes a request."""
    return hub.streams_of(principal_of(request), request_id=request.scope.get("request_id", ""))
