"""Validation of identity providers' URLs: https, or http on this machine."""

from urllib.parse import SplitResult, urlsplit

import httpx2

from .. import addresses


def why_unusable(url: str) -> str | None:
    """Return why a URL cannot be fetched, for its owner; None if it can."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
        host.encode("idna")
        httpx2.URL(url)
    except (ValueError, httpx2.InvalidURL):
        return "not a URL"
    if parts.scheme not in ("http", "https") or not host or port == 0:
        return "must start with https:// and have a host"
    if parts.username or parts.password:
        return "must not contain a user name or password"
    if parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        return "must not contain a fragment, spaces or special characters"
    if parts.scheme == "http" and not _is_loopback(parts):
        return "use https: over http the keys could be replaced in transit"
    return None


def is_loopback(url: str) -> bool:
    """Return whether a URL refers to this machine."""
    return _is_loopback(urlsplit(url))


def _is_loopback(parts: SplitResult) -> bool:
    return addresses.is_loopback((parts.hostname or "").rstrip("."))
