"""The pieces of a text that grows for as long as an answer lasts."""

from typing import Any, Final

MERGED: Final = 16
"""So many joined texts become one: a text of n pieces is a few, and is copied log n times."""


class Pieces(list[str]):
    """Pieces of a text; those of a saved state are joined, so that later states share them."""

    _joined = 0
    """Joined texts at the beginning of the list."""
    _joins = 0

    def text(self) -> str:
        """Return the text so far."""
        return "".join(self)

    def __reduce__(self) -> tuple[Any, ...]:
        if len(self) > self._joined:
            self[self._joined :] = ["".join(self[self._joined :])]
            self._joined += 1
            self._joins = joins = self._joins + 1
            while joins % MERGED == 0:
                self[-MERGED:] = ["".join(self[-MERGED:])]
                self._joined -= MERGED - 1
                joins //= MERGED
        return Pieces, (tuple(self),), self.__dict__
