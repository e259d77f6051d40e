"""Removal of what a continuation repeats of the text before it. No I/O."""

import unicodedata
from itertools import takewhile
from typing import Final

WINDOW: Final = 200
"""Characters at the end of a text whose repetition is found."""

CERTAIN: Final = 8
"""Repeated characters that are no coincidence, even if they begin within a word."""

REPEATED: Final = range(16, 65_537)
"""The lengths of a text whose repetition from its beginning is found: no coincidence, and cheap."""


class Overlap:
    """Passes on the pieces of a continuation, without what they repeat of `text`.

    An `exact` provider goes on where the text ends, but for white space, which it may repeat; some
    return the whole text first. Other models are asked to go on, and may repeat a word or a
    sentence. Pieces are held back while they may be a repetition.
    """

    def __init__(self, text: str, *, exact: bool) -> None:
        whole = text.rstrip()
        self._exact = exact
        self._space = text[len(whole) :]
        self._whole = whole if len(whole) in REPEATED else ""
        self._tail = text[-WINDOW:]
        self._held = ""
        self.done = False
        """Whether the pieces that follow are passed on unchanged."""
        self.removed = 0
        """The number of removed characters."""

    def feed(self, piece: str) -> str:
        """Take the next piece; return what is certain to be new."""
        if self.done:
            return piece
        self._held += piece
        return "" if self._may_go_on() else self.close()

    def close(self) -> str:
        """End the repetition; return what was held back and is new."""
        held, self._held, self.done = self._held, "", True
        new = self._cut(held)
        self.removed += len(held) - len(new)
        return new

    def _may_go_on(self) -> bool:
        """Return whether the held pieces may be the begin of a longer repetition."""
        held, whole = self._held, self._whole
        if len(held) < len(whole) and whole.startswith(held):
            return True
        if self._exact:
            rest = held.removeprefix(whole)
            return len(rest) < len(self._space) and self._space.startswith(rest)
        bare = held.lstrip()
        return bare in self._tail[:-1] if bare else len(held) < WINDOW

    def _cut(self, held: str) -> str:
        repeats = bool(self._whole) and held.startswith(self._whole)
        if repeats:
            held = held[len(self._whole) :]
        if repeats or self._exact:
            same = (one == other for one, other in zip(self._space, held, strict=False))
            return held[sum(takewhile(bool, same)) :]
        bare = held.lstrip()
        for size in range(min(len(bare), len(self._tail)), 0, -1):
            if self._tail.endswith(bare[:size]) and self._is_repetition(size):
                return bare[size:]
        return held

    def _is_repetition(self, size: int) -> bool:
        """Return whether the last characters of the text begin with a word, or are many."""
        start = len(self._tail) - size
        if size >= CERTAIN or not start:
            return True
        before, first = self._tail[start - 1], self._tail[start]
        return not (before.isalnum() and first.isalnum()) or _is_wide(first)


def _is_wide(character: str) -> bool:
    """Return whether it is of a script without spaces between words."""
    return unicodedata.east_asian_width(character) in "WF"
