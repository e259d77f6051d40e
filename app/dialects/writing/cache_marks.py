"""`cache_control`: breakpoints of the prefixes that the provider should cache."""

from collections.abc import Iterable
from typing import Any

from ...requests import CacheControl, ChatRequest


def parse_mark(value: Any) -> CacheControl | None:
    """Parse a client's `cache_control`; None if it is not one."""
    match value:
        case {"type": str(kind), "ttl": str(ttl)}:
            return CacheControl(kind, ttl)
        case {"type": str(kind)}:
            return CacheControl(kind)
        case _:
            return None


def is_marked(request: ChatRequest) -> bool:
    """Return whether anything in a request has a mark."""
    if request.cache_control is not None:
        return True
    for message in request.messages:
        if message.cache_control is not None:
            return True
        if isinstance(message.content, list) and last_mark(message.content) is not None:
            return True
    return any(tool.cache_control is not None for tool in request.tools or ())


def last_mark(parts: Iterable[object]) -> Any:
    """Return the last mark among parts: it covers everything before it."""
    found = None
    for part in parts:
        found = getattr(part, "cache_control", None) or found
    return found
