"""Decoder and encoder of server-sent events. No I/O.

Implements WHATWG HTML 9.2.5 and 9.2.6 exactly, with limits that the standard does not set:
a line or an event longer than its limit ends the input with `FramingError`, and `retry` is
capped at `MAX_RETRY_MS`.

Lines are split as bytes and decoded when complete. This equals decoding the whole stream
first, since a line end is never part of a longer UTF-8 sequence, and it does not split at
U+2028 or U+0085, which are not line ends in an event stream.
"""

from typing import Final, NoReturn

import msgspec

BOM: Final = b"\xef\xbb\xbf"
_LF: Final = 0x0A
_CR: Final = 0x0D
# Numbers, since `b"\n" in line` raises an error inside CPython and takes five times as long.
_DATA: Final = b"data: "
_NEXT_DATA: Final = "\n\ndata: "
MAX_RETRY_MS: Final = 2**31 - 1
"""The longest delay of a browser's timer, in milliseconds."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """One dispatched event."""

    event: str
    """The event type; "message" by default."""
    data: str
    id: str = ""
    """The last event id at dispatch."""
    retry: int | None = None
    """The current reconnection time in milliseconds."""


class FramingError(ValueError):
    """The input violates a limit or the format and cannot be decoded further. The text is safe
    to show.
    """


class Decoder:
    """Incremental decoder: `feed` bytes as they arrive, `close` at the end of input.

    The result does not depend on chunk boundaries. Memory is bounded by `max_line` plus
    `max_event`, in bytes; `max_event` limits the data of one event. Beyond a limit, complete
    messages are still returned; the next call (the same one if there were none) raises
    `FramingError`, and so does every later call.
    """

    def __init__(self, *, max_line: int = 16 * 2**20, max_event: int = 16 * 2**20) -> None:
        self._max_line = max_line
        self._max_event = max_event
        self._short = (min(max_line, max_event) - len(_DATA)) // 3
        """No limit refuses data up to this length, also if each byte becomes a U+FFFD."""
        self._at_start = True
        self._after_cr = False
        self._partial = bytearray()
        # The standard's data buffer: the first line, and the others with an LF after each.
        # Bytes, since a list of strings takes twenty times the memory for short lines;
        # separate, since nearly every event has one line, which then needs no copy.
        self._first: bytes | None = None
        self._more = bytearray()
        self._event = ""
        self._id = ""
        self._retry: int | None = None
        self._failure = ""
        self._messages: list[Message] = []

    def feed(self, data: bytes) -> list[Message]:
        """Append the next bytes; return the messages that they complete.

        Raises:
            FramingError: a line or an event is longer than its limit.
        """
        if self._failure:
            raise FramingError(self._failure)
        if self._at_start:
            data = self._without_bom(data)
        if self._after_cr and data:
            # The CR ended its line. Waiting for a possible LF would delay the last event of
            # every stream whose lines end with CR.
            self._after_cr = False
            if data[0] == _LF:
                data = data[1:]
        if not data:
            return []
        whole = data.rfind(b"\n\n") + 2
        try:
            if whole > 1 and self._first is None and not self._event and _CR not in data:
                events, data = data[:whole], data[whole:]
                self._take_events(self._joined(events) if self._partial else events)
            if data:
                self._take_lines(data)
        except FramingError:
            if not self._messages:
                raise
        messages, self._messages = self._messages, []
        return messages

    def _take_events(self, data: bytes) -> None:
        """Take whole events, most of them of one line with data, in half the time."""
        if not data.startswith(_DATA) or len(data) > self._short:
            return self._take_lines(data)
        for text in data.decode("utf-8", "replace")[len(_DATA) : -2].split(_NEXT_DATA):
            if "\n" in text:
                self._take_lines(b"%b%b\n\n" % (_DATA, text.encode()))
            else:
                self._messages.append(Message("message", text, self._id, self._retry))
        return None

    def _take_lines(self, data: bytes) -> None:
        lines = data.splitlines()  # bytes split at CR, LF and CRLF only
        last = data[-1]
        tail = b""
        if last == _CR:
            self._after_cr = True
        elif last != _LF:
            tail = lines.pop()
        if lines and self._partial:
            lines[0] = self._joined(lines[0])
        for line in lines:
            self._line(line)
        if tail:
            self._partial += tail
            self._check_line(len(self._partial))

    def close(self) -> Message | None:
        """End the input; return the unfinished event, if it has data.

        The standard discards it. The caller decides by its data: complete data lacks only the
        blank line, anything else means that the stream was truncated.

        Raises:
            FramingError: a line or an event is longer than its limit.
        """
        if self._failure:
            raise FramingError(self._failure)
        if self._partial:
            self._line(self._joined(b""))
        return None if self._first is None else self._message(self._first)

    def unknown_line(self, line: bytes) -> None:
        """Ignore a line with an unknown field, as the standard requires; subclasses may
        override.
        """

    def _without_bom(self, data: bytes) -> bytes:
        """Drop one leading BOM, which may arrive in pieces."""
        head = bytes(self._partial) + data
        if len(head) < len(BOM) and BOM.startswith(head):
            self._partial[:] = head
            return b""
        self._at_start = False
        self._partial.clear()
        return head.removeprefix(BOM)

    def _joined(self, rest: bytes) -> bytes:
        line = bytes(self._partial + rest)
        self._partial.clear()
        return line

    def _check_line(self, size: int) -> None:
        if size > self._max_line:
            self._fail(f"a line is longer than the limit of {self._max_line} bytes")

    def _line(self, line: bytes) -> None:
        if not line:
            self._dispatch()
            return
        if len(line) > self._max_line:
            self._check_line(len(line))
        if line.startswith(b"data: "):  # nearly every line: saves 0.3 us
            self._append_data(line[6:])
            return
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        match name:
            case b"data":
                self._append_data(value)
            case b"":
                pass  # a comment line
            case b"event":
                self._event = value.decode(errors="replace")
            case b"id":
                if b"\0" not in value:
                    self._id = value.decode(errors="replace")
            case b"retry":
                if value.isdigit():  # bytes: ASCII digits only
                    # int() refuses thousands of digits.
                    digits = value.lstrip(b"0")[:11] or b"0"
                    self._retry = min(int(digits), MAX_RETRY_MS)
            case _:
                self.unknown_line(line)

    def _append_data(self, value: bytes) -> None:
        first = self._first
        before = 0 if first is None else len(first) + 1 + len(self._more)
        if before + len(value) > self._max_event:
            self._fail(f"an event is longer than the limit of {self._max_event} bytes")
        if first is None:
            self._first = value
        else:
            self._more += value
            self._more += b"\n"

    def _dispatch(self) -> None:
        if self._first is not None:
            self._messages.append(self._message(self._first))
            self._first = None
            self._more.clear()
        self._event = ""

    def _message(self, first: bytes) -> Message:
        data = first + b"\n" + self._more[:-1] if self._more else first
        text = data.decode(errors="replace")
        return Message(self._event or "message", text, self._id, self._retry)

    def _fail(self, failure: str) -> NoReturn:
        # Store the text only: the error's traceback would keep the input alive.
        self._failure = failure
        raise FramingError(failure)


def encode(
    data: str, *, event: str | None = None, id: str | None = None, retry: int | None = None
) -> bytes:
    """Encode one event with LF line ends.

    The id comes last: see `app.dialects.client_format`. `retry` is in milliseconds; an empty
    event name equals none. `data` may be any text without CR, which the format cannot represent
    (JSON text escapes it).

    Raises:
        ValueError: the format cannot represent a value.
    """
    lines = []
    if retry is not None:
        if not 0 <= retry <= MAX_RETRY_MS:
            raise ValueError(f"retry must be 0 to {MAX_RETRY_MS} ms, not {retry}")
        lines.append(f"retry: {retry}")
    if event is not None:
        if "\r" in event or "\n" in event:
            raise ValueError(f"an event name cannot contain CR or LF: {event!r}")
        lines.append(f"event: {event}")
    if "\r" in data:
        raise ValueError("data cannot contain CR; encode it as JSON first")
    lines.extend(f"data: {line}" for line in data.split("\n"))
    if id is not None:
        if any(character in id for character in "\r\n\0"):
            raise ValueError(f"an id cannot contain CR, LF or NUL: {id!r}")
        lines.append(f"id: {id}")
    return ("\n".join(lines) + "\n\n").encode()
