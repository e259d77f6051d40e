"""Stored parts of Responses requests, and their items as input of later requests.

A request stores its own items and the id of the response that it continues, so that a
conversation is stored once regardless of the number of its turns. Items stay unparsed JSON.
Items without an id get one, with the same token as the output items: `msg_<token>_i<n>`, and
`_c<n>` for items of earlier turns that a request stores too.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from .output_items import item_token

REFERENCE: Final = b"item_reference"
"""Contained in every body that has item references."""

_LETTERS: Final = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fc",
    "reasoning": "rs",
}
_EMPTY: Final = msgspec.Raw(b"[]")


class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a Responses request that is stored with its stream."""

    input: msgspec.Raw
    """The request's own items, complete."""
    previous: str | None = None
    """The id of the response that it continues."""
    carried: list[msgspec.Raw] | None = None
    """The items of all earlier turns, if stored here too."""


class Head(msgspec.Struct, frozen=True):
    """The fields that determine what is stored and which response is continued."""

    input: msgspec.Raw = _EMPTY
    previous_response_id: Any = None
    store: Any = None


class Item(NamedTuple):
    id: str
    data: msgspec.Raw


class _Peek(msgspec.Struct, frozen=True):
    type: Any = None
    id: Any = None


_decode_head = msgspec.json.Decoder(Head).decode
_decode_stored = msgspec.json.Decoder(Stored).decode
_decode_peek = msgspec.json.Decoder(_Peek).decode
_decode_input = msgspec.json.Decoder(str | list[msgspec.Raw]).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def read_head(body: bytes) -> Head:
    """Decode the storage-related fields of a body.

    Raises:
        msgspec.MsgspecError: the body is not a JSON object.
    """
    return _decode_head(body)


def items_name(token: str) -> str:
    """Return the name of a stream by its item token."""
    return f"items:{token}"


def name_of_items(stream: str) -> str:
    """Return the name of a stream by its item ids."""
    return items_name(item_token(stream))


def encode_stored(stored: Stored) -> bytes:
    """Encode the stored part of a request."""
    return _encode(stored)


def decode_stored(request: bytes) -> Stored | None:
    """Decode the stored part of a request; None if it is empty."""
    return _decode_stored(request) if request else None


def list_items(data: msgspec.Raw) -> list[msgspec.Raw]:
    """Return the items of an input, which may be a string.

    Raises:
        msgspec.MsgspecError: it is neither a string nor a list.
    """
    value = _decode_input(data)
    if isinstance(value, list):
        return value
    return [encode_item({"type": "message", "role": "user", "content": value})]


def encode_item(item: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(_encode(item))


def join_items(items: Iterable[msgspec.Raw]) -> msgspec.Raw:
    """Join items to the JSON of a list."""
    return msgspec.Raw(b"[" + b",".join(map(bytes, items)) + b"]")


def replace_input(body: bytes, items: Iterable[msgspec.Raw]) -> bytes:
    """Return a body with `items` as its input and without `previous_response_id`."""
    fields = _decode_fields(body)
    fields.pop("previous_response_id", None)
    return _encode(fields | {"input": join_items(items)})


def find_reference(item: msgspec.Raw) -> str | None:
    """Return the id in an item reference; None for any other item."""
    try:
        peek = _decode_peek(item)
    except msgspec.ValidationError:  # not an object: the parser rejects it
        return None
    return str(peek.id) if peek.type == "item_reference" else None


def name_items(stream: str, items: Sequence[msgspec.Raw], *, letter: str) -> Iterator[Item]:
    """Yield the items of a request with ids; assign ids to those without."""
    token = item_token(stream)
    for number, data in enumerate(items):
        peek = _decode_peek(data)
        given = peek.id if isinstance(peek.id, str) and peek.id else None
        kind = _LETTERS.get(peek.type or "message", "item")
        yield Item(given or f"{kind}_{token}_{letter}{number}", data)


def show_item(item: Item) -> dict[str, Any]:
    """Return an item for item lists: with an id, a type, and content as parts."""
    shown = {"id": item.id, "type": "message", **msgspec.json.decode(item.data)}
    shown["id"] = item.id
    if shown["type"] == "message":
        if isinstance(text := shown.get("content"), str):
            output = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            prompt = {"type": "input_text", "text": text}
            shown["content"] = [output if shown.get("role") == "assistant" else prompt]
        shown.setdefault("status", "completed")
    elif shown["type"] in ("function_call", "function_call_output"):
        shown.setdefault("status", "completed")
    return shown
