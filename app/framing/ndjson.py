"""Decoder of newline-delimited JSON, and the escapes of line ends that it needs. No I/O.

A line ends at LF; a CR before it is not part of the line. U+2028 and its kind do not end a
line, since they may occur unescaped in a JSON string. Blank lines and a BOM are dropped.
Every other line is a message of the type "message", valid JSON or not.

Proxies that pretty-print produce JSON over several lines: if the brackets of a line do not
balance, the following lines belong to it until they do.
"""

import re
from typing import Final, NoReturn

import msgspec

from .sse import BOM, FramingError, Message

_SPACE: Final = b" \t\r"
_json: Final = msgspec.json.Decoder(msgspec.Raw)
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+("?)')
"""A string, or the part of one on this line; the group matches its closing quote, if any."""


class NdjsonDecoder:
    """Incremental decoder: `feed` bytes as they arrive, `close` at the end of input.

    The result does not depend on chunk boundaries. Memory is bounded by `max_line` plus
    `max_event`, in bytes; `max_event` limits the text of one message. Beyond a limit, complete
    messages are still returned; the next call (the same one if there were none) raises
    `FramingError`, and so does every later call.
    """

    def __init__(self, *, max_line: int = 16 * 2**20, max_event: int = 16 * 2**20) -> None:
        self._max_line = max_line
        self._max_event = max_event
        self._at_start = True
        self._partial = bytearray()
        self._open = bytearray()
        """Lines of JSON whose brackets do not balance yet."""
        self._depth = 0
        self._failure = ""
        self._messages: list[Message] = []

    def feed(self, data: bytes) -> list[Message]:
        """Append the next bytes; return the messages that they complete.

        Raises:
            FramingError: a line or a message is longer than its limit.
        """
        if self._failure:
            raise FramingError(self._failure)
        if self._at_start:
            data = self._without_bom(data)
        *lines, rest = data.split(b"\n")
        try:
            for line in lines:
                self._line(self._joined(line))
            self._partial += rest
            self._check_line(len(self._partial))
        except FramingError:
            if not self._messages:
                raise
        messages, self._messages = self._messages, []
        return messages

    @property
    def malformed(self) -> bool:
        """False: every line is a message, and the parser rejects invalid ones."""
        return False

    def close(self) -> Message | None:
        """End the input; return the unfinished message, if any.

        The caller decides by its data: complete JSON lacks only the line end, anything else
        means that the stream was truncated.

        Raises:
            FramingError: a line or a message is longer than its limit.
        """
        if self._failure:
            raise FramingError(self._failure)
        rest = bytes(self._partial).rstrip(_SPACE)
        text = b"\n".join(part for part in (bytes(self._open), rest) if part)
        self._check_event(len(text))
        return _message(text) if text.strip(_SPACE) else None

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
        if not self._partial:
            return rest
        line = bytes(self._partial + rest)
        self._partial.clear()
        return line

    def _line(self, line: bytes) -> None:
        self._check_line(len(line))
        line = line.rstrip(_SPACE)
        if not line:
            return
        # Nearly every line is complete JSON; checking that first is ten times as fast.
        depth = 0 if not self._open and _is_json(line) else _depth(line)
        self._check_event(len(self._open) + bool(self._open) + len(line))
        if self._open or depth > 0:
            self._open += b"\n" + line if self._open else line
            self._depth += depth
            if self._depth > 0:
                return
            line = bytes(self._open)
            self._open.clear()
            self._depth = 0
        self._messages.append(_message(line))

    def _check_line(self, size: int) -> None:
        if size > self._max_line:
            self._fail(f"a line is longer than the limit of {self._max_line} bytes")

    def _check_event(self, size: int) -> None:
        if size > self._max_event:
            self._fail(f"a message is longer than the limit of {self._max_event} bytes")

    def _fail(self, failure: str) -> NoReturn:
        # Store the text only: the error's traceback would keep the input alive.
        self._failure = failure
        self._partial.clear()
        self._open.clear()
        raise FramingError(failure)


def _is_json(line: bytes) -> bool:
    try:
        _json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _depth(line: bytes) -> int:
    """Return the number of brackets that a line opens minus those that it closes.

    It is 0 for a line that ends inside a string, since JSON strings cannot contain line ends.
    """
    bare, strings = _STRING.subn(rb"\1", line)
    if bare.count(b'"') < strings:
        return 0
    opened = bare.count(b"{") + bare.count(b"[")
    return opened - bare.count(b"}") - bare.count(b"]")


def _message(text: bytes) -> Message:
    return Message("message", text.decode(errors="replace"))


_LINE_ENDS: Final = (
    ("\x85".encode(), rb"\u0085"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)


def escape_line_ends(json: bytes) -> bytes:
    """Return equivalent JSON with U+0085, U+2028 and U+2029 escaped; they only occur in strings.

    `str.splitlines` and line readers built on it, such as httpx's, split there too: unescaped, a
    model's text could forge a line and thereby an event.
    """
    if json.isascii():
        return json
    for raw, escaped in _LINE_ENDS:
        if raw in json:
            json = json.replace(raw, escaped)
    return json
