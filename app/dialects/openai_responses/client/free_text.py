"""Incremental reader of the text in `{"input": "..."}`.

Text is returned as it arrives and cannot be revised: it is the string, with its escapes
decoded wherever they are cut. Models do not always write valid JSON: a raw line break in the
string is accepted, and input that is not such an object is returned complete at its end.
"""

import re
from typing import Final

from ...reading.split_text import Halves
from ...writing.conversation import parse_object
from .tool_calls import INPUT

_HEAD: Final = re.compile(r'\s*\{\s*"' + INPUT + r'"\s*:\s*"')
_MAX_HEAD: Final = 200
"""Characters within which the string must start; otherwise all text is returned at the end."""
_MARK: Final = re.compile(r'["\\]')
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_HEX: Final = re.compile(r"[0-9a-fA-F]{1,4}")


class FreeText:
    """Reads the arguments of one call in pieces."""

    __slots__ = ("_ended", "_halves", "_head", "_malformed", "_pending")

    def __init__(self) -> None:
        self._halves = Halves()
        self._head: str | None = ""
        """The text before the string; None once that has started."""
        self._malformed: list[str] | None = None
        """All input, if it does not start as expected."""
        self._pending = ""
        """An incomplete escape sequence."""
        self._ended = False

    @property
    def fed(self) -> bool:
        """Whether there was any input."""
        return self._head != ""

    def feed(self, piece: str) -> str:
        """Append the next piece; return the text that it adds."""
        if self._malformed is not None:
            self._malformed.append(piece)
            return ""
        if self._head is None:
            return self._read(piece)
        head = self._head + piece
        match = _HEAD.match(head)
        if match is not None:
            self._head = None
            return self._read(head[match.end() :])
        if len(head) > _MAX_HEAD:
            self._malformed, self._head = [head], None
        else:
            self._head = head
        return ""

    def close(self) -> str:
        """End the input; return the rest of the text."""
        if self._head is not None or self._malformed is not None:
            return _guess("".join(self._malformed or ()) + (self._head or ""))
        pending, self._pending = self._pending, ""
        rest = "" if self._ended else self._halves.feed(pending)
        return rest + self._halves.close()

    def _read(self, piece: str) -> str:
        if self._ended:
            return ""
        text, self._pending = self._pending + piece, ""
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
            self._pending = text[at:]
        return self._halves.feed("".join(found))


def _read_escape(text: str, at: int) -> tuple[str, int] | None:
    """Return the character of an escape and its end; None if it is incomplete."""
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
    """Return the text that malformed arguments probably contain."""
    value = parse_object(text)
    if value is None:
        return text
    if isinstance(value.get(INPUT), str):
        return str(value[INPUT])
    strings = [value for value in value.values() if isinstance(value, str)]
    if len(strings) == 1:
        return strings[0]
    return text if value else ""
