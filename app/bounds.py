"""Bounds on one request of any dialect: JSON values, messages, parts and tools.

The size of a body does not bound them: a byte of JSON becomes up to a hundred bytes of
objects, and each part of a message blocks the event loop for some microseconds.
"""

from collections.abc import Collection, Iterable
from itertools import accumulate
from typing import Final

from .errors import RequestError

MAX_VALUES: Final = 200_000
"""Values in a body, and again in the JSON texts in it; a list or an object counts as two.

About 40 MB of objects. A usual body of 4 MiB has some 10,000."""

MAX_DEPTH: Final = 500
"""Nesting of lists and objects. The interpreter's limit is below 1,000, and a request with no
more brackets than this needs no scan."""

MAX_MESSAGES: Final = 10_000
MAX_PARTS: Final = 10_000
"""Parts of content, tool calls and their opaque values in all messages together."""
MAX_TOOLS: Final = 1_000

CHUNK_SIZE: Final = 65_536
_NO_MARKS: Final = bytes(set(range(256)) - set(b'[]{},"'))
_NO_OPENING: Final = bytes(set(range(256)) - set(b"[{"))
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Maps brackets to 1 and, as a signed byte, -1."""


def check_json(body: bytes, *, max_values: int = MAX_VALUES) -> None:
    """Refuse JSON with too many values, before decoding it.

    Raises:
        RequestError: `invalid_request`, with the bound.
    """
    if _is_small(body):
        return
    if (reason := Budget(max_values).refuse(body)) is not None:
        raise RequestError("invalid_request", f"the body {reason}")


def check_parts(lists: Iterable[object], *, path: str) -> None:
    """Refuse too many parts in all messages together; a value that is not a list has none.

    Raises:
        RequestError: `invalid_request`, with the path and the bound.
    """
    count = sum(len(one) for one in lists if isinstance(one, list))
    if count > MAX_PARTS:
        raise RequestError(
            "invalid_request",
            f"{path}: {count} parts and tool calls; send at most {MAX_PARTS}",
        )


def check_texts(texts: Collection[str], *, path: str) -> None:
    """Refuse JSON texts that have too many values together.

    Raises:
        RequestError: `invalid_request`, with the path and the bound.
    """
    if not texts or _is_small("".join(texts).encode()):
        return
    budget = Budget()
    for text in texts:
        if (reason := budget.refuse(text.encode())) is not None:
            raise RequestError("invalid_request", f"{path}, with those before them, {reason}")


def has_more_values(text: bytes, most: int) -> bool:
    """Return whether JSON has more than `most` values, without decoding it."""
    return len(text) > most and measure(text, most=most)[0] > most


class Budget:
    """The values that may still be decoded from the JSON texts of one request."""

    def __init__(self, most: int = MAX_VALUES) -> None:
        self._most = self._left = most

    def refuse(self, text: bytes) -> str | None:
        """Return the reason to refuse a text; None if it may be decoded, then count its values.

        Invalid JSON may pass: its decoder builds no more values than are counted.
        """
        opened = len(text.translate(None, _NO_OPENING))
        if opened <= MAX_DEPTH and len(text) <= self._left:
            self._left -= opened + text.count(b",") + 1
            return None
        values, depth = measure(text, most=self._left)
        if values > self._left:
            return f"has more than {self._most} values; send fewer"
        if depth > MAX_DEPTH:
            return f"is nested too deeply: more than {MAX_DEPTH} levels"
        self._left -= values
        return None


def _is_small(text: bytes) -> bool:
    """Return whether a text is within the bounds by its size alone: 2 us for 1 KB."""
    return len(text) <= MAX_VALUES and len(text.translate(None, _NO_OPENING)) <= MAX_DEPTH


def measure(
    text: bytes, *, most: int = MAX_VALUES, chunk_size: int = CHUNK_SIZE
) -> tuple[int, int]:
    """Count the values of a text, up to `most`, and its levels, in chunks of `chunk_size` marks.

    The time is linear, and only the marks are copied. Invalid JSON is counted as a decoder
    reads it, up to the first error.
    """
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Adjacent quotes are now a string without marks, or the boundary between two strings.
    marks = text.translate(None, _NO_MARKS).replace(b'""', b"")
    values, quoted, level, deepest = 1, 0, 0, 0
    for start in range(0, len(marks), chunk_size):
        pieces = marks[start : start + chunk_size].split(b'"')
        outside = b"".join(pieces[quoted::2])
        quoted ^= (len(pieces) - 1) & 1
        brackets = outside.translate(None, b",")
        values += len(outside) - len(brackets) + len(outside.translate(None, _NO_OPENING))
        if values > most:
            break
        levels = list(accumulate(memoryview(brackets.translate(_STEPS)).cast("b"), initial=level))
        level, deepest = levels[-1], max(deepest, max(levels))
    return values, deepest
