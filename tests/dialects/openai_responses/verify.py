"""A judge of Responses events: the types and the helper of OpenAI's client."""

import json
from collections.abc import Sequence
from typing import Any

from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from app.dialects.client_format import Frame

ADAPTER: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
LAST = ("response.completed", "response.incomplete", "response.failed")
PAIRS = {
    "response.output_item.added": "response.output_item.done",
    "response.content_part.added": "response.content_part.done",
    "response.reasoning_summary_part.added": "response.reasoning_summary_part.done",
}
UNLISTED = ("context_length_exceeded", "insufficient_quota")
"""Codes of OpenAI's streams that its schema does not list: Codex acts on them."""


def _listed(payload: dict[str, Any]) -> dict[str, Any]:
    response = payload.get("response") or {}
    if usage := response.get("usage"):
        # The SDK's newest type requires a count that older answers of OpenAI lack.
        details = {"cache_write_tokens": 0, **usage["input_tokens_details"]}
        response = {**response, "usage": {**usage, "input_tokens_details": details}}
        payload = {**payload, "response": response}
    if (response.get("error") or {}).get("code") not in UNLISTED:
        return payload
    error = {**response["error"], "code": "server_error"}
    return {**payload, "response": {**response, "error": error}}


def check(found: Sequence[Frame]) -> dict[str, Any]:
    """Assert what holds of every stream; return the last response object."""
    said = [json.loads(frame.data) for frame in found]
    assert [*range(len(said))] == [payload["sequence_number"] for payload in said]
    kinds = [payload["type"] for payload in said]
    assert kinds == [frame.event for frame in found]
    assert kinds[0] == "response.created"
    assert [kind for kind in kinds if kind in LAST] == [kinds[-1]]
    state: Any = ResponseStreamState(input_tools=omit, text_format=omit)
    open_parts: set[Any] = set()
    texts: dict[Any, str] = {}
    items: list[Any] = []
    for payload in said:
        state.handle_event(ADAPTER.validate_python(_listed(payload), strict=True))
        kind = payload["type"]
        place = tuple(payload.get(n) for n in ("output_index", "content_index", "summary_index"))
        if kind in PAIRS:
            assert (PAIRS[kind], place) not in open_parts
            open_parts.add((PAIRS[kind], place))
            if kind == "response.output_item.added":
                assert payload["output_index"] == len(items)
                items.append(payload["item"])
        elif kind in PAIRS.values():
            open_parts.remove((kind, place))
            if kind == "response.output_item.done":
                items[payload["output_index"]] = payload["item"]
        elif kind.endswith(".delta"):
            assert payload["delta"]
            assert payload["item_id"] == items[payload["output_index"]]["id"]
            key = (kind.removesuffix(".delta"), *place)
            texts[key] = texts.get(key, "") + payload["delta"]
        elif kind.endswith(".done"):
            key = (kind.removesuffix(".done"), *place)
            whole = [
                payload[n]
                for n in ("text", "refusal", "arguments", "input", "code")
                if n in payload
            ]
            assert [texts.pop(key, "")] == whole
    response: dict[str, Any] = said[-1]["response"]
    listed = _listed(said[-1])["response"]
    Response.model_validate({**listed, "created_at": float(listed["created_at"])}, strict=True)
    if kinds[-1] != "response.failed":
        assert not open_parts
        assert items == response["output"]
    assert response["status"] in ("completed", "incomplete", "cancelled", "failed")
    raising = response["status"] in ("cancelled", "failed")
    assert [len(kinds) - 2] * raising == [n for n, kind in enumerate(kinds) if kind == "error"]
    return response
