"""Collector of a body that is one JSON document. No I/O."""

from .sse import FramingError, Message


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
