"""How many connections there are, and how many of them come from one address. No I/O.

An address is that of the socket, not what a header says. Peers that stand for many, the
trusted proxies, have no limit of their own, and this machine's own addresses half of all
places: what runs here may be a proxy too, but not one that keeps everybody else out.
"""

import ipaddress
from collections import Counter
from collections.abc import Iterable

from ..addresses import name_customer, parse_address
from ..errors import RequestError, ServiceError

LOG_INTERVAL_S = 60
"""Refusals are told of this often, with their number."""


class Peers:
    """Counts connections: at most `most` in all and `each` of one address."""

    def __init__(self, most: int, *, each: int, trusted: Iterable[str]) -> None:
        self._most = most
        self._each = each
        self._trusted = [ipaddress.ip_network(network) for network in trusted]
        self._total = 0
        self._counts: Counter[str] = Counter()
        self._refused = 0
        self._logged_at: float | None = None

    def enter(self, address: str | None) -> str:
        """Take a place; give the name under which it has to be left.

        Raises:
            RelayError: there is none, `overloaded`, or none for this address, `rate_limited`.
        """
        name, limit = self._place(address)
        if self._total >= self._most:
            raise ServiceError(
                "overloaded", "the relay has as many connections as it may have", retry_after_s=2
            )
        if self._counts[name] >= limit:
            raise RequestError(
                "rate_limited",
                f"{name!r} has {limit} connections open, as many as one address may have; "
                "close some of them",
                retry_after_s=2,
            )
        self._total += 1
        self._counts[name] += 1
        return name

    def leave(self, name: str) -> None:
        self._total -= 1
        self._counts[name] -= 1
        if not self._counts[name]:
            del self._counts[name]

    def refusals(self, now: float) -> int:
        """Note one more refusal; give how many there were, or 0 if that need not be told yet."""
        self._refused += 1
        if self._logged_at is not None and now < self._logged_at + LOG_INTERVAL_S:
            return 0
        self._logged_at = now
        count, self._refused = self._refused, 0
        return count

    def _place(self, address: str | None) -> tuple[str, int]:
        """Name what counts as one address, with its limit."""
        ip = parse_address(address or "")
        if ip is None:  # of a Unix socket: whoever may open it
            return "", self._most
        if ip.is_loopback:
            return str(ip), max(1, self._most // 2)
        if any(ip in network for network in self._trusted):
            return str(ip), self._most
        return name_customer(ip), self._each
