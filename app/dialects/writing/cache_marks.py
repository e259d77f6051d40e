"""`cache_control`: breakpoints of the prefixes that the provider should cache."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ...requests import CacheControl, ChatRequest, DeveloperMessage, SystemMessage

_MARK: Final = CacheControl("ephemeral")


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


def mark_prompt(request: ChatRequest) -> ChatRequest:
    """Mark the end of the system prompt, of the tools, and of the conversation."""
    messages, tools = [*request.messages], request.tools
    for at in reversed(range(len(messages))):
        if isinstance(messages[at], SystemMessage | DeveloperMessage):
            messages[at] = msgspec.structs.replace(messages[at], cache_control=_MARK)
            break
    if tools:
        tools = [*tools[:-1], msgspec.structs.replace(tools[-1], cache_control=_MARK)]
    return msgspec.structs.replace(request, messages=messages, tools=tools, cache_control=_MARK)


def last_mark(parts: Iterable[object]) -> Any:
    """Return the last mark among parts: it covers everything before it."""
    found = None
    for part in parts:
        found = getattr(part, "cache_control", None) or found
    return found
