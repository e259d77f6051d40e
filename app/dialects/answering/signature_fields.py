"""Reasoning signatures and opaque values as one object, for clients that return it unchanged."""

import msgspec

from ...requests import Opaque


class SignatureFields(msgspec.Struct, frozen=True, omit_defaults=True):
    """See the events `reasoning.end` and `opaque`."""

    signature: str | None = None
    encrypted: str | None = None
    format: str | None = None
    opaque: list[Opaque] | None = None


_decoder = msgspec.json.Decoder(SignatureFields)


def parse_proof(text: str | None) -> SignatureFields:
    """Parse the text that a client returned; empty if it is not one of the relay's."""
    try:
        return _decoder.decode(text or "{}")
    except (msgspec.MsgspecError, RecursionError):
        return SignatureFields()
