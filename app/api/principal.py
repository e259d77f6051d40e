"""Who makes a request, and which streams it reaches: the only way from a route to a stream."""

from starlette.requests import Request

from ..errors import RequestError
from ..generation.hub import Hub
from ..generation.owned_streams import OwnedStreams
from ..identity.principal import ANYONE, Principal
from .authentication import PRINCIPAL


def principal_of(request: Request) -> Principal:
    """Return who makes a request.

    Raises:
        KeyError: it has not passed `Authentication`, or is for something public.
    """
    principal: Principal = request.scope[PRINCIPAL]
    return principal


def check_admin(request: Request, what: str) -> None:
    """Refuse a request that is not an operator's.

    Raises:
        RequestError: `unauthenticated` or `forbidden`; `what` is the beginning of its message.
    """
    principal = principal_of(request)
    if "admin" in principal.roles:
        return
    if principal is ANYONE:
        raise RequestError(
            "unauthenticated",
            f"{what} an operator's key: the one that the start of the relay printed, or a [[key]] "
            "with the role 'admin'",
        )
    raise RequestError("forbidden", f"{what} a key with the role 'admin'")


def streams_of(hub: Hub, request: Request) -> OwnedStreams:
    """Return the streams of whoever makes a request."""
    return hub.streams_of(principal_of(request), request_id=request.scope.get("request_id", ""))
