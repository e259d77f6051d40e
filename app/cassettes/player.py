"""Conversion of a tape to timed replay steps. Pure; the caller waits."""

import random
from collections.abc import Iterator
from itertools import chain
from typing import Literal, NamedTuple

import msgspec

from ..errors import CODES, RequestError
from ..events import ErrorInfo, StreamEnd, encode
from .cassette import Cassette
from .options import CassetteOptions

MAX_EVENTS_PER_READ = 6
"""The maximum number of events in a randomized read."""
MAX_READ_BYTES = 16_384
"""Approximate bytes: a replay of a whole answer yields to other tasks between reads."""


class Read(NamedTuple):
    """Bytes, after a delay in seconds."""

    wait_s: float
    data: bytes


class Silence(NamedTuple):
    """A stall of that many seconds; None: forever."""

    seconds: float | None


Cut = Literal["cut"]
"""The connection breaks."""

Step = Read | Silence | Cut


def check_places(tape: Cassette, playback: CassetteOptions) -> None:
    """Refuse a fault after an event that does not exist, since it would never occur.

    Raises:
        RequestError: `invalid_request`, with the option.
    """
    for option in ("cut_at", "stall_at", "error_at"):
        place = getattr(playback, option)
        if place is not None and place > tape.last:
            raise RequestError(
                "invalid_request",
                f"model: {option}: the cassette {playback.name!r} has {tape.last} events",
            )


def play(tape: Cassette, playback: CassetteOptions) -> Iterator[Step]:
    """Yield the steps of a replay; faults at the same place in the order stall, error, cut."""
    # Not for secrets: the same seed must produce the same reads.
    rng = None if playback.seed is None else random.Random(playback.seed)  # noqa: S311
    reads = _Reads(rng, playback.speed)
    for number, (at, line) in enumerate(chain(((0.0, b""),), _lines(tape)), 1):
        if line:
            yield from reads.add(at, line)
        if number == playback.stall_at:
            yield from reads.flush()
            yield Silence(playback.stall_s)
        if number == playback.error_at:
            yield from reads.flush()
            yield Read(0, _failure(playback))
            return
        if number == playback.cut_at:
            yield from reads.flush()
            yield "cut"
            return
    yield from reads.flush()


def _lines(tape: Cassette) -> Iterator[tuple[float, bytes]]:
    for at, event in tape.played:
        yield at, encode(event) + b"\n"


def _failure(playback: CassetteOptions) -> bytes:
    code = playback.error
    message = f"upstream 'cassette' failed, as error_at={playback.error_at} asks"
    info = ErrorInfo(code, message, CODES[code].retryable)
    return encode(StreamEnd("failed", "error", error=info)) + b"\n"


class _Reads:
    """Groups events into reads: as recorded, or randomized."""

    def __init__(self, rng: random.Random | None, speed: float) -> None:
        self._rng = rng
        self._speed = speed
        self._at = self._before = 0.0
        self._pending: list[bytes] = []
        self._size = 0

    def add(self, at: float, line: bytes) -> Iterator[Read]:
        """Add an event; yield the reads that are complete."""
        if self._rng is None:
            full = at > self._at
        else:
            full = len(self._pending) >= self._rng.randint(1, MAX_EVENTS_PER_READ)
        if full or self._size >= MAX_READ_BYTES:
            yield from self.flush()
        self._at = at
        self._pending.append(line)
        self._size += len(line)

    def flush(self) -> Iterator[Read]:
        """Yield the pending events."""
        if not self._pending:
            return
        data, self._pending, self._size = b"".join(self._pending), [], 0
        wait_s = (self._at - self._before) / self._speed if self._speed else 0.0
        self._before = self._at
        if self._rng is None:
            yield Read(wait_s, data)
            return
        cut = self._rng.randint(0, len(data) - 1)
        yield Read(wait_s * self._rng.uniform(0.5, 1.5), data[: cut or None])
        if cut:
            yield Read(0, data[cut:])


def encode_playback(playback: CassetteOptions) -> bytes:
    """Encode a playback as the body of a call."""
    return msgspec.json.encode(playback)


decode_playback = msgspec.json.Decoder(CassetteOptions).decode
