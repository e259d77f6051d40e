"""Conversion of a cassette to timed replay steps. Pure; the caller waits."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from ..errors import CODES, RequestError
from ..events import ErrorInfo, StreamEnd, encode
from .cassette import Cassette
from .options import CassetteOptions

MAX_READ_BYTES = 16_384
"""Approximate bytes: a replay of a whole answer yields to other tasks between reads."""


class Read(NamedTuple):
    """Bytes, after a delay in seconds."""

    wait_s: float
    data: bytes


class Stall(NamedTuple):
    """A stall of that many seconds; None: forever."""

    seconds: float | None


Cut = Literal["cut"]
"""The connection breaks."""

Step = Read | Stall | Cut


def check_places(cassette: Cassette, options: CassetteOptions) -> None:
    """Refuse a fault after an event that does not exist, since it would never occur.

    Raises:
        RequestError: `invalid_request`, with the option.
    """
    for option in ("cut_at", "stall_at", "error_at"):
        place = getattr(options, option)
        if place is not None and place > cassette.last:
            raise RequestError(
                "invalid_request",
                f"model: {option}: the cassette {options.name!r} has {cassette.last} events",
            )


def play(cassette: Cassette, options: CassetteOptions) -> Iterator[Step]:
    """Yield the steps of a replay; faults at the same place in the order stall, error, cut.

    Events of the same time arrive in one read.
    """
    pending: list[bytes] = []
    size, at, before = 0, 0.0, 0.0

    def flush() -> Iterator[Read]:
        nonlocal pending, size, before
        if pending:
            wait_s = (at - before) / options.speed if options.speed else 0.0
            data, pending, size, before = b"".join(pending), [], 0, at
            yield Read(wait_s, data)

    for number in range(1, cassette.last + 1):
        if number > 1:  # event 1 is the replay's own
            now, event = cassette.events[number - 2]
            if now > at or size >= MAX_READ_BYTES:
                yield from flush()
            at = now
            pending.append(encode(event) + b"\n")
            size += len(pending[-1])
        if number == options.stall_at:
            yield from flush()
            yield Stall(options.stall_s)
        if number == options.error_at:
            yield from flush()
            yield Read(0, _failure(options))
            return
        if number == options.cut_at:
            yield from flush()
            yield "cut"
            return
    yield from flush()


def _failure(options: CassetteOptions) -> bytes:
    code = options.error
    message = f"upstream 'cassette' failed, as error_at={options.error_at} asks"
    info = ErrorInfo(code, message, CODES[code].retryable)
    return encode(StreamEnd("failed", "error", error=info)) + b"\n"


def encode_options(options: CassetteOptions) -> bytes:
    """Encode options as the body of a call."""
    return msgspec.json.encode(options)


decode_options = msgspec.json.Decoder(CassetteOptions).decode
