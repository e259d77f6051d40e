"""A body that is a JSON array which grows: its elements as they become whole. No I/O.

Gemini answers so unless it is asked for server-sent events
[gemini/json-array-no-alt-sse]. Such an array has an end, unlike Gemini's events: without
its bracket the body was cut.
"""

import re
from typing import Final

from .document import Document
from .lenient import LenientDecoder
from .sse import Message

ELEMENT: Final = "element"
"""The event of a message that is an element of the array."""
END: Final = "array.end"
"""The event of the message, without data, that says that the array was closed."""

_BETWEEN: Final = b" \t\r\n,"
_OUTSIDE: Final = re.compile(rb'["{}\[\]]')
_INSIDE: Final = re.compile(rb'["\\]')


class JsonArray(Document):
    """Finds the elements of one array, which begins with its bracket.

    Every byte is looked at once. Elements are told apart by their brackets; what stands
    between them and is neither comma nor white space is put before the next one, which is
    then no JSON. What follows the array is ignored. Past the limit, elements that were
    whole are still returned; the next call raises.
    """

    def __init__(self, *, max_size: int) -> None:
        super().__init__(max_size=max_size)
        self._depth = 0
        self._in_string = False
        self._after_backslash = False
        self._closed = False
        self._messages: list[Message] = []

    def feed(self, data: bytes) -> list[Message]:
        """Take the next bytes; give the elements that they complete.

        Raises:
            FramingError: an element is longer than its limit.
        """
        self._check()
        if data and not self._depth and not self._closed:
            self._depth = 1
            data = data[1:]
        if not self._closed:
            self._scan(data)
        if not self._messages:
            self._check()
        messages, self._messages = self._messages, []
        return messages

    def close(self) -> Message | None:
        """Return what is left of an array that was not closed: a bracket, and a torn element.

        Raises:
            FramingError: an element is longer than its limit.
        """
        self._check()
        if self._closed:
            return None
        return Message(ELEMENT, "[" + self._bytes.decode(errors="replace"))

    def _scan(self, data: bytes) -> None:
        at = taken = 0
        while not self._failure:
            if self._after_backslash and at < len(data):
                self._after_backslash = False
                at += 1
            match = (_INSIDE if self._in_string else _OUTSIDE).search(data, at)
            if match is None:
                self._take(data[taken:])
                return
            at = match.end()
            if self._step(match[0]):
                self._take(data[taken : at if self._depth else at - 1])
                taken = at
                self._emit()
                if self._closed:
                    return

    def _step(self, mark: bytes) -> bool:
        """Take a quote, backslash or bracket; say whether it ends an element or the array."""
        if mark == b'"':
            self._in_string = not self._in_string
        elif mark == b"\\":
            self._after_backslash = True
        elif mark in b"{[":
            self._depth += 1
        elif mark == b"]" or self._depth > 1:  # another brace between elements is junk
            self._depth -= 1
            return self._depth <= 1
        return False

    def _take(self, piece: bytes) -> None:
        if not self._bytes:
            piece = piece.lstrip(_BETWEEN)
        self._add(piece, what="an element of the array is")

    def _emit(self) -> None:
        """Make a message of the element, and another one if the array is at its end."""
        if self._failure:
            return
        if text := self._bytes.rstrip(_BETWEEN).decode(errors="replace"):
            self._messages.append(Message(ELEMENT, text))
        self._bytes.clear()
        if self._depth == 0:
            self._closed = True
            self._messages.append(Message(END, ""))


class JsonArrayDecoder(LenientDecoder):
    """A `LenientDecoder` that reads a body whose first byte is `[` element by element."""

    array = JsonArray
