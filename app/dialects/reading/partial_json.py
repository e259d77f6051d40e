"""Incremental check for completeness of JSON text that arrives in pieces, in linear time."""

from typing import Final

from ...bounds import CHUNK_SIZE
from .json_values import is_json

_SPACE: Final = " \t\r\n"
_NO_MARKS: Final = bytes(set(range(256)) - set(b'[]{}"'))
_MAX_BARE: Final = 5000
"""Characters of a number, which may continue even if it is complete."""


class Growing:
    """Checks whether a growing list of pieces is complete JSON.

    Brackets are counted over the pieces, and only text whose brackets balance is decoded.
    An object or a list balances once: more text than white space breaks it.
    """

    __slots__ = ("_bracketed", "_depth", "_escape", "_quoted", "_seen", "_settled", "_whole")

    def __init__(self) -> None:
        self._seen = 0
        self._depth = 0
        self._quoted = 0
        """1 within a string, else 0."""
        self._escape = b""
        """The backslash in which the pieces end."""
        self._bracketed: bool | None = None
        """Whether the text is an object, a list or a string; None before it has begun."""
        self._settled = False
        self._whole = False

    def is_whole(self, pieces: list[str]) -> bool:
        """Return whether the joined pieces are complete JSON."""
        if self._seen < len(pieces):
            added = "".join(pieces[self._seen :])
            self._seen = len(pieces)
            self._read(added, pieces)
        return self._whole

    def is_closed(self, pieces: list[str]) -> bool:
        """Return whether the joined pieces are complete JSON that nothing can continue."""
        return self.is_whole(pieces) and bool(self._bracketed)

    def _read(self, added: str, pieces: list[str]) -> None:
        if not self._quoted and not added.strip(_SPACE):
            return
        self._whole = False
        if self._settled:
            return
        if self._bracketed is None:
            self._bracketed = added.lstrip(_SPACE)[0] in '{["'
        self._count(self._escape + added.encode(errors="surrogatepass"))
        if self._quoted or self._depth > 0:
            return
        text = "".join(pieces)
        self._whole = is_json(text)
        self._settled = self._bracketed or len(text) > _MAX_BARE

    def _count(self, added: bytes) -> None:
        """Count brackets and quotes; see `bounds.measure`."""
        if b"\\" in added:
            added = added.replace(b"\\\\", b"").replace(b'\\"', b"")
        self._escape = b"\\" if added.endswith(b"\\") else b""
        marks = added.translate(None, _NO_MARKS).replace(b'""', b"")
        for start in range(0, len(marks), CHUNK_SIZE):
            parts = marks[start : start + CHUNK_SIZE].split(b'"')
            outside = b"".join(parts[self._quoted :: 2])
            self._quoted ^= (len(parts) - 1) & 1
            opened = outside.count(b"{") + outside.count(b"[")
            self._depth += 2 * opened - len(outside)
