"""Base64 that a provider sends in pieces."""

from base64 import b64decode, b64encode
from collections.abc import Iterable


def join_base64(pieces: Iterable[str]) -> str | None:
    """Join pieces, each perhaps with padding of its own; return None if one is not base64."""
    try:
        return b64encode(b"".join(map(b64decode, pieces))).decode()
    except ValueError:
        return None
