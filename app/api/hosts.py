"""The names that the relay answers to. No I/O.

By DNS rebinding a page of any site reaches a relay on this machine as its own origin: its
name is made to lead here after the page was loaded. What it cannot change is the name in
`Host`, so a request for a name that nobody gave the relay is refused. An address needs no
such care: a page is of an address's origin only if that address has sent the page.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..addresses import is_loopback, parse_address

MAX_HOST = 262
"""The longest name that DNS has, its dot, a colon and a port."""

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
    """Read the value of a `Host` header; None if it is malformed."""
    match = _HOST.fullmatch(value) if len(value) <= MAX_HOST else None
    if match is None:
        return None
    name = match[1].decode().lower().removesuffix(".")
    if name.startswith("[") and parse_address(name) is None:
        return None
    return Host(name, int(match[2]) if match[2] else None)


class HostNames:
    """The loopback names of this machine, the address that is bound, and what is allowed."""

    def __init__(self, bound: str, allowed: Iterable[str] = ()) -> None:
        names = {bound.lower(), *map(_normalise, allowed)}
        addresses = [address for name in names if (address := parse_address(name)) is not None]
        self._any_name = ANY in names
        self._names = frozenset(names)
        self._endings = tuple(name.removeprefix(ANY) for name in names if name.startswith("*."))
        self._addresses = frozenset(addresses)
        # A wildcard is bound to every address, and a name to one that is not known here.
        own = parse_address(bound)
        self._any_address = own.is_unspecified if own else not is_loopback(bound.lower())

    def allow(self, name: str) -> bool:
        """Return whether the relay answers to a name, as `parse_host` gives it."""
        if self._any_name or name in self._names or is_loopback(name):
            return True
        address = parse_address(name)
        if address is not None:
            return self._any_address or address in self._addresses
        return name.endswith(self._endings)


def _normalise(name: str) -> str:
    """Return an allowed name as `parse_host` gives names; browsers send Punycode."""
    name = name.lower().removesuffix(".")
    return name if name.isascii() else name.encode("idna").decode()
