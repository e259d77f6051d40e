"""What reading costs: in time that grows with the input, and no faster; a short look at it."""

import pytest

from app.framing.eventstream import Decoder as FrameDecoder
from app.framing.json_array import JsonArray
from app.framing.lenient import LenientDecoder
from app.framing.ndjson import NdjsonDecoder
from app.framing.sse import Decoder
from tests.framing.feeding import AnyFeeder, cpu_seconds, in_reads
from tests.framing.frames import event

pytestmark = pytest.mark.pure


class Array(JsonArray):
    """One whose bracket has come."""

    def __init__(self) -> None:
        super().__init__(max_size=2**24)
        self.feed(b"[")


ROWS = [
    *[(Decoder, line) for line in (b"x", b"data: x\n", b": x\r\n", b"data: x\r\r", b"id: x\r")],
    *[(LenientDecoder, line) for line in (b"data: x\n\n", b'{"a":\n')],
    *[(NdjsonDecoder, line) for line in (b"1", b"1\n", b"[\n]\n", b'"\\"', b'{"')],
    *[(Array, element) for element in (b'{"a":"' + b"x" * 200_000, b'{"a":1},', b'{"a":"\\\\"},')],
    (FrameDecoder, event("a", {"text": "x" * 200_000})),
]
"""What makes a decoder, and what is fed to it again and again."""


@pytest.mark.parametrize(("make", "piece"), ROWS, ids=lambda one: repr(one)[:30])
def test_time_grows_with_the_number_of_reads(make: type[AnyFeeder], piece: bytes) -> None:
    """Linear is 10 times as long for 10 times as much, quadratic 70 times."""
    reads = in_reads((piece * (200_000 // len(piece) + 1))[:200_000], 100)

    assert cpu_seconds(make, reads) < 30 * cpu_seconds(make, reads[:200])


@pytest.mark.parametrize("piece", [b'\\"', b'"\\', b"[\n", b'"'], ids=repr)
def test_odd_lines_take_no_time(piece: bytes) -> None:
    wire = b'{"' + piece * 2000

    assert cpu_seconds(NdjsonDecoder, [wire * 8 + b"\n"]) < 24 * cpu_seconds(
        NdjsonDecoder, [wire + b"\n"]
    )
