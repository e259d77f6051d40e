"""Text that providers split between chunks within a unit: surrogate pairs, and base64.

JSON writes a character beyond the BMP as two `\\u` escapes, a surrogate pair. Hosts that cut
text between UTF-16 units send half an emoji in one delta and half in the next, each of them
valid JSON. No half may be in an event: UTF-8 cannot encode it.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable

_HALF = re.compile("[\ud800-\udfff]")


def well_formed(text: str) -> str:
    """Join the pairs in `text`, and replace each lone half by U+FFFD."""
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Halves:
    """Joins pairs that are split between the pieces of one text."""

    __slots__ = ("pending",)

    def __init__(self) -> None:
        self.pending = ""
        """The first half of a pair, whose second is to begin the next piece."""

    def feed(self, piece: str) -> str:
        """Return the piece, well-formed; buffer a first half at its end for the next piece."""
        if not self.pending and (piece.isascii() or not _HALF.search(piece)):
            return piece
        text, self.pending = self.pending + piece, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self.pending = text[:-1], text[-1]
        return well_formed(text)

    def close(self) -> str:
        """Return the replacement of a buffered half, or ""."""
        first, self.pending = self.pending, ""
        return "\ufffd" if first else ""


def join_base64(pieces: Iterable[str]) -> str | None:
    """Join pieces, each perhaps with padding of its own; return None if one is not base64."""
    try:
        return b64encode(b"".join(map(b64decode, pieces))).decode()
    except ValueError:
        return None
