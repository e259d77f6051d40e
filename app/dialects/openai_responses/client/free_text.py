"""The text in `{"input": "..."}`, from pieces of that JSON as they come.

What is told is told as it comes, and never taken back: it is the string with its escapes
read, in whichever pieces they came. Models do not always keep to JSON: a line break within
the string stands for itself, and what is no such object at all is told at its end, whole.
"""

import re
from typing import Final

from ...reading.surrogates import Halves
from ...writing.conversation import parse_object
from .tool_calls import INPUT

_HEAD: Final = re.compile(r'\s*\{\s*"' + INPUT + r'"\s*:\s*"')
_MAX_HEAD: Final = 200
"""Characters in which the string begins, or it is told at its end."""
_MARK: Final = re.compile(r'["\\]')
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_HEX: Final = re.compile(r"[0-9a-fA-F]{1,4}")


class FreeText:
    """Takes the arguments of one call in pieces."""

    __slots__ = ("_ended", "_halves", "_head", "_held", "_kept")

    def __init__(self) -> None:
        self._halves = Halves()
        self._head: str | None = ""
        """What came before the string; None within it and after it."""
        self._kept: list[str] | None = None
        """All that came, where it does not begin as it should."""
        self._held = ""
        """An escape that is not whole."""
        self._ended = False

    @property
    def fed(self) -> bool:
        """Whether anything came."""
        return self._head != ""

    def feed(self, piece: str) -> str:
        """Take the next piece and return what it adds to the text."""
        if self._kept is not None:
            self._kept.append(piece)
            return ""
        if self._head is None:
            return self._read(piece)
        head = self._head + piece
        match = _HEAD.match(head)
        if match is not None:
            self._head = None
            return self._read(head[match.end() :])
        if len(head) > _MAX_HEAD:
            self._kept, self._head = [head], None
        else:
            self._head = head
        return ""

    def close(self) -> str:
        """Take the end and return the rest of the text."""
        if self._head is not None or self._kept is not None:
            return _guess("".join(self._kept or ()) + (self._head or ""))
        held, self._held = self._held, ""
        rest = "" if self._ended else self._halves.feed(held)
        return rest + self._halves.close()

    def _read(self, piece: str) -> str:
        if self._ended:
            return ""
        text, self._held = self._held + piece, ""
        found: list[str] = []
        at = 0
        while (mark := _MARK.search(text, at)) is not None:
            found.append(text[at : mark.start()])
            at = mark.start()
            if mark[0] == '"':
                self._ended = True
                at = len(text)
                break
            read = _read_escape(text, at)
            if read is None:
                break
            found.append(read[0])
            at = read[1]
        if mark is None:
            found.append(text[at:])
        else:
            self._held = text[at:]
        return self._halves.feed("".join(found))


def _read_escape(text: str, at: int) -> tuple[str, int] | None:
    """Return what an escape stands for and where it ends; None if it is not whole."""
    letter = text[at + 1 : at + 2]
    if not letter:
        return None
    if letter != "u":
        plain = letter if letter in '"\\/' else text[at : at + 2]
        return _ESCAPES.get(letter, plain), at + 2
    digits = _HEX.match(text, at + 2)
    end = at + 2 if digits is None else digits.end()
    if end == at + 6:
        return chr(int(text[at + 2 : end], 16)), end
    return None if end == len(text) else (text[at : at + 2], at + 2)


def _guess(text: str) -> str:
    """Return the text that malformed arguments probably mean."""
    given = parse_object(text)
    if given is None:
        return text
    if isinstance(given.get(INPUT), str):
        return str(given[INPUT])
    strings = [value for value in given.values() if isinstance(value, str)]
    if len(strings) == 1:
        return strings[0]
    return text if given else ""
