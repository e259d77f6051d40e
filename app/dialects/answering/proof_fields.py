"""What a provider wants back with a piece of its answer, for clients that keep it unseen."""

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
    """Parse a proof that a client kept as text; empty if it is none of ours."""
    try:
        return _decoder.decode(text or "{}")
    except (msgspec.MsgspecError, RecursionError):
        return ProofFields()
