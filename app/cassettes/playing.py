"""What a replay sends, and when: a tape to steps. Pure; nothing is waited for here."""

import random
from collections.abc import Iterator
from itertools import chain
from typing import Literal, NamedTuple

import msgspec

from ..errors import CODES, RequestError
from ..events import ErrorInfo, StreamEnd, encode
from .playback import Playback
from .tape import Tape

MOST_TOGETHER = 6
"""How many events a read may have that a seed makes."""
LARGEST_READ = 16_384
"""Bytes, about: whoever replays a whole answer at once takes turns with everybody else."""


class Read(NamedTuple):
    """Bytes, after a wait in seconds."""

    wait_s: float
    data: bytes


class Silence(NamedTuple):
    """Nothing comes for so many seconds; None: for ever."""

    seconds: float | None


Cut = Literal["cut"]
"""The connection breaks."""

Step = Read | Silence | Cut


def check_places(tape: Tape, playback: Playback) -> None:
    """Refuse a fault after an event that there is not, which would never come.

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


def play(tape: Tape, playback: Playback) -> Iterator[Step]:
    """Yield the steps of a replay; where two faults have the same place, in this order: stall,
    error, cut."""
    # Not for secrets: the same seed has to give the same reads.
    chance = None if playback.seed is None else random.Random(playback.seed)  # noqa: S311
    reads = _Reads(chance, playback.speed)
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


def _lines(tape: Tape) -> Iterator[tuple[float, bytes]]:
    for at, event in tape.played:
        yield at, encode(event) + b"\n"


def _failure(playback: Playback) -> bytes:
    code = playback.error
    message = f"upstream 'cassette' failed, as error_at={playback.error_at} asks"
    info = ErrorInfo(code, message, CODES[code].retryable)
    return encode(StreamEnd("failed", "error", error=info)) + b"\n"


class _Reads:
    """Events to reads: those that came together come together, or as chance has it."""

    def __init__(self, chance: random.Random | None, speed: float) -> None:
        self._chance = chance
        self._speed = speed
        self._at = self._before = 0.0
        self._held: list[bytes] = []
        self._size = 0

    def add(self, at: float, line: bytes) -> Iterator[Read]:
        """Take an event; yield what is not to wait for more."""
        if self._chance is None:
            full = at > self._at
        else:
            full = len(self._held) >= self._chance.randint(1, MOST_TOGETHER)
        if full or self._size >= LARGEST_READ:
            yield from self.flush()
        self._at = at
        self._held.append(line)
        self._size += len(line)

    def flush(self) -> Iterator[Read]:
        """Yield what is held."""
        if not self._held:
            return
        data, self._held, self._size = b"".join(self._held), [], 0
        wait_s = (self._at - self._before) / self._speed if self._speed else 0.0
        self._before = self._at
        if self._chance is None:
            yield Read(wait_s, data)
            return
        cut = self._chance.randint(0, len(data) - 1)
        yield Read(wait_s * self._chance.uniform(0.5, 1.5), data[: cut or None])
        if cut:
            yield Read(0, data[cut:])


def encode_playback(playback: Playback) -> bytes:
    """Write a playback as the body of a call."""
    return msgspec.json.encode(playback)


decode_playback = msgspec.json.Decoder(Playback).decode
