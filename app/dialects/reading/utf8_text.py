"""Text of a block, indexed by its UTF-8 bytes, as Google's citations count it. No I/O."""

from typing import Final

from .split_text import Halves

_STEP: Final = 1024
_CONTINUING: Final = bytes(range(0x80, 0xC0))
"""The UTF-8 continuation bytes."""


class Utf8Text:
    """The text of a block so far; conversion of byte offsets to characters."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._halves = Halves()
        self._marks: list[int] = []
        """The number of characters that begin before each `_STEP` bytes."""

    def add(self, piece: str) -> None:
        self._data += self._halves.feed(piece).encode()

    def matches(self, text: bytes, start: int, end: int) -> bool:
        """Return whether `text` is the text between two offsets, as far as the text extends."""
        length = max(min(end, len(self._data)) - min(start, len(self._data)), 0)
        return length == len(text) and (not text or self._data.startswith(text, start))

    def characters(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the character offsets for byte offsets; None unless both are character
        boundaries.
        """
        if start > end or not self._is_offset(start) or not self._is_offset(end):
            return None
        return self._count(start), self._count(end)

    def _is_offset(self, at: int) -> bool:
        size = len(self._data)
        return at == size or (at < size and self._data[at] not in _CONTINUING)

    def _count(self, end: int) -> int:
        """Count the characters before an offset, from the last mark before it."""
        marks, data = self._marks, self._data
        while len(marks) <= end // _STEP:
            last = (len(marks) - 1) * _STEP
            marks.append(marks[-1] + _characters(data[last : last + _STEP]) if marks else 0)
        return marks[end // _STEP] + _characters(data[end // _STEP * _STEP : end])


def _characters(data: bytes | bytearray) -> int:
    return len(data.translate(None, _CONTINUING))
