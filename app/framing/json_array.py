"""Incremental decoder of a body that is one JSON array: a message per element. No I/O.

Gemini streams such an array unless the request has `alt=sse` [gemini/json-array-no-alt-sse].
Unlike Gemini's server-sent events the array has an end: a body without the closing bracket
was truncated.
"""

import re
from typing import Final

from .lenient import Document, LenientDecoder
from .sse import Message

ELEMENT: Final = "element"
"""The event of a message that is one element of the array."""
END: Final = "array.end"
"""The event of the message, without data, for the closing bracket of the array."""

_BETWEEN: Final = b" \t\r\n,"
_OUTSIDE: Final = re.compile(rb'["{}\[\]]')
_INSIDE: Final = re.compile(rb'["\\]')


class JsonArray(Document):
    """Splits one array, which begins with its bracket, into elements.

    Each byte is scanned once. Brackets delimit elements; anything else between them than commas
    and white space is prepended to the next element, which is then invalid JSON. Input after
    the array is ignored. Beyond the limit, complete elements are still returned; the next call
    raises.
    """

    def __init__(self, *, max_size: int) -> None:
        super().__init__(max_size=max_size)
        self._depth = 0
        self._in_string = False
        self._after_backslash = False
        self._closed = False
        self._messages: list[Message] = []

    def feed(self, data: bytes) -> list[Message]:
        """Append the next bytes; return the elements that they complete.

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
        """Return the rest of an unclosed array as one message: a bracket and the partial element.

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
        """Process a quote, backslash or bracket; return whether it ends an element or the array."""
        if mark == b'"':
            self._in_string = not self._in_string
        elif mark == b"\\":
            self._after_backslash = True
        elif mark in b"{[":
            self._depth += 1
        elif mark == b"]" or self._depth > 1:  # ignore closing braces between elements
            self._depth -= 1
            return self._depth <= 1
        return False

    def _take(self, piece: bytes) -> None:
        if not self._bytes:
            piece = piece.lstrip(_BETWEEN)
        self._add(piece, subject="an element of the array is")

    def _emit(self) -> None:
        """Append a message for the element, and one for the end of the array if it is closed."""
        if self._failure:
            return
        if text := self._bytes.rstrip(_BETWEEN).decode(errors="replace"):
            self._messages.append(Message(ELEMENT, text))
        self._bytes.clear()
        if self._depth == 0:
            self._closed = True
            self._messages.append(Message(END, ""))


class JsonArrayDecoder(LenientDecoder):
    """A `LenientDecoder` that decodes a body whose first byte is `[` element by element."""

    array = JsonArray
