"""Loop detection: the source of a request, and the name of this process in `Via`.

Each process has a name, which its calls carry: a request that has it has come back.
"""

import secrets

import msgspec

from ..errors import RequestError
from .admission import LOCAL

VIA_NAME = r"seseragi-[0-9a-f]{8}"
"""The name of a process in `Via` (RFC 9110, 7.6.3)."""


class RequestSource(msgspec.Struct, frozen=True):
    """The source of a request."""

    address: str = LOCAL
    """The address whose share it takes."""
    via: str = ""
    """Its `Via` header."""
    relays: tuple[str, ...] = ()
    """The relays in that header."""


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
