"""The relays that a request has passed, which its headers say: one that comes back goes round.

`Via` (RFC 9110, 7.6.3) is what proxies may shorten or drop; `CDN-Loop` (RFC 8586) is there
for this alone, and they leave it. Each relay names itself in both.
"""

import re

from starlette.requests import Request

from ..errors import RequestError
from ..generation.admission import address_of
from ..generation.via import VIA_NAME, RequestSource

MAX_VIA = 4096
"""More than that is there to hide something in."""

MAX_RELAYS = 5
"""Relays may stand behind each other, but a ring of replicas must not go on to the last one."""

_PSEUDONYM = re.compile(VIA_NAME)
_HEADERS = (b"via", b"cdn-loop")


def origin_of(request: Request) -> RequestSource:
    """Return where a request has come from: its address, and the relays in both headers.

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
