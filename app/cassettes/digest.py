"""Request digests: two requests with the same model, conversation and parameters are equal.

The caller and the form of delivery are ignored. Ids of messages and tool calls count by order
only, since clients may generate new ones. No I/O.
"""

import hashlib
from collections.abc import Collection
from typing import Any, Final

import msgspec

from ..requests import ChatRequest

EXCLUDED: Final = frozenset(
    (
        "background",
        "ceiling",
        "chat",
        "client_body",
        "left_out",
        "members",
        "metadata",
        "model",
        "on_disconnect",
        "overlap",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "store",
        "stream",
        "stream_options",
        "user",
    )
)
"""Fields that are not part of the digest."""

_ITEMS: Final = frozenset(
    (
        "agent_message",
        "compaction",
        "custom",
        "function",
        "item_reference",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_list_tools",
        "mcp_tool_use",
        "message",
        "reasoning",
        "server_tool_use",
        "tool_use",
    )
)
"""The types of objects with generated ids, beside `..._call` and `..._call_output`.

Any other `id` is content: of a file, of a schema, of a tool's input.
"""

_REFERENCES: Final = frozenset(
    ("call_id", "tool_call_id", "tool_use_id", "item_id", "approval_request_id")
)


def digest_of(model: str, chat: ChatRequest, *, formats: Collection[str] = ()) -> str:
    """Return the digest of a request to a model, by its public name.

    `formats` are the dialects whose client body its upstreams receive unchanged; of others only
    the translated parts count.
    """
    content: dict[str, Any] = {"model": model, "chat": _select(msgspec.to_builtins(chat))}
    client_body = chat.client_body
    if client_body is not None and client_body.client_format in formats:
        content["format"] = client_body.client_format
        content["body"] = _select(client_body.body)
        content["headers"] = client_body.headers
    numbered = _number(content, {})
    return hashlib.sha256(msgspec.json.encode(numbered, order="sorted")).hexdigest()


def request_of(model: str, chat: ChatRequest) -> dict[str, Any]:
    """Return the request in readable form."""
    return {"model": model, **_select(msgspec.to_builtins(chat))}


def _select(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in EXCLUDED}


def _number(value: Any, known: dict[str, int]) -> Any:
    """Replace ids by numbers, in order of occurrence."""
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
    # Chat Completions: a call has `function`, a message has `role`.
    kind = value.get("type", "" if value.keys().isdisjoint(("function", "role")) else "message")
    return isinstance(kind, str) and (kind in _ITEMS or kind.endswith(("_call", "_call_output")))
