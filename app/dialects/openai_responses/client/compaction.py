"""`POST /v1/responses/compact`: a conversation as user messages and one compaction item.

The request is handled as one for a response whose input ends with a `compaction_trigger`,
which produces the same item. As at OpenAI, the result also contains the user's messages.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from ....errors import RequestError
from ....events import Event
from ....requests import parse_body, parse_fields
from ...client_format import ParsedRequest
from ..compaction_summary import TRIGGER
from .request import parse_request
from .result import no_summary, render_answer
from .stored import encode_item, name_items, show_item

MAX_RETAINED: Final = 256_000
"""Bytes of the last user messages; OpenAI's Codex retains 64,000 tokens of four bytes."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_compaction(body: bytes) -> bytes:
    """Return the body without null fields.

    Raises:
        RequestError: `invalid_request`, the body is not a JSON object or has no model.
    """
    fields = parse_body(body, _fields, example='{"model": "demo", "input": [...]}')
    if "model" not in fields:
        raise RequestError("invalid_request", "model: missing; set a model")
    return msgspec.json.encode({k: v for k, v in fields.items() if bytes(v) != b"null"})


def parse_compaction(body: bytes) -> tuple[ParsedRequest, list[msgspec.Raw]]:
    """Parse a body that contains all items; return the request and the user messages to retain.

    Raises:
        RequestError: `invalid_request`, with the path and the reason.
    """
    fields = parse_fields(body)
    value = fields.get("input") or []
    items = [{"role": "user", "content": value}] if isinstance(value, str) else value
    if not items:
        message = "input: missing; send the conversation's items or previous_response_id"
        raise RequestError("invalid_request", message)
    if isinstance(items, list):
        fields["input"] = [*items, {"type": TRIGGER}]
    overrides = {"stream": False, "background": False, "store": False}
    request = parse_request(msgspec.json.encode({**fields, **overrides}))
    return request, _last_user_messages(items)


def render_compaction(
    retained: Sequence[msgspec.Raw], stream: str, events: Iterable[Event]
) -> dict[str, Any]:
    """Return the compacted conversation for an ended stream.

    Raises:
        UpstreamError: `upstream_invalid_response`, the model wrote no summary.
    """
    response = render_answer(stream, events)
    if response["status"] != "completed":
        details = response["incomplete_details"] or {"reason": response["status"]}
        raise no_summary(f"its answer was cut ({details['reason']})")
    compactions = [item for item in response["output"] if item["type"] == "compaction"]
    messages = map(show_item, name_items(stream, retained, letter="i"))
    return {
        "id": response["id"],
        "object": "response.compaction",
        "created_at": response["created_at"],
        "output": [*messages, *compactions],
        "usage": response["usage"],
    }


def _last_user_messages(items: Iterable[dict[str, Any]]) -> list[msgspec.Raw]:
    retained: list[msgspec.Raw] = []
    remaining = MAX_RETAINED
    for item in reversed([*items]):
        if item.get("type", "message") == "message" and item.get("role") == "user":
            data = encode_item(item)
            remaining -= len(data)
            if remaining < 0:
                break
            retained.append(data)
    return retained[::-1]
