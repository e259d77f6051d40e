"""What a provider wants back with the next turn, packed into a text that clients keep unseen.

Clients of Anthropic send thinking back as it came and do not look into its signature, those
of OpenAI's Responses keep `encrypted_content` so. The proof of any provider's reasoning
travels there, and says whose it is. Anthropic and OpenAI themselves are never sent one.
"""

import base64
import binascii
from typing import Final

import msgspec

_PREFIX: Final = "seseragi."


class PackedProof(msgspec.Struct, frozen=True, omit_defaults=True):
    """`signature` and `encrypted` of a reasoning block, or the `data` of an opaque event."""

    format: str | None = None
    signature: str | None = None
    encrypted: str | None = None
    data: str | None = None
    call: str | None = None
    """The id of the tool call that the data belongs to."""


UNPROVED: Final = PackedProof()
"""Of reasoning that nothing proves: clients send a block back as it came only if it has a
signature, and some hosts, such as DeepSeek, want their reasoning back with its calls."""


def pack(proof: PackedProof) -> str:
    """Return a proof as the text that stands for it."""
    return _PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(proof)).decode()


def is_packed(text: str) -> bool:
    return text.startswith(_PREFIX)


def unpack(text: str) -> PackedProof | None:
    """Undo `pack`; return None for any other text."""
    if not is_packed(text):
        return None
    try:
        data = base64.urlsafe_b64decode(text.removeprefix(_PREFIX))
        return msgspec.json.decode(data, type=PackedProof)
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, ValueError):
        return None
