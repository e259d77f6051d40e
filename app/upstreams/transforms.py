"""Changes of requests as data: by route, by upstream, and by target. No I/O.

A route has defaults and the begin of the system prompt, in the terms of a chat request; an upstream
or target renames, drops and sets fields of the finished body, in the provider's terms.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ..requests import ChatRequest, DeveloperMessage, SystemMessage, TextPart

DEFAULTS: Final = frozenset(
    (
        *("temperature", "top_p", "frequency_penalty", "presence_penalty", "seed", "stop"),
        *("max_tokens", "max_completion_tokens", "reasoning_effort", "reasoning_summary"),
        *("verbosity", "parallel_tool_calls", "service_tier", "prompt_cache_retention", "store"),
        *("truncation", "user", "safety_identifier", "metadata"),
    )
)
"""The fields of a chat request that a route may have a default for."""

_LIMITS: Final = ("max_tokens", "max_completion_tokens")


class Transform(msgspec.Struct, frozen=True):
    """Changes of a finished body: renames, then drops, then sets. Dots separate steps of paths."""

    rename: Mapping[str, str] = {}
    drop: tuple[str, ...] = ()
    set: Mapping[str, Any] = {}

    def apply(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a changed copy."""
        changed = dict(body)
        for old, new in self.rename.items():
            found = take(changed, old)
            if found:
                put(changed, new, found[0])
        for path in self.drop:
            take(changed, path)
        for path, value in self.set.items():
            put(changed, path, value)
        return changed


class RequestChanges(msgspec.Struct, frozen=True):
    """The changes of requests at one target of a route."""

    defaults: Mapping[str, Any] = {}
    system_prefix: str = ""
    cache_prompt: bool = False
    """Whether the provider is asked to cache the prompt, unless the client asks by itself."""
    transform: Transform | None = None

    def prepare(self, chat: ChatRequest) -> ChatRequest:
        """Return a request with the defaults and the begin of the system prompt."""
        fields = {
            name: value for name, value in self.defaults.items() if getattr(chat, name) is None
        }
        if chat.limit is not None:
            fields = {name: value for name, value in fields.items() if name not in _LIMITS}
        if self.system_prefix:
            fields["messages"] = self._with_prefix(chat)
        return msgspec.structs.replace(chat, **fields) if fields else chat

    def _with_prefix(self, chat: ChatRequest) -> list[Any]:
        """Return the messages with the prefix in the first one, since some models allow only one
        system message."""
        first = chat.messages[0]
        if not isinstance(first, SystemMessage | DeveloperMessage):
            return [SystemMessage(self.system_prefix), *chat.messages]
        content: Any
        if isinstance(first.content, str):
            content = f"{self.system_prefix}\n\n{first.content}"
        else:
            content = [TextPart(f"{self.system_prefix}\n\n"), *first.content]
        return [msgspec.structs.replace(first, content=content), *chat.messages[1:]]


NO_CHANGES: Final = RequestChanges()


def take(body: dict[str, Any], path: str) -> list[Any]:
    """Remove the value at a path; return it in a list, which is empty if there is none."""
    *above, name = path.split(".")
    holder = body
    for step in above:
        if not isinstance(holder.get(step), dict):
            return []
        holder[step] = holder = dict(holder[step])
    return [holder.pop(name)] if name in holder else []


def put(body: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a path, with the objects above it."""
    *above, name = path.split(".")
    holder = body
    for step in above:
        found = holder.get(step)
        holder[step] = holder = dict(found) if isinstance(found, dict) else {}
    holder[name] = value
