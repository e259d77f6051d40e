"""Loop detection: the source of a request, and the name of this process in `Via`.

Each process adds its name to its calls: a request with that name is in a loop. Proxies may shorten
or drop `Via` (RFC 9110, 7.6.3), but not `CDN-Loop` (RFC 8586), which exists for this purpose: each
relay adds its name to both.
"""

import re
import secrets
from collections.abc import Mapping, Sequence

import msgspec

from ..errors import RequestError
from ..policies.admission import LOCAL, address_of

VIA_NAME = r"seseragi-[0-9a-f]{8}"
"""The name of a process in `Via` (RFC 9110, 7.6.3)."""

MAX_VIA = 4096
"""The maximum characters of `Via`."""

MAX_RELAYS = 5
"""Relays may be chained, but a loop over replicas must end before it reaches all of them."""

_PSEUDONYM = re.compile(VIA_NAME)


class RequestSource(msgspec.Struct, frozen=True):
    """The source of a request."""

    address: str = LOCAL
    """The client address, or the share of its credential, for limits."""
    via: str = ""
    """Its `Via` header."""
    relays: tuple[str, ...] = ()
    """The relays in that header."""


def source_of(
    client: tuple[str, int] | None, headers: Mapping[bytes, Sequence[bytes]], *, share: str = ""
) -> RequestSource:
    """Return the client address of a request, and the relays that forwarded it.

    `headers` has the values of each header by its name; `share` is the caller's, if there is one.

    Raises:
        RequestError: `invalid_request`, too many relays forwarded it.
    """
    address = address_of(client, share)
    vias, loops = headers.get(b"via", ()), headers.get(b"cdn-loop", ())
    if not (vias or loops):
        return RequestSource(address)
    via = b", ".join(vias).decode("latin-1")
    relays = dict.fromkeys(_PSEUDONYM.findall(b", ".join([*vias, *loops]).decode("latin-1")))
    if len(via) > MAX_VIA or len(relays) > MAX_RELAYS:
        raise RequestError(
            "invalid_request",
            f"{len(relays)} relays forwarded the request, and its header 'via' has {len(via)} "
            f"characters; the limits are {MAX_RELAYS} and {MAX_VIA}; check base URLs for a loop",
        )
    return RequestSource(address, via, tuple(relays))


class ViaName:
    """The name of this process in headers."""

    __slots__ = ("name",)

    def __init__(self) -> None:
        self.name = f"seseragi-{secrets.token_hex(4)}"

    def headers(self, origin: RequestSource) -> dict[str, str]:
        """Return the headers that identify a looping call."""
        return {
            "via": f"{origin.via}, 1.1 {self.name}".removeprefix(", "),
            "cdn-loop": ", ".join((*origin.relays, self.name)),
        }


def came_back() -> RequestError:
    """Return the error for a request that this process has sent itself."""
    return RequestError(
        "invalid_request",
        "request loop: an upstream's base URL leads back to this relay; correct it",
    )
