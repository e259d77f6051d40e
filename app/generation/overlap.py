"""Removal of what a continuation repeats of the text before it. No I/O.

A model that was asked to go on may begin with the last word, sentence or line, or with the whole
text. But a text may also go on with its own last characters: `|---|` with `---|`, `0, 0` with
`, 0`. So an overlap is removed only if the text is unlikely to go on with it, by the n-grams of
its own characters: by more bits where models rarely begin again.
"""

import math
import re
import unicodedata
from itertools import takewhile
from typing import Final

WINDOW: Final = 400
"""Characters at the end of a text whose repetition is found."""

SAMPLE: Final = 1000
"""Characters at the end of a text that tell how it goes on."""

ORDER: Final = 5
"""The longest context of a character in the n-grams."""

UNSEEN: Final = 1 / 256
"""The probability of a character that the text does not have."""

CERTAIN: Final = 16
"""The length of a whole text whose repetition is no coincidence."""

WORD_BITS: Final = 1
"""How unlikely a repeated last word, sentence or line must be."""
MARK_BITS: Final = 4
"""How unlikely a repeated number or bracket must be, which texts double, or a word after one."""
NEXT_LINE_BITS: Final = 6
"""For a number or bracket on the next line: lists and tables begin each with the same."""
RUN_BITS: Final = 9
"""For characters of a script without spaces, within others."""
PHRASE_BITS: Final = 12
"""For several words within a sentence."""
WITHIN_BITS: Final = 20
"""For an overlap that begins within a word."""

_WORDS: Final = re.compile(r"\w+")
_STOPS: Final = frozenset(".!?:。！？")
_CLOSING: Final = "\"'”“’»)*_」』"


class Overlap:
    """Passes on the pieces of a continuation, without what they repeat of `text`.

    An `exact` provider goes on where the text ends, but for white space, which it may repeat; some
    return the whole text first, and one that `echoes` always does, however short it is. Other
    models are asked to go on. Pieces are held back while they may be a repetition.
    """

    def __init__(self, text: str, *, exact: bool, echoes: bool = False) -> None:
        bare = text.rstrip()
        self._exact = exact
        self._space = text[len(bare) :][:WINDOW]
        whole = bare if exact else bare.lstrip()
        shortest = 1 if echoes else CERTAIN if exact else WINDOW
        self._whole = whole if len(whole) >= shortest else ""
        self._matched = 0
        """The number of characters of the whole text that the pieces have repeated."""
        self._differs = not self._whole
        self._tail = text[-WINDOW:]
        self._sample = text[-SAMPLE:]
        self._held: list[str] = []
        self.done = False
        """Whether the pieces that follow are passed on unchanged."""
        self.removed = 0
        """The number of removed characters."""

    def feed(self, piece: str) -> str:
        """Take the next piece; return what is certain to be new."""
        if self.done or not piece:
            return piece
        self._held.append(piece)
        return "" if self._may_be_whole(piece) or self._may_go_on() else self.close()

    def close(self) -> str:
        """End the repetition; return what was held back and is new."""
        held = "".join(self._held)
        self.done = True
        self._held.clear()
        new = self._cut(held)
        self.removed += len(held) - len(new)
        return new

    def _may_be_whole(self, piece: str) -> bool:
        """Return whether the pieces may be the begin of the whole text, by the latest one."""
        if not self._matched and not self._exact:
            piece = piece.lstrip()
        if self._differs or not piece:
            return False
        self._differs = not self._whole.startswith(piece, self._matched)
        self._matched += len(piece)
        return not self._differs and self._matched < len(self._whole)

    def _may_go_on(self) -> bool:
        """Return whether the held pieces may be the begin of a longer repetition."""
        held = "".join(self._held)
        self._held = [held]
        rest = self._remove_whole(held)
        if rest is not None:
            return len(rest) < len(self._space) and self._space.startswith(rest)
        bare = held.lstrip()
        return bare in self._tail if bare else len(held) < WINDOW  # a match needs the next one

    def _cut(self, held: str) -> str:
        rest = self._remove_whole(held)
        if rest is None:
            return held[self._measure_overlap(held) :]
        same = (one == other for one, other in zip(self._space, rest, strict=False))
        return rest[sum(takewhile(bool, same)) :]

    def _remove_whole(self, held: str) -> str | None:
        """Return what follows the end of the text but for white space; None if that is unknown."""
        start = held if self._exact else held.lstrip()
        if self._whole and start.startswith(self._whole):
            return start[len(self._whole) :]
        return held if self._exact else None

    def _measure_overlap(self, held: str) -> int:
        """Return the number of first characters to remove: those of the most unlikely overlap."""
        tail = self._tail
        space = len(held) - len(held.lstrip())
        ends = [
            end
            for end in range(space + 1, min(len(held), space + len(tail)) + 1)
            if tail.endswith(held[space:end])
        ]
        best, cut, bits, context = 0.0, 0, 0.0, tail
        for end, character in enumerate([*held[: ends[-1] + 1], ""] if ends else ()):
            bits += self._bits(context, character)
            if end in ends:
                begin = len(tail) - end + space
                needed = _find_needed_bits(tail[:begin], tail[begin:], held[:space])
                gain = bits - self._bits(tail, character) - needed
                if gain > best:
                    best, cut = gain, end
            context = (context + character)[-ORDER:]
        return cut

    def _bits(self, context: str, character: str) -> float:
        """Return how unlikely the next character is, by the text's n-grams (interpolated)."""
        text, chance = self._sample, UNSEEN
        for order in range(min(ORDER, len(context)) + 1):
            known = context[len(context) - order :]
            seen = text.count(known) if order else len(text)
            if not seen:
                break
            chance = (text.count(known + character) + chance) / (seen + 1)
        return -math.log2(chance)


def _find_needed_bits(before: str, repeated: str, space: str) -> float:
    """Return how unlikely an overlap must be, by where it begins in the text.

    `space`: the white space with which the continuation begins.
    """
    last, first = before[-1:], repeated[0]
    letters = any(map(str.isalpha, repeated))
    if _is_wide(first):
        if last.isalnum() and (_is_kana(first) or not _is_kana(last)):
            return RUN_BITS
    elif last.strip():
        starts = first.isalnum() and not last.isalnum()
        return (
            MARK_BITS if starts and letters and len(_WORDS.findall(repeated)) == 1 else WITHIN_BITS
        )
    stem = before.rstrip()
    starts = not stem or "\n" in before[len(stem) :] or stem.rstrip(_CLOSING)[-1:] in _STOPS
    if not starts and len(repeated.split()) > 1:
        return PHRASE_BITS
    if letters:
        return WORD_BITS
    return NEXT_LINE_BITS if "\n" in space else MARK_BITS


def _is_wide(character: str) -> bool:
    """Return whether it is of a script without spaces between words."""
    return unicodedata.east_asian_width(character) in "WF"


def _is_kana(character: str) -> bool:
    """Return whether it is Japanese syllabic script: another character after it begins a word."""
    return "\u3040" <= character <= "\u30ff"
