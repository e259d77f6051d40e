"""Reasoning signatures of any provider, packed into the opaque field of a client's format.

Clients of Anthropic return the signature of a thinking block unchanged, those of OpenAI's
Responses `encrypted_content`. A packed signature travels there, with the name of its format.
Anthropic and OpenAI themselves never receive one.
"""

import base64
import binascii
from typing import Final

import msgspec

_PREFIX: Final = "seseragi."


class PackedSignature(msgspec.Struct, frozen=True, omit_defaults=True):
    """`signature` and `encrypted` of a reasoning block, or the `data` of an opaque event."""

    format: str | None = None
    signature: str | None = None
    encrypted: str | None = None
    data: str | None = None
    call: str | None = None
    """The id of the tool call of the data."""


UNPROVED: Final = PackedSignature()
"""For reasoning without a signature: clients return a block unchanged only if it has one, and
some hosts, such as DeepSeek, require their reasoning back with its calls."""


def pack(proof: PackedSignature) -> str:
    """Pack into a text; `unpack` reads it."""
    return _PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(proof)).decode()


def is_packed(text: str) -> bool:
    return text.startswith(_PREFIX)


def unpack(text: str) -> PackedSignature | None:
    """Undo `pack`; return None for any other text."""
    if not is_packed(text):
        return None
    try:
        data = base64.urlsafe_b64decode(text.removeprefix(_PREFIX))
        return msgspec.json.decode(data, type=PackedSignature)
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, ValueError):
        return None
