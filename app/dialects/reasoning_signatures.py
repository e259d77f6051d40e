"""Reasoning signatures and opaque values: formats, and encodings in clients' messages.

A provider requires such a value back, unchanged, with the next turn: Anthropic's `signature`,
Gemini's `thoughtSignature`, OpenAI's `encrypted_content`. Its `format` names its owner and kind.

Clients of Anthropic return the signature of a thinking block unchanged, those of OpenAI's
Responses `encrypted_content`. There the relay puts a packed signature of any provider, with the
name of its format; Anthropic and OpenAI themselves never receive one. Clients of AI SDK and AG-UI
return a `SignatureFields` object.
"""

import base64
import binascii
from typing import Final

import msgspec

from ..requests import Opaque

CLAUDE_THINKING: Final = "anthropic"
"""The signature of a thinking block."""
CLAUDE_REDACTED: Final = "anthropic.redacted_thinking"
"""A thinking block whose text the provider hides."""
CLAUDE_COMPACTION: Final = "anthropic.compaction"
"""A block, as JSON, that replaces the conversation before it."""

GOOGLE_SIGNATURE: Final = "google.thought_signature"
"""The `thought_signature` of a call in Gemini's Chat Completions route."""

OPENAI_ENCRYPTED: Final = "openai"
"""Encrypted reasoning at the end of its block."""
OPENAI_REASONING: Final = "openai.reasoning"
"""A reasoning item without any text."""
OPENAI_COMPACTION: Final = "openai.compaction"
"""An item that replaces the conversation before it."""
SUMMARY: Final = "seseragi.summary"
"""The relay's own: a summary of the conversation before it, by any model."""
OPENAI_PHASE: Final = "openai.phase"
"""The phase of the message before it, such as commentary."""
OPENAI_CUSTOM_CALL: Final = "openai.custom_tool_call"
"""A call whose arguments are free text."""
OPENAI_NAMESPACE: Final = "openai.namespace"
"""The namespace of the function of a call."""
OPENAI_ITEM: Final = "openai.item"
"""A complete item, as JSON: a call of a tool that the client executes, or its result."""

_PREFIX: Final = "seseragi."


class PackedSignature(msgspec.Struct, frozen=True, omit_defaults=True):
    """`signature` and `encrypted` of a reasoning block, or the `data` of an opaque event."""

    format: str | None = None
    signature: str | None = None
    encrypted: str | None = None
    data: str | None = None
    call: str | None = None
    """The id of the tool call of the data."""


UNSIGNED: Final = PackedSignature()
"""For reasoning without a signature: clients return a block unchanged only if it has one, and
some hosts, such as DeepSeek, require their reasoning back with its calls."""


def pack(signature: PackedSignature) -> str:
    """Encode a signature as text, for `unpack`."""
    return _PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(signature)).decode()


def is_packed(text: str) -> bool:
    return text.startswith(_PREFIX)


def unpack(text: str) -> PackedSignature | None:
    """Decode the result of `pack`; return None for any other text."""
    if not is_packed(text):
        return None
    try:
        data = base64.urlsafe_b64decode(text.removeprefix(_PREFIX))
        return msgspec.json.decode(data, type=PackedSignature)
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, ValueError):
        return None


class SignatureFields(msgspec.Struct, frozen=True, omit_defaults=True):
    """See the events `reasoning.end` and `opaque`."""

    signature: str | None = None
    encrypted: str | None = None
    format: str | None = None
    opaque: list[Opaque] | None = None


_decoder = msgspec.json.Decoder(SignatureFields)


def parse_signature_fields(text: str | None) -> SignatureFields:
    """Parse the text that a client returned; empty if it is not one of the relay's."""
    try:
        return _decoder.decode(text or "{}")
    except (msgspec.MsgspecError, RecursionError):
        return SignatureFields()
