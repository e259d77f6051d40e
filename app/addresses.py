"""Addresses of clients and hosts. No I/O."""

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse_address(text: str) -> Address | None:
    """Parse an address, IPv6 with its brackets or without; None if it is none.

    An IPv4 address that is written as IPv6 is returned as IPv4.
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


def is_loopback(name: str) -> bool:
    """Return whether a name always means the machine itself (RFC 6761, 6.3)."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = parse_address(name)
    return address is not None and address.is_loopback


def name_customer(address: Address) -> str:
    """Return the name under which an address is counted.

    Of IPv6 a network of 64 bits counts as one address, since that is what one customer gets.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.is_loopback:
        return "::1"  # without a zone
    return f"{ipaddress.IPv6Address(int(address) >> 64 << 64)}/64"
