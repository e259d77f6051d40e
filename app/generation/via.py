"""Loop detection: the source of a request, and the name of this process in `Via`.

Each process has a name, which its calls carry: a request that has it has come back. Proxies may
shorten or drop `Via` (RFC 9110, 7.6.3), but leave `CDN-Loop` (RFC 8586), which exists for this:
each relay names itself in both.
"""

import re
import secrets
from collections.abc import Iterable

import msgspec

from ..errors import RequestError
from .admission import LOCAL, address_of

VIA_NAME = r"seseragi-[0-9a-f]{8}"
"""The name of a process in `Via` (RFC 9110, 7.6.3)."""

MAX_VIA = 4096
"""The most characters of `Via`."""

MAX_RELAYS = 5
"""Relays may be chained, but a loop over replicas must end before it reaches all of them."""

_PSEUDONYM = re.compile(VIA_NAME)
_HEADERS = (b"via", b"cdn-loop")


class RequestSource(msgspec.Struct, frozen=True):
    """The source of a request."""

    address: str = LOCAL
    """The address whose share it takes."""
    via: str = ""
    """Its `Via` header."""
    relays: tuple[str, ...] = ()
    """The relays in that header."""


def source_of(
    client: tuple[str, int] | None, headers: Iterable[tuple[bytes, bytes]]
) -> RequestSource:
    """Return the client address of a request, and the relays that it has passed.

    Raises:
        RequestError: `invalid_request`, too many relays have been passed.
    """
    address = address_of(client)
    found: dict[bytes, list[str]] = {}
    for name, value in headers:
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


class ViaName:
    """The name of this process in headers."""

    __slots__ = ("name",)

    def __init__(self) -> None:
        self.name = f"seseragi-{secrets.token_hex(4)}"

    def headers(self, origin: RequestSource) -> dict[str, str]:
        """Return the headers that identify a call if it comes back."""
        return {
            "via": f"{origin.via}, 1.1 {self.name}".removeprefix(", "),
            "cdn-loop": ", ".join((*origin.relays, self.name)),
        }


def came_back() -> RequestError:
    """Return the error for a request that this process has sent itself."""
    return RequestError(
        "invalid_request",
        "the request has come back to the relay that sent it: an upstream of it is the "
        "relay itself, or leads there; check the base URLs",
    )
