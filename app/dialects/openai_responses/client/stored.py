"""What a stored response keeps of its request, and its items as input of later requests.

A request keeps the items that it has brought itself and the id of the response that it goes
on from, so that a conversation is kept once however many turns it has. Items are handed on
as they are, as JSON. All have ids: those that came without one are numbered, after the same
token as the items of the output: `msg_<token>_i<n>`, and `_c<n>` for the items of turns
before that a request keeps too.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from .output_items import item_token

REFERENCE: Final = b"item_reference"
"""Is in every body that refers to items."""

_ITEM_ID: Final = re.compile(r"[a-z]{1,8}_([\w-]{22})_[ic]?\d{1,7}", re.ASCII)
_LETTERS: Final = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fc",
    "reasoning": "rs",
}
_EMPTY: Final = msgspec.Raw(b"[]")


class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a stream keeps of the Responses request that it answers."""

    input: msgspec.Raw
    """What the request has brought, every item of it whole."""
    previous: str | None = None
    """The id of the response that it goes on from."""
    carried: list[msgspec.Raw] | None = None
    """The items of all turns before, where they are kept here too."""


class Head(msgspec.Struct, frozen=True):
    """The fields of a request that say what is stored, and from what it goes on."""

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
    """Read what a body says of storing.

    Raises:
        msgspec.MsgspecError: it is no JSON object.
    """
    return _decode_head(body)


def items_name(token: str) -> str:
    """Return the name under which the stream of items is found, by their token."""
    return f"items:{token}"


def name_of_items(stream: str) -> str:
    """Return the name under which a stream is found by the ids of its items."""
    return items_name(item_token(stream))


def token_of(item: str) -> str | None:
    """Return the token in the id of an item; None for an id that was not made here."""
    match = _ITEM_ID.fullmatch(item)
    return match[1] if match else None


def pack(stored: Stored) -> bytes:
    """Return what a stream keeps, as bytes."""
    return _encode(stored)


def unpack(request: bytes) -> Stored | None:
    """Return what a stream keeps; None if that is nothing."""
    return _decode_stored(request) if request else None


def read_input(data: msgspec.Raw) -> list[msgspec.Raw]:
    """Return the items of an input, which may be a text.

    Raises:
        msgspec.MsgspecError: it is neither a text nor a list.
    """
    given = _decode_input(data)
    if isinstance(given, list):
        return given
    return [encode_item({"type": "message", "role": "user", "content": given})]


def encode_item(item: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(_encode(item))


def join_items(items: Iterable[msgspec.Raw]) -> msgspec.Raw:
    """Return items as the JSON of a list."""
    return msgspec.Raw(b"[" + b",".join(map(bytes, items)) + b"]")


def replace_input(body: bytes, items: Iterable[msgspec.Raw]) -> bytes:
    """Return a body with this input, that goes on from no other response."""
    fields = _decode_fields(body)
    fields.pop("previous_response_id", None)
    return _encode(fields | {"input": join_items(items)})


def find_reference(item: msgspec.Raw) -> str | None:
    """Return the id that a reference to an item has; None for any other item."""
    try:
        peek = _decode_peek(item)
    except msgspec.ValidationError:  # it is no object, which the parser says
        return None
    return str(peek.id) if peek.type == "item_reference" else None


def name_items(stream: str, items: Sequence[msgspec.Raw], *, letter: str) -> Iterator[Item]:
    """Yield items of the request for a stream their ids, where they have none of their own."""
    token = item_token(stream)
    for number, data in enumerate(items):
        peek = _decode_peek(data)
        own = peek.id if isinstance(peek.id, str) and peek.id else None
        kind = _LETTERS.get(peek.type or "message", "item")
        yield Item(own or f"{kind}_{token}_{letter}{number}", data)


def show_item(item: Item) -> dict[str, Any]:
    """Return an item as lists of items show it: with an id, a type, and content in parts."""
    shown = {"id": item.id, "type": "message", **msgspec.json.decode(item.data)}
    shown["id"] = item.id
    if shown["type"] == "message":
        if isinstance(text := shown.get("content"), str):
            said = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            given = {"type": "input_text", "text": text}
            shown["content"] = [said if shown.get("role") == "assistant" else given]
        shown.setdefault("status", "completed")
    elif shown["type"] in ("function_call", "function_call_output"):
        shown.setdefault("status", "completed")
    return shown
