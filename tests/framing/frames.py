"""Frames of Amazon's event stream, written for tests."""

import json
import struct
import zlib
from typing import Any


def header(name: str, kind: int, value: bytes) -> bytes:
    """Return a header whose value is written as it stands, its length included."""
    return bytes([len(name)]) + name.encode() + bytes([kind]) + value


def text(name: str, value: str) -> bytes:
    return header(name, 7, struct.pack(">H", len(value.encode())) + value.encode())


def frame(headers: bytes, payload: bytes = b"") -> bytes:
    prelude = struct.pack(">II", len(headers) + len(payload) + 16, len(headers))
    rest = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return rest + struct.pack(">I", zlib.crc32(rest))


def event(name: str, document: Any) -> bytes:
    headers = text(":event-type", name) + text(":content-type", "application/json")
    return frame(headers + text(":message-type", "event"), json.dumps(document).encode())


def exception(name: str, document: Any) -> bytes:
    headers = text(":exception-type", name) + text(":content-type", "application/json")
    return frame(headers + text(":message-type", "exception"), json.dumps(document).encode())


def error(code: str, message: str) -> bytes:
    return frame(
        text(":message-type", "error") + text(":error-code", code) + text(":error-message", message)
    )
