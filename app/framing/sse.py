"""Server-sent events: bytes to messages and back. No I/O.

Follows WHATWG HTML 9.2.5 and 9.2.6 to the letter. Beyond the standard, which sets no
bounds: a line or an event longer than its limit ends the input with `FramingError`, and
a `retry` is at most `MAX_RETRY_MS`.

Lines are split as bytes and decoded when they are complete. That equals decoding the
whole stream first, since a line end is never part of a longer UTF-8 sequence, and it
leaves U+2028, U+0085 and their kind alone, which are no line ends here.
"""

from typing import Final, NamedTuple, NoReturn

BOM: Final = b"\xef\xbb\xbf"
MAX_RETRY_MS: Final = 2**31 - 1
"""The longest delay a browser's timer takes, in milliseconds."""


class Message(NamedTuple):
    """One dispatched event."""

    event: str
    """The event type; "message" where none was named."""
    data: str
    id: str = ""
    """The last event id at dispatch."""
    retry: int | None = None
    """The reconnection time in force, in milliseconds."""


class FramingError(ValueError):
    """The input breaks a limit; it cannot be read on. The text is safe to show."""


class Decoder:
    """An incremental decoder: `feed` bytes as they come, `close` at the end of input.

    The result does not depend on how the bytes are cut. Memory is bounded by `max_line`
    plus `max_event`, both in bytes; `max_event` counts the data of one event. Past a
    limit, messages that were complete are still returned; the call after them (the same
    one if there were none) raises `FramingError`, and so does every later call.
    """

    def __init__(self, *, max_line: int = 16 * 2**20, max_event: int = 16 * 2**20) -> None:
        self._max_line = max_line
        self._max_event = max_event
        self._at_start = True
        self._after_cr = False
        self._partial = bytearray()
        # The data buffer of the standard: its first line, and the others with an LF after
        # each. Bytes, since a list of strings takes twenty times the memory when the lines
        # are short; apart, since nearly every event has one line, and that is left as it is.
        self._first: bytes | None = None
        self._more = bytearray()
        self._event = ""
        self._id = ""
        self._retry: int | None = None
        self._failure = ""
        self._messages: list[Message] = []

    def feed(self, data: bytes) -> list[Message]:
        """Take the next bytes and return the messages that they complete.

        Raises:
            FramingError: a line or an event is longer than its limit.
        """
        if self._failure:
            raise FramingError(self._failure)
        if self._at_start:
            data = self._without_bom(data)
        if self._after_cr and data:
            # The CR has ended its line already. Waiting for the byte after it instead
            # would hold back the last event of every stream that ends lines with CR.
            self._after_cr = False
            if data[0] == 0x0A:
                data = data[1:]
        if not data:
            return []
        lines = data.splitlines()  # of bytes: at CR, LF and CRLF, and nowhere else
        last = data[-1]
        tail = b""
        if last == 0x0D:
            self._after_cr = True
        elif last != 0x0A:
            tail = lines.pop()
        try:
            if lines and self._partial:
                lines[0] = self._joined(lines[0])
            for line in lines:
                self._line(line)
            if tail:
                self._partial += tail
                self._check_line(len(self._partial))
        except FramingError:
            if not self._messages:
                raise
        messages, self._messages = self._messages, []
        return messages

    def close(self) -> Message | None:
        """End the input; return the event that was not finished, if it has data.

        The standard throws it away. It is given here for the caller to judge: complete
        data means that only the blank line was lost, anything else that the stream was cut.

        Raises:
            FramingError: a line or an event is longer than its limit.
        """
        if self._failure:
            raise FramingError(self._failure)
        if self._partial:
            self._line(self._joined(b""))
        return None if self._first is None else self._message(self._first)

    def unknown_line(self, line: bytes) -> None:
        """Do nothing with a line whose field the standard ignores; a subclass may look."""

    def _without_bom(self, data: bytes) -> bytes:
        """Drop one leading BOM, which may come in pieces."""
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
        if line.startswith(b"data: "):  # nearly every line: 0.3 us less
            self._append_data(line[6:])
            return
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        match name:
            case b"data":
                self._append_data(value)
            case b"":
                pass  # a comment
            case b"event":
                self._event = value.decode(errors="replace")
            case b"id":
                if b"\0" not in value:
                    self._id = value.decode(errors="replace")
            case b"retry":
                if value.isdigit():  # of bytes: ASCII digits only
                    # Short enough for int(), which refuses thousands of digits.
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
        # The text is kept and not the error, whose traceback would hold the input.
        self._failure = failure
        raise FramingError(failure)


def encode(
    data: str, *, event: str | None = None, id: str | None = None, retry: int | None = None
) -> bytes:
    """Write one event, with LF line ends, so that a decoder gives the same values back.

    The id comes last: see `app.dialects.client_format`.
    `retry` is in milliseconds; an empty event name is the same as none. `data` may hold any
    text but CR: the format has no way to carry it (JSON text, which writes it as an escape,
    never holds one).

    Raises:
        ValueError: a value holds what the format cannot carry.
    """
    lines = []
    if retry is not None:
        if not 0 <= retry <= MAX_RETRY_MS:
            raise ValueError(f"retry must be 0 to {MAX_RETRY_MS} ms, not {retry}")
        lines.append(f"retry: {retry}")
    if event is not None:
        if "\r" in event or "\n" in event:
            raise ValueError(f"an event name cannot hold CR or LF: {event!r}")
        lines.append(f"event: {event}")
    if "\r" in data:
        raise ValueError("data cannot hold CR; encode it as JSON first")
    lines.extend(f"data: {line}" for line in data.split("\n"))
    if id is not None:
        if any(character in id for character in "\r\n\0"):
            raise ValueError(f"an id cannot hold CR, LF or NUL: {id!r}")
        lines.append(f"id: {id}")
    return ("\n".join(lines) + "\n\n").encode()
