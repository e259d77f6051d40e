"""Decoder of Amazon's event stream encoding (`application/vnd.amazon.eventstream`). No I/O.

A frame is two lengths and their CRC, headers, a payload, and the CRC of all before it.
`:message-type` and the type or code, joined by a colon, become the event of a message, so
that an event cannot be mistaken for an exception:

    :message-type   event of the message     data of the message
    event           "event:<:event-type>"    the payload
    exception       "exception:<its type>"   the payload
    error           "error:<:error-code>"    JSON with `message`, the header's text

A body whose first byte is `{` is one JSON document, regardless of its content type: `close`
returns it as a message of the type "message". For a body that ends inside a frame, `close`
returns a message of the type `TRUNCATED`.

`max_event` limits the payload of a frame, `max_line` its headers, for which the format
itself allows 128 KiB.
"""

import json
import struct
import zlib
from typing import Final, NoReturn

from .sse import FramingError, Message

TRUNCATED: Final = "truncated"
"""The event of the message that `close` returns for an incomplete frame."""

MAX_HEADERS: Final = 128 * 2**10

_PRELUDE: Final = struct.Struct(">III")
_CRC: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct(">H")
_SMALLEST: Final = _PRELUDE.size + _CRC.size

_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value, by its type: true, false, the integers, timestamp, UUID."""
_BYTES: Final = 6
_STRING: Final = 7


class Decoder:
    """Incremental decoder: `feed` bytes as they arrive, `close` at the end of input.

    The result does not depend on chunk boundaries. Frames before a broken one are still
    returned; the next call (the same one if there were none) raises `FramingError`, and so does
    every later call.
    """

    def __init__(self, *, max_line: int = 16 * 2**20, max_event: int = 16 * 2**20) -> None:
        self._max_headers = min(max_line, MAX_HEADERS)
        self._max_event = max_event
        self._buffer = bytearray()
        self._needed = _PRELUDE.size
        """The number of buffered bytes that the next step needs."""
        self._started = False
        self._is_document = False
        self._failure = ""

    def feed(self, data: bytes) -> list[Message]:
        """Append the next bytes; return the messages that they complete.

        Raises:
            FramingError: a frame is broken or longer than its limit.
        """
        if self._failure:
            raise FramingError(self._failure)
        self._buffer += data
        if not self._started and self._buffer:
            self._started = True
            self._is_document = self._buffer[0] == 0x7B
        if self._is_document:
            if len(self._buffer) > self._max_event:
                self._fail(f"the body is JSON longer than the limit of {self._max_event} bytes")
            return []
        return self._frames()

    @property
    def malformed(self) -> bool:
        """False: invalid input raises `FramingError` immediately."""
        return False

    def close(self) -> Message | None:
        """End the input; return the JSON document, or a `TRUNCATED` message for a partial frame.

        Raises:
            FramingError: a frame is broken or longer than its limit.
        """
        if self._failure:
            raise FramingError(self._failure)
        if self._is_document:
            return Message("message", self._buffer.decode(errors="replace"))
        return Message(TRUNCATED, "") if self._buffer else None

    def _frames(self) -> list[Message]:
        messages: list[Message] = []
        start = 0
        try:
            while len(self._buffer) - start >= self._needed:
                size, headers = self._prelude(start)
                if len(self._buffer) - start < size:
                    self._needed = size
                    break
                messages.append(self._message(bytes(self._buffer[start : start + size]), headers))
                start += size
                self._needed = _PRELUDE.size
        except FramingError:
            if not messages:
                raise
        del self._buffer[:start]
        return messages

    def _prelude(self, start: int) -> tuple[int, int]:
        """Return the sizes in bytes of the frame at `start` and of its headers."""
        size, headers, crc = _PRELUDE.unpack_from(self._buffer, start)
        if zlib.crc32(self._buffer[start : start + 8]) != crc:
            self._fail("a frame's prelude does not match its checksum")
        payload = size - headers - _SMALLEST
        if payload < 0:
            self._fail("a frame is shorter than its headers")
        if headers > self._max_headers:
            self._fail(f"a frame's headers are longer than {self._max_headers} bytes")
        if payload > self._max_event:
            self._fail(f"an event is longer than the limit of {self._max_event} bytes")
        return size, headers

    def _message(self, frame: bytes, headers: int) -> Message:
        if zlib.crc32(frame[: -_CRC.size]) != _CRC.unpack_from(frame, len(frame) - _CRC.size)[0]:
            self._fail("a frame does not match its checksum")
        end = _PRELUDE.size + headers
        try:
            named = parse_headers(frame[_PRELUDE.size : end])
        except ValueError as error:
            self._fail(f"a frame's headers are malformed: {error}")
        payload = frame[end : -_CRC.size].decode(errors="replace")
        match named.get(":message-type", ""):
            case "error":
                payload = json.dumps({"message": named.get(":error-message", "")})
                return Message(f"error:{named.get(':error-code', '')}", payload)
            case "exception":
                return Message(f"exception:{named.get(':exception-type', '')}", payload)
            case kind:
                return Message(f"{kind}:{named.get(':event-type', '')}", payload)

    def _fail(self, failure: str) -> NoReturn:
        self._failure = failure
        raise FramingError(failure)


def parse_headers(data: bytes) -> dict[str, str]:
    """Parse the string headers of a frame; check and skip headers of other types.

    Raises:
        ValueError: the headers are malformed.
    """
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            size = data[at]
            name, kind = _slice(data, at + 1, size), data[at + 1 + size]
            at += size + 2
            if kind in (_BYTES, _STRING):
                (length,) = _LENGTH.unpack_from(data, at)
                at += _LENGTH.size
            elif kind in _SIZES:
                length = _SIZES[kind]
            else:
                raise ValueError(f"unknown header type {kind}")
            value = _slice(data, at, length)
            at += length
            if kind == _STRING:
                found[name.decode(errors="replace")] = value.decode(errors="replace")
    except (IndexError, struct.error):
        raise ValueError("unexpected end of headers") from None
    return found


def _slice(data: bytes, start: int, length: int) -> bytes:
    if start + length > len(data):
        raise IndexError
    return data[start : start + length]
