"""A body that is one JSON document: kept until its end. No I/O."""

from .sse import FramingError, Message


class Document:
    """Collects the document: `feed` it bytes as they come, `close` it at their end."""

    def __init__(self, *, max_size: int) -> None:
        self._max_size = max_size
        self._bytes = bytearray()
        self._failure = ""

    def feed(self, data: bytes) -> list[Message]:
        """Take the next bytes; there is no message before the end.

        Raises:
            FramingError: the document is longer than its limit.
        """
        self._check()
        self._add(data, what="the body is JSON")
        self._check()
        return []

    def close(self) -> Message | None:
        """Return the document, whole or not.

        Raises:
            FramingError: it was longer than its limit.
        """
        self._check()
        return Message("message", self._bytes.decode(errors="replace"))

    def _add(self, data: bytes, *, what: str) -> None:
        """Keep the next bytes, or nothing more once they are too many."""
        if len(self._bytes) + len(data) > self._max_size:
            self._bytes.clear()
            self._failure = f"{what} longer than the limit of {self._max_size} bytes"
        else:
            self._bytes += data

    def _check(self) -> None:
        if self._failure:
            raise FramingError(self._failure)
