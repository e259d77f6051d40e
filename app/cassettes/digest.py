"""What makes two requests the same: a digest of the model, the conversation and the parameters.

Who asks, and how the answer is delivered, is no part of it. Ids of messages and of tool calls
count by their order alone: a client may make new ones each time. No I/O.
"""

import hashlib
from collections.abc import Collection
from typing import Any, Final

import msgspec

from ..requests import ChatRequest, TranslatedRequest

APART: Final = frozenset(
    (
        *("stream", "stream_options", "on_disconnect", "background", "store"),
        *("user", "safety_identifier", "metadata", "prompt_cache_key", "prompt_cache_retention"),
        *("client_body", "left_out", "ceiling", "model"),
    )
)
"""Fields that are no part of what was asked."""

_ITEMS: Final = frozenset(
    (
        *("message", "agent_message", "reasoning", "compaction", "item_reference"),
        *("mcp_list_tools", "mcp_approval_request", "mcp_approval_response"),
        *("function", "custom", "tool_use", "server_tool_use", "mcp_tool_use"),
    )
)
"""The types of what has an `id` that is new each time, beside `..._call` and `..._call_output`.

An `id` of anything else is what is asked about: one of a file, of a schema, of a tool's input.
"""

_REFERENCES: Final = frozenset(
    ("call_id", "tool_call_id", "tool_use_id", "item_id", "approval_request_id")
)


def digest_of(model: str, chat: ChatRequest, *, formats: Collection[str] = ()) -> str:
    """Return the digest of a request to a model, by the one public name of that.

    `formats` are the dialects in which its upstreams take a client's body as it is; what one in
    any other says counts as far as it was translated.
    """
    said: dict[str, Any] = {"model": model, "chat": _said(msgspec.to_builtins(chat))}
    own = chat.client_body if isinstance(chat, TranslatedRequest) else None
    if own is not None and own.client_format in formats:
        said["format"] = own.client_format
        said["body"] = _said(own.body)
        said["headers"] = own.headers
    numbered = _number(said, {})
    return hashlib.sha256(msgspec.json.encode(numbered, order="sorted")).hexdigest()


def request_of(model: str, chat: ChatRequest) -> dict[str, Any]:
    """Return what was asked, for a person to read."""
    return {"model": model, **_said(msgspec.to_builtins(chat))}


def _said(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in APART}


def _number(value: Any, known: dict[str, int]) -> Any:
    """Put numbers in the place of ids, by the order in which they come."""
    if isinstance(value, list):
        return [_number(item, known) for item in value]
    if not isinstance(value, dict):
        return value
    has_id = _is_item(value)
    return {
        name: known.setdefault(item, len(known))
        if isinstance(item, str) and (name in _REFERENCES or (name == "id" and has_id))
        else _number(item, known)
        for name, item in value.items()
    }


def _is_item(value: dict[str, Any]) -> bool:
    # Chat Completions: a call has its `function`, a message its `role`.
    kind = value.get("type", "" if value.keys().isdisjoint(("function", "role")) else "message")
    return isinstance(kind, str) and (kind in _ITEMS or kind.endswith(("_call", "_call_output")))
