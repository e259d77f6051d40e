"""Decoder of content codings (RFC 9110, 8.4): gzip, deflate, and zstd where Python has it. No I/O.

`compression.zstd` is in Python 3.14; for older ones `backports.zstd` is used if it is installed.
"""

import contextlib
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, Final

from .sse import FramingError

PIECE_BYTES: Final = 32 * 1024
"""The most bytes that are decoded at once, of input and of output."""

MAX_RATIO: Final = 200
"""How much larger than its input an output above `FREE_BYTES` may be: text and JSON reach 10 to 50,
deflate 1032, zstd 30,000."""

FREE_BYTES: Final = 2**20

MAX_MEMBERS: Final = 100
"""The most members or frames of one body: beginning one takes 10 us, and it may have 20 bytes."""

MAX_WINDOW_LOG: Final = 23
"""The memory of a zstd decoder, 8 MiB: the limit for HTTP (RFC 9659)."""


def _new_deflate(data: bytes) -> Any:
    """Return a decoder for zlib's format, or for what some servers send: deflate without it."""
    has_header = data[0] & 0x0F == zlib.DEFLATED  # else no deflate begins like this
    return zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)


def _new_zstd(zstd: Any, _: bytes) -> Any:
    return zstd.ZstdDecompressor(
        options={zstd.DecompressionParameter.window_log_max: MAX_WINDOW_LOG}
    )


_NEW: Final[dict[str, Callable[[bytes], Any]]] = {
    "gzip": lambda _: zlib.decompressobj(16 + zlib.MAX_WBITS),
    "deflate": _new_deflate,
}
_errors: list[type[Exception]] = [zlib.error]

for _module in ("compression.zstd", "backports.zstd"):
    if "zstd" not in _NEW:
        with contextlib.suppress(ImportError):
            _NEW["zstd"] = partial(_new_zstd, _zstd := import_module(_module))
            _errors.append(_zstd.ZstdError)

_ERRORS: Final = tuple(_errors)

CODINGS: Final = tuple(_NEW)
"""The codings that are decoded."""

_NONE: Final = frozenset(("", "identity", "none", "utf-8", "utf8"))
"""What is sent for no coding; "identity" is correct."""


def name_coding(value: str) -> str:
    """Return the coding that a `content-encoding` names, "identity" for none."""
    name = value.strip().lower()[:40]
    return "identity" if name in _NONE else name.removeprefix("x-")


class ContentDecoder:
    """Decodes one body of a coding in `CODINGS`, piece by piece, in linear time."""

    def __init__(self, coding: str) -> None:
        self._new = _NEW[coding]
        self._coding = coding
        self._member: Any = None
        self._members = 0
        self._taken = self._returned = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what the next bytes decode to, in pieces of at most `PIECE_BYTES`.

        Raises:
            FramingError: they are no such coding, or decode to much more than they are.
        """
        for start in range(0, len(data), PIECE_BYTES):
            rest = data[start : start + PIECE_BYTES]
            self._taken += len(rest)
            piece = b""
            while rest or len(piece) == PIECE_BYTES:
                if self._member is None or (self._member.eof and rest):
                    self._begin(rest)
                try:
                    piece = self._member.decompress(rest, PIECE_BYTES)
                except _ERRORS:
                    raise FramingError(f"its data is not {self._coding}") from None
                self._returned += len(piece)
                if self._returned > max(FREE_BYTES, MAX_RATIO * self._taken):
                    raise FramingError(f"it decodes to more than {MAX_RATIO} times its size")
                if piece:
                    yield piece
                if self._member.eof:
                    rest, piece = self._member.unused_data, b""
                else:
                    rest = getattr(self._member, "unconsumed_tail", b"")  # zstd keeps its own

    def close(self) -> None:
        """End the input.

        Raises:
            FramingError: it is incomplete.
        """
        if self._member is not None and not self._member.eof:
            raise FramingError(f"its {self._coding} data is incomplete")

    def _begin(self, data: bytes) -> None:
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise FramingError(f"it has more than {MAX_MEMBERS} parts in {self._coding}")
        self._member = self._new(data)
