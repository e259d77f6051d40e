"""Amazon's event streams: frames with right checksums and any content, beside botocore's reader."""

import contextlib
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from botocore.eventstream import ChecksumMismatch, EventStreamBuffer, ParserError

from app.framing.eventstream import TRUNCATED, Decoder, parse_headers
from tests.framing import frames
from tests.fuzz.target import (
    CUTS,
    Target,
    check_cuts,
    check_linear,
    check_memory,
    decode,
    in_pieces,
    split,
)

LIMIT = 60
KNOWN = (":message-type", ":event-type", ":exception-type", ":error-code", ":error-message")


def check(data: bytes) -> None:
    choice, script = split(data)
    for body in (script, b"".join(build(script))):
        found, rest, failure = check_cuts(Decoder, body, choice)
        assert rest is None or rest.event in (TRUNCATED, "message")
        assert not failure or (len(failure) < 200 and failure.isprintable())
        check_cuts(lambda body=body: Decoder(max_line=LIMIT, max_event=LIMIT), body, choice)  # type: ignore[misc]
        limited = Decoder(max_line=LIMIT, max_event=LIMIT)
        check_memory(limited, body, limit=2 * LIMIT + 16, choice=choice)
        if not body.startswith(b"{"):
            check_peer(body, found)
    size = CUTS[choice >> 5]
    check_linear(lambda grown: decode(Decoder(), in_pieces(grown, size)), body)
    with contextlib.suppress(ValueError):
        parse_headers(script)


def check_peer(body: bytes, found: list[Any]) -> None:
    """Assert that botocore reads the same frames, up to the first that one of both refuses."""
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    expected: list[tuple[str, str]] = []
    try:
        for message in buffer:
            named = {name: one for name, one in message.headers.items() if isinstance(one, str)}
            kind = named.get(":message-type", "")
            payload = message.payload.decode(errors="replace")
            if kind == "error":
                expected.append((f"error:{named.get(':error-code', '')}", ""))
                continue
            name = ":exception-type" if kind == "exception" else ":event-type"
            expected.append((f"{kind}:{named.get(name, '')}", payload))
    except ChecksumMismatch:
        assert len(found) <= len(expected), "a frame with a wrong checksum"
    except (ParserError, ValueError, KeyError, struct.error):
        pass  # more than ours, or less
    both = min(len(expected), len(found))
    assert expected[:both] == shown(found)[:both]


def shown(found: list[Any]) -> list[tuple[str, str]]:
    return [(one.event, "" if one.event.startswith("error:") else one.data) for one in found]


def build(script: bytes) -> Iterator[bytes]:
    """Yield frames of which a script says what is in them, and what is wrong with them."""
    at = 0
    while at + 4 <= len(script):
        kind, first, second, size = script[at : at + 4]
        at += 4
        one, payload = script[at : at + second], script[at + second : at + second + size]
        at += second + size
        headers = one
        if kind & 1:
            headers = frames.text(KNOWN[first % 5], one.decode("latin-1"))
        if kind & 2:
            headers += frames.text(":message-type", ("event", "exception", "error", "")[kind >> 6])
        made = frames.frame(headers, payload)
        if kind & 4:
            made = made[: max(1, len(made) - first)]
        if kind & 8 and first < len(made):
            made = made[:first] + bytes((made[first] ^ 1,)) + made[first + 1 :]
        if kind & 16:  # lengths that lie, with a checksum that does not
            lengths = struct.pack(">II", first * second, size)
            made = lengths + struct.pack(">I", zlib.crc32(lengths)) + made[12:]
        yield made


TARGET = Target(
    check,
    seeds=(
        b"\x00" + frames.frame(frames.text(":message-type", "event"), b'{"a":1}'),
        b"\x01" + b"\x03\x01\x05\x07chunk" + b'{"a":1}' + b"\x43\x02\x04\x02name{}",
        b"\x3f" + b"\x83\x03\x04\x00code" + b"\x04\x09\x00\x04abcd" + b"\x10\x00\x00\x00",
        b'\x02{"message": "no"}',
        b"\x03\x00\x00\x0a\x00\x01a\x00\x01b\x02\x07\x01c\x08",
        b"\x04" + b"\x08\x0e\x02\x02ab{}",
    ),
    tokens=(b"\x00", b"\x07", b"\x06", b"\x09", b"\x01a\x00", b"\x01b\x07\x00\x01x", b"{}"),
)
