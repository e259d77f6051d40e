"""Amazon's binary frames, whole, in pieces and broken."""

import json
import struct
import zlib
from bisect import bisect
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from app.framing.eventstream import MAX_HEADERS, TRUNCATED, Decoder
from app.framing.sse import FramingError, Message
from tests.dialects.streams import absent, body_of, index
from tests.framing.feeding import assert_read, decode, decode_until_failure, in_bytes
from tests.framing.frames import error, event, exception, frame, header, text

pytestmark = pytest.mark.pure

INDEX = index("index.json")
ROWS = (
    [absent()]
    if INDEX is None
    else [
        pytest.param(row, id=row["file"])
        for row in INDEX["streams"]
        if row["framing"] == "aws-eventstream"
    ]
)
A = event("a", {"n": 1})
B = event("b", {"text": "せせらぎ"})


EVERY_TYPE = b"".join(
    (
        header("yes", 0, b""),
        header("no", 1, b""),
        header("byte", 2, b"\xff"),
        header("short", 3, b"\x00\x01"),
        header("int", 4, b"\x00" * 4),
        header("long", 5, b"\x00" * 8),
        header("bytes", 6, b"\x00\x02ab"),
        header("no-bytes", 6, b"\x00\x00"),
        header("time", 8, b"\x00" * 8),
        header("uuid", 9, b"\x00" * 16),
        text(":event-type", "e"),
        text(":message-type", "event"),
    )
)

CASES: list[tuple[str, bytes, list[Message], Message | None]] = [
    ("nothing", b"", [], None),
    ("an-event", A, [Message("event:a", '{"n": 1}')], None),
    (
        "two-events",
        A + B,
        [
            Message("event:a", '{"n": 1}'),
            Message("event:b", '{"text": "\\u305b\\u305b\\u3089\\u304e"}'),
        ],
        None,
    ),
    (
        "an-exception",
        exception("throttlingException", {"message": "slow"}),
        [Message("exception:throttlingException", '{"message": "slow"}')],
        None,
    ),
    (
        "an-error",
        error("InternalError", 'it "broke"'),
        [Message("error:InternalError", '{"message": "it \\"broke\\""}')],
        None,
    ),
    ("every-type-of-header", frame(EVERY_TYPE, b"x"), [Message("event:e", "x")], None),
    ("no-headers", frame(b"", b"x"), [Message(":", "x")], None),
    ("no-payload", frame(text(":message-type", "event")), [Message("event:", "")], None),
    ("no-message-type", frame(text(":event-type", "a")), [Message(":a", "")], None),
    (
        "an-event-named-like-an-exception",
        frame(text(":event-type", "exception:a") + text(":message-type", "event")),
        [Message("event:exception:a", "")],
        None,
    ),
    ("bad-utf-8", frame(b"", b"a\xe3\x81"), [Message(":", "a\ufffd")], None),
    ("characters", frame(b"", "せ".encode()), [Message(":", "せ")], None),
    ("half-a-prelude", A + B[:5], [Message("event:a", '{"n": 1}')], Message(TRUNCATED, "")),
    ("half-a-frame", A + B[:-1], [Message("event:a", '{"n": 1}')], Message(TRUNCATED, "")),
    ("one-byte", A[:1], [], Message(TRUNCATED, "")),
    ("a-document", b'{"message": "no"}', [], Message("message", '{"message": "no"}')),
    ("a-document-that-is-cut", b'{"mess', [], Message("message", '{"mess')),
]


@pytest.mark.parametrize(
    ("wire", "messages", "rest"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_frames_are_read_however_they_are_cut(
    wire: bytes, messages: list[Message], rest: Message | None
) -> None:
    assert_read(Decoder, wire, messages, rest)


@pytest.mark.parametrize("row", ROWS)
def test_recordings_are_read_as_botocore_reads_them_and_only_a_border_leaves_nothing(
    row: dict[str, Any],
) -> None:
    body = body_of(row)
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    theirs = [Message(f"event:{e.headers[':event-type']}", e.payload.decode()) for e in buffer]
    borders = [0]
    while borders[-1] < len(body):
        borders.append(borders[-1] + struct.unpack_from(">I", body, borders[-1])[0])

    assert len(body) == borders[-1]
    assert theirs
    assert (theirs, None) == decode(Decoder, [body])
    decoder = Decoder()
    messages: list[Message] = []
    for size, byte in enumerate(in_bytes(body), 1):
        messages += decoder.feed(byte)
        assert bisect(borders, size) - 1 == len(messages)
        assert (None if size in borders else Message(TRUNCATED, "")) == decoder.close()
    assert theirs == messages


def changed(wire: bytes, at: int) -> bytes:
    return wire[:at] + bytes([wire[at] ^ 1]) + wire[at + 1 :]


def test_a_wrong_bit_is_an_error() -> None:
    for at in range(len(B)):
        with pytest.raises(FramingError, match="checksum"):
            Decoder().feed(changed(B, at))


def prelude(total: int, headers: int) -> bytes:
    lengths = struct.pack(">II", total, headers)
    return lengths + struct.pack(">I", zlib.crc32(lengths))


@pytest.mark.parametrize(
    ("wire", "told"),
    [
        (prelude(15, 0), "shorter than its headers"),
        (prelude(0, 0), "shorter than its headers"),
        (prelude(20, 5), "shorter than its headers"),
        (prelude(2**32 - 1, 2**32 - 1), "shorter than its headers"),
        (prelude(MAX_HEADERS + 17, MAX_HEADERS + 1), "headers are longer"),
        (prelude(2**31, 0), "an event is longer"),
        (frame(header("a", 10, b"")), "unknown header type 10"),
        (frame(b"\x05ab"), "unexpected end of headers"),
        (frame(b"\x01a"), "unexpected end of headers"),
        (frame(header("a", 7, b"\x00\x05ab")), "unexpected end of headers"),
        (frame(header("a", 7, b"\x00")), "unexpected end of headers"),
        (frame(header("a", 9, b"\x00")), "unexpected end of headers"),
    ],
)
def test_an_impossible_frame_is_an_error_at_once(wire: bytes, told: str) -> None:
    decoder = Decoder()
    messages = [m for i in range(len(A)) for m in decoder.feed(A[i : i + 1])]
    assert len(messages) == 1

    with pytest.raises(FramingError, match=told):
        decoder.feed(wire)
    with pytest.raises(FramingError, match=told):
        decoder.feed(B)
    with pytest.raises(FramingError, match=told):
        decoder.close()


def test_frames_before_a_broken_one_are_returned_first() -> None:
    decoder = Decoder()

    assert len(decoder.feed(A + changed(B, 20) + A)) == 1
    with pytest.raises(FramingError, match="checksum"):
        decoder.feed(b"")


def test_the_limits_are_the_callers() -> None:
    payload = json.dumps({"n": 1})

    assert len(Decoder(max_event=len(payload)).feed(A)) == 1
    with pytest.raises(FramingError, match=f"limit of {len(payload) - 1} bytes"):
        Decoder(max_event=len(payload) - 1).feed(A)
    with pytest.raises(FramingError, match="headers are longer than 10 bytes"):
        Decoder(max_line=10).feed(A)
    with pytest.raises(FramingError, match="JSON longer than the limit of 3 bytes"):
        Decoder(max_event=3).feed(b'{"a"')


def test_nothing_is_kept_of_what_was_read() -> None:
    decoder = Decoder()
    for _ in range(100):
        decoder.feed(A)

    assert len(decoder._buffer) == 0


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_any_bytes_are_messages_or_an_error(pieces: list[bytes]) -> None:
    whole = decode_until_failure(Decoder, [b"".join(pieces)])

    assert whole == decode_until_failure(Decoder, pieces)
