"""Base64 that a provider sends in pieces."""

from base64 import b64decode, b64encode
from collections.abc import Iterable


def join_base64(pieces: Iterable[str]) -> str | None:
    """Join pieces that may each have padding of their own; None if one is no base64."""
    try:
        return b64encode(b"".join(map(b64decode, pieces))).decode()
    except ValueError:
        return None
