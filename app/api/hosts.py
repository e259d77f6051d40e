"""The host names that the relay answers to. No I/O.

By DNS rebinding, a page of any site reaches a relay on this machine as its own origin: its name
resolves to this machine after the page was loaded. The page cannot change the name in `Host`, so
requests for unknown names are refused. Addresses are safe: a page has the origin of an address
only if that address has sent the page.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..addresses import is_loopback, parse_address

MAX_HOST = 262
"""The longest name in DNS, its dot, a colon and a port."""

ANY = "*"

_HOST = re.compile(
    rb"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?)(?::(\d{0,5}))?", re.IGNORECASE
)
"""RFC 3986, `host [":" port]`, with the names that DNS and containers have.

No user, no escapes, no zone, no name that is not in ASCII: no browser sends these."""


class Host(NamedTuple):
    name: str
    """In lower case, without a dot at its end; of an IPv6 address with its brackets."""
    port: int | None


def parse_host(value: bytes) -> Host | None:
    """Parse a `Host` header; None if it is malformed."""
    match = _HOST.fullmatch(value) if len(value) <= MAX_HOST else None
    if match is None:
        return None
    name = match[1].decode().lower().removesuffix(".")
    if name.startswith("[") and parse_address(name) is None:
        return None
    return Host(name, int(match[2]) if match[2] else None)


class HostNames:
    """The loopback names, the bound address, and the allowed names."""

    def __init__(self, bound: str, allowed: Iterable[str] = ()) -> None:
        names = {bound.lower(), *map(_normalise, allowed)}
        addresses = [address for name in names if (address := parse_address(name)) is not None]
        self._any_name = ANY in names
        self._names = frozenset(names)
        self._endings = tuple(name.removeprefix(ANY) for name in names if name.startswith("*."))
        self._addresses = frozenset(addresses)
        # A wildcard is bound to every address, a name to an unknown one.
        own = parse_address(bound)
        self._any_address = own.is_unspecified if own else not is_loopback(bound.lower())

    def allow(self, name: str) -> bool:
        """Return whether the relay answers to a name, normalised by `parse_host`."""
        if self._any_name or name in self._names or is_loopback(name):
            return True
        address = parse_address(name)
        if address is not None:
            return self._any_address or address in self._addresses
        return name.endswith(self._endings)


def _normalise(name: str) -> str:
    """Normalise an allowed name as `parse_host` does; browsers send Punycode."""
    name = name.lower().removesuffix(".")
    return name if name.isascii() else name.encode("idna").decode()
