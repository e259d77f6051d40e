"""A text that a regular expression of JSON Schema matches, for those that are easy.

The pattern is read, never run: it comes from a request, and may be made to take for ever.
"""

from typing import Final

MAX_LENGTH: Final = 256
"""Of a pattern that is read, and of the text."""

_CLASSES: Final = {"d": "0", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a"}
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}


class _NotEasyError(Exception):
    """The pattern has something that is not read here."""


def matching(pattern: str, *, least: int = 0) -> str | None:
    """Return a text of at least so many characters, or as near as it gets; None if not easy."""
    if len(pattern) > MAX_LENGTH:
        return None
    try:
        text = _Reader(pattern, 0).whole()
        if len(text) < least <= MAX_LENGTH:
            text = _Reader(pattern, least - len(text)).whole()
    except (_NotEasyError, RecursionError):
        return None
    return text if len(text) <= MAX_LENGTH else None


class _Reader:
    """Reads a pattern once and writes what it matches, with the first of all choices."""

    def __init__(self, pattern: str, missing: int) -> None:
        self._pattern = pattern
        self._at = 0
        self._missing = missing
        """How many more characters the first place that may repeat is to give."""

    def whole(self) -> str:
        self._take("^")
        text = self._choice()
        if self._at < len(self._pattern):
            raise _NotEasyError
        return text

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _next(self) -> str:
        if self._at >= len(self._pattern):
            raise _NotEasyError
        self._at += 1
        return self._pattern[self._at - 1]

    def _take(self, text: str) -> bool:
        found = self._pattern.startswith(text, self._at)
        self._at += len(text) * found
        return found

    def _choice(self) -> str:
        """Read alternatives up to the end or a bracket, and give the first."""
        first = self._sequence()
        missing, self._missing = self._missing, 0
        while self._take("|"):
            self._sequence()
        self._missing = missing
        return first

    def _sequence(self) -> str:
        pieces: list[str] = []
        while (character := self._peek()) not in ("", "|", ")"):
            if character == "$":
                self._at += 1
                if self._peek() not in ("", "|", ")"):
                    raise _NotEasyError
                break
            pieces.append(self._repeated(self._atom()))
            if sum(map(len, pieces[-1:])) > MAX_LENGTH or len(pieces) > MAX_LENGTH:
                raise _NotEasyError
        return "".join(pieces)

    def _atom(self) -> str:
        match self._next():
            case "(":
                if self._take("?") and not self._take(":"):
                    raise _NotEasyError  # it looks around, or has a name
                text = self._choice()
                if not self._take(")"):
                    raise _NotEasyError
                return text
            case "[":
                return self._set()
            case "\\":
                return self._escape()
            case ".":
                return "a"
            case "^" | "*" | "+" | "?" | "{":
                raise _NotEasyError
            case character:
                return character

    def _escape(self) -> str:
        character = self._next()
        if character in _CLASSES:
            return _CLASSES[character]
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isalnum():
            raise _NotEasyError  # a place between characters, a code, what was found before
        return character

    def _set(self) -> str:
        if self._peek() == "^":
            raise _NotEasyError
        first = self._escape() if self._take("\\") else self._next()
        if first == "]":
            raise _NotEasyError
        while (character := self._next()) != "]":
            if character == "\\":
                self._next()
        return first

    def _repeated(self, atom: str) -> str:
        least, most = self._bounds()
        self._take("?")  # as few as it can: that is what is given anyway
        if least > MAX_LENGTH:
            raise _NotEasyError
        if self._missing and atom and (most is None or most > least):
            room = self._missing if most is None else min(self._missing, most - least)
            extra = -(-room // len(atom)) if most is None else room
            self._missing = max(0, self._missing - extra * len(atom))
            least += extra
        if least * len(atom) > MAX_LENGTH:
            raise _NotEasyError
        return atom * least

    def _bounds(self) -> tuple[int, int | None]:
        """Read how often what stands before may be there; None for any number."""
        match self._peek():
            case "*":
                self._at += 1
                return 0, None
            case "+":
                self._at += 1
                return 1, None
            case "?":
                self._at += 1
                return 0, 1
            case "{":
                inside, closed, _ = self._pattern[self._at + 1 :].partition("}")
                low, comma, high = inside.partition(",")
                if not closed or not (low.isdecimal() and low.isascii()) or len(inside) > 12:
                    raise _NotEasyError
                self._at += len(inside) + 2
                if not comma:
                    return int(low), int(low)
                if high and not (high.isdecimal() and high.isascii()):
                    raise _NotEasyError
                return int(low), int(high) if high else None
            case _:
                return 1, 1
