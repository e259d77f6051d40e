"""Limits on connections, in all and for one address. No I/O.

The address is the socket's, not that of a header. Trusted proxies have no limit of their own.
Loopback addresses may have half of all connections: a local process may be a proxy, but it must
not keep all others out.
"""

import ipaddress
from collections import Counter
from collections.abc import Iterable

from ..addresses import name_customer, parse_address
from ..errors import RequestError, ServiceError

LOG_INTERVAL_S = 60
"""Seconds between two log lines on refused connections."""


class ConnectionLimits:
    """A counter of connections: at most `most` in all and `each` for one address."""

    def __init__(self, most: int, *, each: int, trusted: Iterable[str]) -> None:
        self._most = most
        self._each = each
        self._trusted = [ipaddress.ip_network(network) for network in trusted]
        self._total = 0
        self._counts: Counter[str] = Counter()
        self._refused = 0
        self._logged_at: float | None = None

    def enter(self, address: str | None) -> str:
        """Count a connection; return the name to pass to `leave`.

        Raises:
            RelayError: `overloaded`, or `rate_limited` for this address.
        """
        name, limit = self._place(address)
        if self._total >= self._most:
            raise ServiceError(
                "overloaded",
                "the relay has reached its limit of connections; try again",
                retry_after_s=2,
            )
        if self._counts[name] >= limit:
            raise RequestError(
                "rate_limited",
                f"{name!r} has {limit} open connections, the limit for one address; close some",
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
        """Count a refusal; return the number to log, or 0 if a line was logged recently."""
        self._refused += 1
        if self._logged_at is not None and now < self._logged_at + LOG_INTERVAL_S:
            return 0
        self._logged_at = now
        count, self._refused = self._refused, 0
        return count

    def _place(self, address: str | None) -> tuple[str, int]:
        """Return the name and the limit that an address counts under."""
        ip = parse_address(address or "")
        if ip is None:  # a Unix socket has none
            return "", self._most
        if ip.is_loopback:
            return str(ip), max(1, self._most // 2)
        if any(ip in network for network in self._trusted):
            return str(ip), self._most
        return name_customer(ip), self._each
