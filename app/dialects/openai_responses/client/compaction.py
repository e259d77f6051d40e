"""`POST /v1/responses/compact`: a conversation as the user's messages and one compaction item.

A `compaction_trigger` at the end of the input of a response asks for the same item, so the
request is one for such a response. OpenAI adds the user's messages to the answer.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from ....errors import RequestError
from ....events import Event
from ....requests import parse_body, parse_fields
from ...client_format import ParsedRequest
from ..summary import TRIGGER
from .request import parse_request
from .result import no_summary, render_answer
from .stored import encode_item, name_items, show_item

MAX_KEPT: Final = 256_000
"""Bytes of the user's last messages: OpenAI's Codex keeps 64,000 tokens of four bytes."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_compaction(body: bytes) -> bytes:
    """Return the body without fields that are null.

    Raises:
        RequestError: `invalid_request`, it is no JSON object, or names no model.
    """
    given = parse_body(body, _fields, example='{"model": "demo", "input": [...]}')
    if "model" not in given:
        raise RequestError("invalid_request", "model: it is missing; name one")
    return msgspec.json.encode({k: v for k, v in given.items() if bytes(v) != b"null"})


def parse_compaction(body: bytes) -> tuple[ParsedRequest, list[msgspec.Raw]]:
    """Read a body that holds all items; return the request, and messages of the user's to keep.

    Raises:
        RequestError: `invalid_request`, with the place and the reason.
    """
    fields = parse_fields(body)
    given = fields.get("input") or []
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not items:
        what = "input: it is missing; send the conversation's items, or previous_response_id"
        raise RequestError("invalid_request", what)
    if isinstance(items, list):
        fields["input"] = [*items, {"type": TRIGGER}]
    own = {"stream": False, "background": False, "store": False}
    asked = parse_request(msgspec.json.encode({**fields, **own}))
    return asked, _keep_last(items)


def render_compaction(
    kept: Sequence[msgspec.Raw], stream: str, events: Iterable[Event]
) -> dict[str, Any]:
    """Return the compacted conversation, of a stream that has ended.

    Raises:
        UpstreamError: `upstream_invalid_response`, the model has written no summary.
    """
    response = render_answer(stream, events)
    if response["status"] != "completed":
        details = response["incomplete_details"] or {"reason": response["status"]}
        raise no_summary(f"its answer was cut ({details['reason']})")
    compactions = [item for item in response["output"] if item["type"] == "compaction"]
    messages = map(show_item, name_items(stream, kept, letter="i"))
    return {
        "id": response["id"],
        "object": "response.compaction",
        "created_at": response["created_at"],
        "output": [*messages, *compactions],
        "usage": response["usage"],
    }


def _keep_last(items: Iterable[dict[str, Any]]) -> list[msgspec.Raw]:
    kept: list[msgspec.Raw] = []
    left = MAX_KEPT
    for item in reversed([*items]):
        if item.get("type", "message") == "message" and item.get("role") == "user":
            data = encode_item(item)
            left -= len(data)
            if left < 0:
                break
            kept.append(data)
    return kept[::-1]
