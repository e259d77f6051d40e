"""The form of `ProviderData` for Chat Completions: members of chunks that no event has.

The object of one event has any of:

- `chunk`, `choice`, `delta`: the changes of the members at that level, `once` for those of this
  chunk alone, `kept` for those that are repeated in all chunks from here on, and `gone`, the names
  of those that are no longer sent. A member with the same value in two chunks in a row is repeated,
  and `system_fingerprint`, `service_tier` and `provider` from their first chunk to the end;
- `now`: the chunk has no other content for a frame;
- `reasoning`: the names of the delta's fields with the reasoning, from here on;
- `usage`: the provider's last `usage`, before the end.

In members of a delta, `HOLE` stands for the text of the chunk, which some hosts repeat there: so
they stay the same from token to token.
"""

from typing import Any, Final

FORMAT: Final = "openai_chat"

Members = dict[str, Any]

KNOWN_IN_CHUNK: Final = frozenset(
    ("id", "object", "created", "model", "choices", "usage", "moderation", "error")
)
KNOWN_IN_CHOICE: Final = frozenset(("index", "delta", "message", "finish_reason", "usage", "error"))
KNOWN_IN_DELTA: Final = frozenset(
    ("role", "content", "reasoning", "reasoning_content", "refusal", "tool_calls", "function_call")
) | {"images"}
"""The members that events have, by level."""

_MARK: Final = "$text"
HOLE: Final = {_MARK: True}


def cut_text(value: Any, text: str) -> Any:
    """Return a value with `HOLE` for each string that equals the text."""
    if isinstance(value, str):
        return HOLE if value == text else value
    if isinstance(value, list):
        return [cut_text(item, text) for item in value]
    if isinstance(value, dict):
        return {name: cut_text(item, text) for name, item in value.items()}
    return value


def fill_text(value: Any, text: str) -> Any:
    """Return a value with the text in each `HOLE`."""
    if isinstance(value, list):
        return [fill_text(item, text) for item in value]
    if isinstance(value, dict):
        if _MARK in value:
            return text
        return {name: fill_text(item, text) for name, item in value.items()}
    return value


def has_hole(value: Any) -> bool:
    """Return whether there is a `HOLE` in a value."""
    if isinstance(value, list):
        return any(map(has_hole, value))
    if isinstance(value, dict):
        return _MARK in value or any(map(has_hole, value.values()))
    return False


def merge(first: Members, second: Members) -> Members:
    """Return the members of both objects; those of the second replace others than objects."""
    merged = {**first}
    for name, value in second.items():
        known = merged.get(name)
        both = isinstance(known, dict) and isinstance(value, dict)
        merged[name] = merge(known, value) if both else value  # type: ignore[arg-type]  # a dict
    return merged
