"""A fuzzing target: what it is fed, and the laws that it checks; and laws of many of them."""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from random import Random
from typing import Any, NamedTuple, Protocol

import pytest

from app.framing.sse import FramingError
from tests.dialects.cost import check_time

GROWN = 2048
"""Bytes of the smaller input of two whose times are compared."""

RARE = 50
"""Of so many inputs one is measured."""

CUTS = (1, 2, 3, 5, 7, 16, 64, 1024)


class Target(NamedTuple):
    """One parser of bytes from outside."""

    check: Callable[[bytes], None]
    """Checks all laws for one input; whatever it raises is a finding."""
    seeds: Sequence[bytes]
    tokens: Sequence[bytes] = ()
    """What the input consists of, in no order."""
    mutate: Callable[[bytes, Random], bytes] | None = None
    """Returns another input; None to change bytes only."""
    costly: bool = False
    """Whether one input takes milliseconds."""


class Decoder(Protocol):
    """As all decoders of `app.framing`."""

    def feed(self, data: bytes) -> list[Any]: ...

    def close(self) -> Any: ...


Decoded = tuple[list[Any], Any, str]
"""The messages, what `close` returned, and the failure."""


def vary(target: Target, dice: Random) -> bytes:
    """Return an input near the seeds, as where no fuzzer is there to find better ones."""
    data = dice.choice(target.seeds)
    if target.mutate is not None and dice.random() < 0.8:
        return target.mutate(data, dice)
    for _ in range(dice.choice((1, 1, 2, 4))):
        at, size = dice.randint(0, len(data)), dice.choice((0, 0, 1, 1, 4, 20))
        match dice.randrange(4):
            case 0:
                new = bytes((dice.randrange(256),))
            case 1 if target.tokens:
                new = dice.choice(target.tokens)
            case 2:
                other = dice.choice(target.seeds)
                start = dice.randint(0, len(other))
                new = other[start : start + dice.choice((4, 20, 200))]
            case _:
                new = b""
        data = data[:at] + new + data[at + size :]
    return data


def inputs(target: Target, *, seed: str, most: int) -> Iterator[bytes]:
    """Yield the seeds of a target, and others near them: the same ones for the same `seed`."""
    dice = Random(seed)
    return chain(target.seeds, (vary(target, dice) for _ in range(most)))


def split(data: bytes) -> tuple[int, bytes]:
    """Return the first byte, which chooses among laws, and the rest."""
    return (data[0], data[1:]) if data else (0, b"")


def in_pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def decode(decoder: Decoder, pieces: Iterable[bytes]) -> Decoded:
    """Return what a decoder makes of pieces; only a `FramingError` may end it early."""
    found: list[Any] = []
    try:
        for piece in pieces:
            found += decoder.feed(piece)
        return found, decoder.close(), ""
    except FramingError as error:
        failure = str(error)
    with pytest.raises(FramingError, match=re.escape(failure)):  # as every later call
        decoder.feed(b"")
    return found, None, failure


def check_refusal(
    message: str,
    *,
    begins: str = "",
    code: tuple[str, str] = ("", ""),
    secret: str = "",
    most: int = 500,
    printed: bool = False,
) -> None:
    """Assert that an error is short, with the expected code, and has nothing secret.

    What is `printed` is one line; in answers and logs, JSON and the logger escape the others.
    """
    assert message.startswith(begins)
    assert message.isprintable() or not printed, ascii(message)
    assert 0 < len(message) < most
    assert code[0] == code[1]
    assert len(secret) < 20 or secret not in message


def check_cuts(new: Callable[[], Decoder], body: bytes, choice: int) -> Decoded:
    """Assert that it does not matter how a body is cut, and return what it is.

    A failure may come before or after the messages of the piece in which it is.
    """
    size = CUTS[choice % len(CUTS)]
    whole = decode(new(), [body])
    assert whole == decode(new(), in_pieces(body, size)), f"in pieces of {size}"
    return whole


def check_memory(decoder: Decoder, body: bytes, *, limit: int, choice: int) -> None:
    """Assert that no more than a limit is held of a body, whatever came of it."""
    for piece in in_pieces(body, CUTS[choice % len(CUTS)]):
        try:
            decoder.feed(piece)
        except FramingError:
            break
        assert held(decoder) <= limit + len(piece), vars(decoder)


def held(value: object, depth: int = 3) -> int:
    """Return the number of bytes and characters that an object refers to."""
    if isinstance(value, bytes | bytearray | str | memoryview):
        return len(value)
    if isinstance(value, list | tuple):
        return sum(held(one, depth) for one in value)
    if isinstance(value, dict):
        return sum(held(one, depth) for one in value.values())
    return (
        sum(held(one, depth - 1) for one in getattr(value, "__dict__", {}).values()) if depth else 0
    )


def check_linear(act: Callable[[bytes], object], body: bytes, *, name: object = "") -> None:
    """Assert that a body that is repeated takes time in proportion to its length.

    Only of some bodies, by their hash, which no fuzzer learns: it takes as long as 50 other laws.
    """
    if not body or zlib.crc32(body) % RARE:
        return

    def make(size: int) -> Callable[[], object]:
        grown = (body * (size // len(body) + 1))[:size]
        return lambda: act(grown)

    check_time(make, GROWN, name=name or body[:200])
