"""Decoders fed in every way: what they return may not depend on how their input is cut."""

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol

import pytest

from app.framing.sse import FramingError, Message


class AnyDecoder(Protocol):
    def feed(self, data: bytes, /) -> list[Message]: ...
    def close(self) -> Message | None: ...


class AnyFeeder(Protocol):
    def feed(self, data: bytes, /) -> list[Message]: ...


Make = Callable[[], AnyDecoder]
Result = tuple[list[Message], Message | None]


def decode(make: Make, pieces: Iterable[bytes]) -> Result:
    decoder = make()
    messages = [found for piece in pieces for found in decoder.feed(piece)]
    return messages, decoder.close()


def decode_until_failure(make: Make, pieces: Iterable[bytes]) -> tuple[list[Message], str]:
    """Return the messages, the unfinished one included, and the failure, after which all calls fail."""
    decoder = make()
    messages: list[Message] = []
    try:
        for piece in pieces:
            messages += decoder.feed(piece)
        rest = decoder.close()
    except FramingError as error:
        for call in (decoder.close, lambda: decoder.feed(b"{}\n\n"), lambda: decoder.feed(b"")):
            with pytest.raises(FramingError, match=re.escape(str(error))):
                call()
        return messages, str(error)
    return [*messages, *([] if rest is None else [rest])], ""


def in_bytes(wire: bytes) -> list[bytes]:
    return [wire[at : at + 1] for at in range(len(wire))]


def in_reads(wire: bytes, size: int) -> list[bytes]:
    return [wire[at : at + size] for at in range(0, len(wire), size)]


def in_pieces(wire: bytes, places: Iterable[int]) -> list[bytes]:
    bounds = [0, *sorted(place for place in places if place < len(wire)), len(wire)]
    return [wire[start:end] for start, end in pairwise(bounds)]


def chunkings(wire: bytes) -> Iterator[list[bytes]]:
    """Cut whole, in bytes, in two at every place, at random, and with empty reads between."""
    yield [wire]
    yield in_bytes(wire)
    for place in range(1, len(wire)):
        yield [wire[:place], wire[place:]]
    generator = random.Random(wire)
    for count in (2, 3, 5, 8, 13):
        yield in_pieces(wire, generator.sample(range(len(wire) + 1), min(count, len(wire))))
    yield [b"", wire, b""]
    yield [piece for byte in in_bytes(wire) for piece in (b"", byte, b"")]


def assert_read(make: Make, wire: bytes, messages: list[Message], rest: Message | None) -> None:
    """Check the messages of a body, and what its end leaves, however it is cut."""
    for pieces in chunkings(wire):
        assert (pieces, (messages, rest)) == (pieces, decode(make, pieces))


def cpu_seconds(make: Callable[[], AnyFeeder], reads: Sequence[bytes]) -> float:
    """Return the least of three runs, in time of the processor, which other load hardly moves."""

    def run() -> float:
        decoder = make()
        start = time.thread_time()
        for read in reads:
            decoder.feed(read)
        return time.thread_time() - start

    return min(run() for _ in range(3))
