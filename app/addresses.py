"""Addresses of clients and hosts. No I/O."""

import ipaddress
import re
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse_address(text: str) -> Address | None:
    """Parse an IP address, IPv6 with or without brackets; None if it is malformed.

    An IPv4-mapped IPv6 address is returned as IPv4.
    """
    try:
        if text.startswith("["):
            address: Address = ipaddress.IPv6Address(text.removeprefix("[").removesuffix("]"))
        else:
            address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def write_url(host: str, port: int) -> str:
    """Return the URL of a server, with brackets around an IPv6 address."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(name: str) -> bool:
    """Return whether a name always means the machine itself (RFC 6761, 6.3)."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = parse_address(name)
    return address is not None and address.is_loopback


def name_customer(address: Address) -> str:
    """Return the name under which an address is counted.

    An IPv6 /64 counts as one address, since one customer gets that much.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.is_loopback:
        return "::1"  # without a zone
    return f"{ipaddress.IPv6Address(int(address) >> 64 << 64)}/64"


_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::[0-9]+)?")
_DEFAULT_PORTS = {("http", 80), ("https", 443)}


def write_origin(text: str) -> str | None:
    """Normalise an origin as browsers send it; None if it is malformed.

    The result is in lower case, without default port, path and final slash (RFC 6454, 6.2), for
    comparison. `chat.example.com` means `https://chat.example.com`, `localhost` http.
    """
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        host, port = parts.hostname or "", parts.port
        scheme = "http" if "://" not in text and is_loopback(host) else parts.scheme
        host = f"[{host}]" if ":" in host else host.encode("idna").decode()
    except ValueError:  # IDNA's errors too
        return None
    shown = "" if port is None or (scheme, port) in _DEFAULT_PORTS else f":{port}"
    origin = f"{scheme}://{host}{shown}"
    return origin if _ORIGIN.fullmatch(origin) else None
