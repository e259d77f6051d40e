"""Passthrough of a client's Responses request to an upstream with the same format.

The request is forwarded unchanged, except for the relay's own additions: ids of items that
the relay assigned, which the provider does not know, and signatures of other providers'
reasoning, which it would reject.
"""

from collections.abc import Callable
from typing import Any, Final

from ....requests import ClientBody
from ...reading.json_values import mapping, mappings, string
from ...reasoning_signatures import OPENAI_ITEM, is_packed, unpack
from ...upstream_format import DroppedItems, PassthroughBody
from ...writing.conversation import parse_object
from ..compaction_summary import COMPACTIONS, INSTRUCTION, TRIGGER, read_summary
from ..item_ids import ProviderItem, restore_ids, tag_of
from .provider_tools import (
    CALLERS_ITEMS,
    is_answer,
    is_provider_tool,
    needs_client,
    select_client_tools,
    select_in_namespace,
)
from .request import ENCRYPTED_REASONING, Quirks

_UNNAMED: Final = frozenset(
    (
        "compaction",
        "custom_tool_call",
        "custom_tool_call_output",
        "function_call",
        "function_call_output",
        "message",
        "reasoning",
        "tool_search_call",
        "tool_search_output",
    )
)
"""The item types that need no id."""


def pass_on(client_body: ClientBody, *, quirks: Quirks | None = None) -> PassthroughBody:
    """Return the body as OpenAI and compatible vendors accept it."""
    quirks = quirks or Quirks()
    body = {**client_body.body}
    if isinstance(body.get("input"), list):
        converted = (_convert_item(item, quirks=quirks) for item in mappings(body["input"]))
        body["input"] = [item for item in converted if item is not None]
        if client_body.body["input"][-1].get("type") == TRIGGER:
            trigger = {"type": TRIGGER} if quirks.compaction else _user(INSTRUCTION)
            body["input"].append(trigger)
    if quirks.user_field == "safety_identifier" and "user" in body:
        user = body.pop("user")
        body.setdefault("safety_identifier", user)
    if "tools" in body:
        body["tools"] = [select_in_namespace(tool) for tool in mappings(body["tools"])]
    reasoning = mapping(body.get("reasoning"))
    if quirks.reasoning_summary and reasoning.get("effort") not in (None, "none"):
        body["reasoning"] = {"summary": quirks.reasoning_summary, **reasoning}
    include = _list_includes(body, quirks=quirks)
    body.pop("include", None)
    return PassthroughBody({**body, "include": include} if include else body)


def add_system(body: dict[str, Any], text: str) -> None:
    """Put a text before the instructions."""
    instructions = string(body.get("instructions"))
    body["instructions"] = f"{text}\n\n{instructions}" if instructions else text


def finish(body: dict[str, Any], *, model: str, quirks: Quirks | None = None) -> dict[str, Any]:
    """Return the body with model and stream, and with the default of `store`."""
    store = (quirks or Quirks()).store
    default = {} if store is None else {"store": store}
    return {**default, **body, "model": model, "stream": True}


def restore_items(
    body: dict[str, Any], *, upstream: str, refused: Callable[[dict[str, Any]], bool]
) -> DroppedItems:
    """Restore the ids of the provider's items in a body, and leave out calls of its own tools.

    Left out are those that another upstream has made, and those that are `refused`, with their
    outputs: the model continues without them.
    """
    tag = tag_of(upstream)
    items: list[dict[str, Any]] = []
    calls: set[str] = set()
    other_upstream: set[str] = set()
    not_allowed: set[str] = set()
    for given in mappings(body.get("input")):
        item, origin = restore_ids(given) or ProviderItem(given, tag)
        hosted = is_provider_tool(item) and not needs_client(item)
        call = string(item.get("call_id"))
        if origin != tag and (hosted or item.get("type") not in CALLERS_ITEMS):
            other_upstream.add(f"input.{item['type']}")
        elif (hosted and not is_answer(item) and refused(item)) or (
            is_answer(item) and call in calls
        ):
            not_allowed.add(f"input.{item['type']}")
        else:
            items.append(item)
            continue
        calls |= {call} - {""}
    if isinstance(body.get("input"), list):
        body["input"] = items
    return DroppedItems(sorted(other_upstream), sorted(not_allowed))


def _list_includes(body: dict[str, Any], *, quirks: Quirks) -> list[str]:
    requested = body.get("include")
    include = (
        [name for name in requested if isinstance(name, str)] if isinstance(requested, list) else []
    )
    wanted = quirks.encrypted_reasoning
    if wanted == "never":
        return [name for name in include if name != ENCRYPTED_REASONING]
    reasons = mapping(body.get("reasoning")).get("effort") or any(
        item.get("type") == "reasoning" for item in mappings(body.get("input"))
    )
    if ENCRYPTED_REASONING not in include and (wanted == "always" or reasons):
        include.append(ENCRYPTED_REASONING)
    return include


def _convert_item(item: dict[str, Any], *, quirks: Quirks) -> dict[str, Any] | None:
    """Return an item as the provider accepts it; None if it does not."""
    kind = item.get("type", "message")
    if kind == "reasoning":
        return _convert_reasoning(item, quirks=quirks)
    if kind == TRIGGER:
        return None  # a trigger that is not last belongs to an earlier turn
    packed = unpack(string(item.get("encrypted_content"))) if kind in COMPACTIONS else None
    if packed is not None:
        summary = read_summary(packed)
        return None if summary is None else _user(summary)
    item = select_client_tools(item)
    if kind not in _UNNAMED or restore_ids(item):
        return item
    # Without `store` the provider does not know the id. `parsed_arguments` are an addition
    # of clients.
    converted = {k: v for k, v in item.items() if k not in ("id", "parsed_arguments")}
    if item.get("role") == "assistant" and isinstance(item.get("content"), list):
        converted["content"] = [_convert_part(part) for part in mappings(item["content"])]
    return converted


def _convert_part(part: dict[str, Any]) -> dict[str, Any]:
    """Return an answer's part without the relay's additions and without citations of unknown
    files.
    """
    fields = {k: v for k, v in part.items() if k != "parsed"}
    if fields.get("annotations"):
        requested = mappings(fields["annotations"])
        fields["annotations"] = [one for one in requested if one.get("file_id") != ""]
    return fields


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _convert_reasoning(item: dict[str, Any], *, quirks: Quirks) -> dict[str, Any] | None:
    encrypted = string(item.get("encrypted_content"))
    packed = unpack(encrypted) if encrypted else None
    if packed is not None and packed.format == OPENAI_ITEM and packed.data is not None:
        # The provider's request to the client (such as for an approval), packed by the relay.
        return parse_object(packed.data)
    wanted = quirks.send_reasoning
    if wanted == "no" or is_packed(encrypted):
        return None
    if encrypted:
        converted = {k: v for k, v in item.items() if k not in ("id", "status") and v is not None}
        return {"summary": [], **converted}
    if wanted != "text":
        return None  # unsigned
    texts = mappings(item.get("content")) or mappings(item.get("summary"))
    content = [{"type": "reasoning_text", "text": string(part.get("text"))} for part in texts]
    return {"type": "reasoning", "summary": [], "content": content} if content else None
