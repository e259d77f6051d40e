"""Who makes a request, and which streams it reaches: the only way from a route to a stream."""

from starlette.requests import Request

from ..generation.hub import Hub
from ..generation.owned_streams import OwnedStreams
from ..identity.principal import ANYONE, Principal
from .authentication import PRINCIPAL, is_local


def principal_of(request: Request) -> Principal:
    """Return who makes a request.

    Raises:
        KeyError: it has not passed `Authentication`, or is for something public.
    """
    principal: Principal = request.scope[PRINCIPAL]
    return principal


def is_admin(request: Request) -> bool:
    """Return whether who asks may see and do what only an operator may.

    That is who shows a key with the role `admin`; where nobody has to say who he is, whoever is
    on this machine, and has not come by a proxy that says for whom it asks.
    """
    principal = principal_of(request)
    if principal is ANYONE:
        return is_local(request.scope)
    return "admin" in principal.roles


def streams_of(hub: Hub, request: Request) -> OwnedStreams:
    """Return the streams of whoever makes a request."""
    return hub.streams_of(principal_of(request), request_id=request.scope.get("request_id", ""))
