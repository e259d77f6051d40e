"""Recognises a thought that a host sends again."""

from typing import Final

_BEGIN: Final = 256
"""Characters that are compared; beyond them only the length is."""

_LONG: Final = 8
"""Characters of a piece that hardly follows itself by chance."""


class Thought:
    """The reasoning of one choice so far."""

    __slots__ = ("_begin", "_last", "_length", "_pieces")

    def __init__(self) -> None:
        self._begin = self._last = ""
        self._length = self._pieces = 0

    def take(self, text: str, *, ended: bool, elsewhere: bool) -> bool:
        """Add a piece; return False if it repeats all of them, or the last one `elsewhere`.

        `ended`: the answer has begun. `elsewhere`: the piece is in another field than the first.
        """
        if len(text) == self._length and text.startswith(self._begin):
            if ended or elsewhere or self._pieces > 1 or self._length >= _LONG:
                return False
        elif elsewhere and text == self._last:
            return False
        if len(self._begin) < _BEGIN:
            self._begin = (self._begin + text)[:_BEGIN]
        self._length += len(text)
        self._pieces += 1
        self._last = text
        return True
