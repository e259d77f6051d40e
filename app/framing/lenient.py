"""Decoder of event streams that violate the standard, as some providers send them. No I/O.

`LenientDecoder` extends `sse.Decoder`:

- A body whose first byte is `{` or `[` is one JSON document, regardless of its content
  type; `close` returns it as a message.
- The field `error`, which llama.cpp's server sent through 2025, becomes a message of the type
  "error" immediately.
- JSON on separate lines without `data:`, as Gemini and Ollama send errors within a stream,
  becomes a message as soon as its brackets balance.
"""

import re
from typing import Final

from .sse import BOM, Decoder, FramingError, Message


class Document:
    """Collects one document: `feed` bytes as they arrive, `close` at the end of input."""

    def __init__(self, *, max_size: int) -> None:
        self._max_size = max_size
        self._bytes = bytearray()
        self._failure = ""

    def feed(self, data: bytes) -> list[Message]:
        """Append the next bytes; return no message, since there is none before the end.

        Raises:
            FramingError: the document exceeds `max_size`.
        """
        self._check()
        self._add(data, subject="the body is JSON")
        self._check()
        return []

    def close(self) -> Message | None:
        """Return the collected document, even if it is incomplete.

        Raises:
            FramingError: the document exceeded `max_size`.
        """
        self._check()
        return Message("message", self._bytes.decode(errors="replace"))

    def _add(self, data: bytes, *, subject: str) -> None:
        """Append bytes, or discard everything once the limit is exceeded."""
        if len(self._bytes) + len(data) > self._max_size:
            self._bytes.clear()
            self._failure = f"{subject} longer than the limit of {self._max_size} bytes"
        else:
            self._bytes += data

    def _check(self) -> None:
        if self._failure:
            raise FramingError(self._failure)


MAX_RAW: Final = 64 * 2**10
"""The longest JSON without `data:`, in bytes."""

_FIELDS: Final = (b"data", b"event", b"id", b"retry")
_SPACE: Final = b" \t\r\n"
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.|\\$)*+(?:"|$)')


class LenientDecoder(Decoder):
    """An `sse.Decoder` that also accepts JSON outside of events."""

    array: type[Document] = Document
    """The class that collects a body that is a JSON array."""

    def __init__(self, *, max_line: int = 16 * 2**20, max_event: int = 16 * 2**20) -> None:
        super().__init__(max_line=max_line, max_event=max_event)
        self._head: bytes | None = b""
        """The bytes before the first significant one; None after it."""
        self._document: Document | None = None
        self._raw: list[bytes] = []
        self._raw_size = 0
        self._depth = 0
        self.malformed = False
        """Whether a line is neither an SSE field nor JSON. Final after `close`."""

    def feed(self, data: bytes) -> list[Message]:
        """Append the next bytes; return the messages that they complete.

        Raises:
            FramingError: a line, an event or the document is longer than its limit.
        """
        if self._head is not None:
            data = self._decide(self._head, data)
        if self._document is not None:
            return self._document.feed(data)
        return super().feed(data)

    def close(self) -> Message | None:
        """End the input; return the document, or the unfinished message.

        Raises:
            FramingError: a line, an event or the document is longer than its limit.
        """
        if self._document is not None:
            return self._document.close()
        rest = bytes(self._partial[:8])
        torn = bool(rest) and any(field.startswith(rest) for field in _FIELDS)
        message = super().close()
        self.malformed = self.malformed and not torn
        if self._messages:  # the last line, without a line end, was a message
            return self._messages.pop()
        if message is None and self._raw:
            return self._raw_message()
        return message

    def unknown_line(self, line: bytes) -> None:
        if line.startswith(b"error:"):
            text = line[6:].strip().decode(errors="replace")
            self._messages.append(Message("error", text, self._id, self._retry))
        elif self._raw or line.lstrip()[:1] in (b"{", b"["):
            self._take_raw(line)
        elif line.strip():
            self.malformed = True

    def _decide(self, head: bytes, data: bytes) -> bytes:
        """Choose the format by the first byte that is neither white space nor part of a BOM."""
        seen = head + data
        if BOM.startswith(seen):  # also while it is empty
            self._head = seen
            return data
        start = seen.removeprefix(BOM).lstrip(_SPACE)
        if not start:
            self._head = b" "
            return data
        self._head = None
        if start[0] in b"{[":
            kind = self.array if start[:1] == b"[" else Document
            self._document = kind(max_size=self._max_event)
            return start
        return data

    def _take_raw(self, line: bytes) -> None:
        self._raw.append(line)
        self._raw_size += len(line) + 1
        if self._raw_size > MAX_RAW:
            self._fail(f"JSON outside of an event is longer than {MAX_RAW} bytes")
        bare = _STRING.sub(b"", line)
        self._depth += len(re.findall(rb"[{[]", bare)) - len(re.findall(rb"[]}]", bare))
        if self._depth <= 0:
            self._messages.append(self._raw_message())
            self._raw.clear()
            self._raw_size = self._depth = 0

    def _raw_message(self) -> Message:
        text = b"\n".join(self._raw).decode(errors="replace")
        return Message("message", text, self._id, self._retry)
