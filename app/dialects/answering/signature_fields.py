"""Reasoning signatures and opaque values as one object, for clients that return it unchanged."""

import msgspec

from ...requests import Opaque


class ProofFields(msgspec.Struct, frozen=True, omit_defaults=True):
    """See the events `reasoning.end` and `opaque`."""

    signature: str | None = None
    encrypted: str | None = None
    format: str | None = None
    opaque: list[Opaque] | None = None


_decoder = msgspec.json.Decoder(ProofFields)


def parse_proof(text: str | None) -> ProofFields:
    """Parse the text that a client returned; empty if it is not one of the relay's."""
    try:
        return _decoder.decode(text or "{}")
    except (msgspec.MsgspecError, RecursionError):
        return ProofFields()
