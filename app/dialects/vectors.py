"""Encodings of vectors in JSON: a list of numbers, or base64 of float32. No I/O."""

import base64
import binascii
import sys
from array import array
from typing import Final

import msgspec

_NUMBERS: Final = b"0123456789+-.eE, \t\r\n[]"

_decoder = msgspec.json.Decoder(list[float])


def as_numbers(vector: bytes) -> bytes:
    """Return a vector as a list of numbers.

    Raises:
        ValueError: it is not a vector.
    """
    if vector[:1] == b"[":
        if vector.count(b"[") > 1 or vector.translate(None, _NUMBERS):
            raise ValueError("not numbers")
        return vector
    return msgspec.json.encode(_read(vector).tolist())


def as_base64(vector: bytes) -> bytes:
    """Return a vector as a JSON string: base64 of little-endian float32.

    Raises:
        ValueError: it is not a vector.
    """
    if vector[:1] != b"[":
        _read(vector)
        return vector
    try:
        numbers = array("f", _decoder.decode(vector))
    except (msgspec.MsgspecError, OverflowError):
        raise ValueError("not numbers") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    return b'"%b"' % base64.b64encode(numbers.tobytes())


def _read(text: bytes) -> "array[float]":
    numbers = array("f")
    try:
        data = base64.b64decode(text.strip(b'"'), validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None
    if len(data) % numbers.itemsize or not text.startswith(b'"'):
        raise ValueError("not a list of numbers")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
