"""What reading costs: in time that grows with the input, and no faster; a short look at it."""

import pytest

from app.framing.eventstream import Decoder as FrameDecoder
from app.framing.json_array import JsonArray
from app.framing.lenient import LenientDecoder
from app.framing.ndjson import NdjsonDecoder
from app.framing.sse import Decoder
from tests.framing.feeding import AnyFeeder, cpu_seconds, in_reads
from tests.framing.frames import event


class Array(JsonArray):
    """One whose bracket has come."""

    def __init__(self) -> None:
        super().__init__(max_size=2**24)
        self.feed(b"[")


LONG = [
    (Decoder, b"x"),
    (Decoder, b"data: x\n"),
    (LenientDecoder, b'{"a":\n'),
    *[(NdjsonDecoder, piece) for piece in (b"1", b'"\\"', b'{"')],
    (Array, b'{"a":"' + b"x" * 200_000),
    (FrameDecoder, event("a", {"text": "x" * 200_000})),
]
"""What makes a decoder, and what makes one long line, event or element when it is repeated."""
SHORT = [
    *[(Decoder, line) for line in (b": x\r\n", b"data: x\r\r", b"id: x\r")],
    (LenientDecoder, b"data: x\n\n"),
    *[(NdjsonDecoder, line) for line in (b"1\n", b"[\n]\n")],
    *[(Array, element) for element in (b'{"a":1},', b'{"a":"\\\\"},')],
]
"""What makes a decoder, and what makes many of them."""
ROWS = [*LONG, *SHORT]


@pytest.mark.parametrize(
    ("make", "piece", "size"),
    [*((*row, 100) for row in LONG), *((*row, 10) for row in SHORT)],
    ids=lambda one: repr(one)[:40],
)
def test_time_grows_with_the_number_of_reads(
    make: type[AnyFeeder], piece: bytes, size: int
) -> None:
    """Linear is 10 times as long for 10 times as much, quadratic 70 times."""
    reads = in_reads(piece * (2000 * size // len(piece) + 1), size)[:2000]

    assert cpu_seconds(make, reads) < 30 * cpu_seconds(make, reads[:200])


@pytest.mark.parametrize("piece", [b'\\"', b'"\\', b"[\n", b'"'], ids=repr)
def test_odd_lines_take_no_time(piece: bytes) -> None:
    wire = b'{"' + piece * 2000

    assert cpu_seconds(NdjsonDecoder, [wire * 8 + b"\n"]) < 24 * cpu_seconds(
        NdjsonDecoder, [wire + b"\n"]
    )
