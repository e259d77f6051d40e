"""Loop detection: the relays that a request has passed, in its headers.

Proxies may shorten or drop `Via` (RFC 9110, 7.6.3), but leave `CDN-Loop` (RFC 8586), which exists
for this. Each relay names itself in both.
"""

import re

from starlette.requests import Request

from ..errors import RequestError
from ..generation.admission import address_of
from ..generation.via import VIA_NAME, RequestSource

MAX_VIA = 4096
"""The most characters of `Via`."""

MAX_RELAYS = 5
"""Relays may be chained, but a loop over replicas must end before it reaches all of them."""

_PSEUDONYM = re.compile(VIA_NAME)
_HEADERS = (b"via", b"cdn-loop")


def origin_of(request: Request) -> RequestSource:
    """Return the client address of a request, and the relays in both headers.

    Raises:
        RequestError: `invalid_request`, too many relays have been passed.
    """
    address = address_of(request.scope.get("client"))
    found: dict[bytes, list[str]] = {}
    for name, value in request.scope["headers"]:
        if name in _HEADERS:
            found.setdefault(name, []).append(value.decode("latin-1"))
    if not found:
        return RequestSource(address)
    via = ", ".join(found.get(b"via", ()))
    relays = dict.fromkeys(_PSEUDONYM.findall(", ".join([via, *found.get(b"cdn-loop", ())])))
    if len(via) > MAX_VIA or len(relays) > MAX_RELAYS:
        raise RequestError(
            "invalid_request",
            f"the request has passed {len(relays)} relays, and its header 'via' has {len(via)} "
            f"characters; at most {MAX_RELAYS} and {MAX_VIA} are taken: do base URLs go in a ring?",
        )
    return RequestSource(address, via, tuple(relays))
