"""What reading megabytes costs: as `test_growth.py`, over as much as it takes to be sure."""

import random

import pytest

from app.framing.ndjson import NdjsonDecoder
from app.framing.sse import Decoder
from tests.framing.feeding import AnyFeeder, cpu_seconds, in_bytes, in_reads
from tests.framing.test_growth import ROWS, Array

pytestmark = [pytest.mark.proving, pytest.mark.alone]


@pytest.mark.parametrize(("make", "piece"), ROWS, ids=lambda one: repr(one)[:30])
def test_time_of_single_byte_reads_grows_with_their_number(
    make: type[AnyFeeder], piece: bytes
) -> None:
    """Linear is 4 times as long for 4 times as much, quadratic 16 times."""
    wire = (piece * (160_000 // len(piece) + 1))[:160_000]
    reads = in_bytes(wire)

    assert cpu_seconds(make, reads) < 9 * cpu_seconds(make, reads[:40_000])


@pytest.mark.parametrize("field", [b"data: ", b": ", b"id: ", b"unknown: "], ids=repr)
def test_one_line_of_megabytes_takes_about_as_long_as_short_ones(field: bytes) -> None:
    """Memory fresh from the system makes it 5 times as long; quadratic would be 28 times."""
    one = in_reads(field + b"x" * 15 * 2**20 + b"\n\n", 16_384)
    many = in_reads((field + b"x" * 15 * 2**14 + b"\n\n") * 64, 16_384)

    assert cpu_seconds(Decoder, one) < 12 * cpu_seconds(Decoder, many)


def test_one_element_of_megabytes_takes_about_as_long_as_short_ones() -> None:
    long = b'{"a":"' + random.Random(1).randbytes(3_000_000).hex().encode() + b'"}'

    assert cpu_seconds(Array, in_reads(long, 16_384)) < 0.5


@pytest.mark.parametrize("piece", [b'\\"', b'"\\', b"[\n", b'"'], ids=repr)
def test_odd_lines_take_no_time(piece: bytes) -> None:
    wire = b'{"' + piece * 50_000 + b"\n"

    assert cpu_seconds(NdjsonDecoder, [wire * 4]) < 12 * cpu_seconds(NdjsonDecoder, [wire])
