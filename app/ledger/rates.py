"""What tokens of each kind cost, in whole numbers: no sum is rounded before its end.

A rate is in nano-USD for a million tokens. What is less is rounded up.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

from ..events import TokenCounts
from .money import to_nano

MILLION = 1_000_000

MOST = 10**18
"""A billion dollars: more than that is a count that some provider got wrong, and would not fit
where logs keep sums."""

Usd = float | str | Decimal


class Ceiling(NamedTuple):
    """What a call may cost at most, in nano-USD."""

    input: int
    """Its whole input, and what a call costs by itself."""
    output: int
    """One token of output, of whichever kind is dearest."""


class Rates(NamedTuple):
    """What a million tokens of each kind cost. Each token is of one kind."""

    input: int
    cached_input: int
    cache_write: int
    cache_write_1h: int
    audio_input: int
    output: int
    reasoning: int
    audio_output: int

    def weigh(self, counts: TokenCounts) -> int:
        """Return what so many tokens cost, in millionths of a nano-USD.

        In each dialect the input has what a cache gave and took, and the output the reasoning.
        Where a provider says that a part is more than the whole, no more of it is billed than that.
        """
        plain, cached, written = _input_parts(counts)
        longer = min(written, counts.cache_write_1h_tokens or 0)
        heard = min(plain, counts.audio_input_tokens or 0)
        output = counts.output_tokens or 0
        thought = min(output, counts.reasoning_tokens or 0)
        said = output - thought
        spoken = min(said, counts.audio_output_tokens or 0)
        return (
            self.input * (plain - heard)
            + self.cached_input * cached
            + self.cache_write * (written - longer)
            + self.cache_write_1h * longer
            + self.audio_input * heard
            + self.output * (said - spoken)
            + self.reasoning * thought
            + self.audio_output * spoken
        )

    @property
    def dearest_input(self) -> int:
        return max(self[:5])

    @property
    def dearest_output(self) -> int:
        return max(self[5:])


def rates(
    plain: Usd,
    output: Usd | None,
    *,
    cached_input: Usd | None = None,
    cache_write: Usd | None = None,
    cache_write_1h: Usd | None = None,
    audio_input: Usd | None = None,
    reasoning: Usd | None = None,
    audio_output: Usd | None = None,
) -> Rates:
    """Return rates of USD a million tokens; a kind without one costs what the plain kind does.

    What has no price of output makes none: embeddings.
    """
    read, said = to_nano(plain), to_nano(output or 0)
    written = _or(cache_write, read)
    return Rates(
        read,
        _or(cached_input, read),
        written,
        _or(cache_write_1h, written),
        _or(audio_input, read),
        said,
        _or(reasoning, said),
        _or(audio_output, said),
    )


def _or(usd: Usd | None, default: int) -> int:
    return default if usd is None else to_nano(usd)


class Step(NamedTuple):
    """The rates of a call whose input is longer than so many tokens: of all of its tokens."""

    above: int
    rates: Rates


class Tariff(NamedTuple):
    """What a call costs: rates by the length of its input, and a fee."""

    steps: Sequence[Step]
    """In the order of their lengths; the first is above -1."""
    dearest: Sequence[tuple[int, int, int]]
    """The same with the dearest rates of input and output of a step and those before it."""
    request: int
    """Nano-USD a call."""

    def cost(self, counts: TokenCounts) -> int:
        """Return what so many tokens cost, in nano-USD."""
        steps = self.steps
        found = steps[0].rates
        if len(steps) > 1:
            length = _input_of(counts)
            for above, rates in steps:
                if length > above:
                    found = rates
        return min(-(-found.weigh(counts) // MILLION) + self.request, MOST)

    def ceiling(self, input_tokens: int) -> Ceiling:
        """Return what a call with at most so long an input may cost, whatever of it is cached."""
        _, dearest_input, dearest_output = self.dearest[0]
        if len(self.dearest) > 1:
            for above, *dearest in self.dearest:
                if above < input_tokens:
                    dearest_input, dearest_output = dearest
        nano_usd = -(-dearest_input * input_tokens // MILLION) + self.request
        return Ceiling(min(nano_usd, MOST), -(-dearest_output // MILLION))


def tariff(steps: Iterable[Step], *, request: Usd = 0) -> Tariff:
    """Return a tariff of steps in any order, the first of which is above -1, and a fee in USD."""
    ordered = tuple(sorted(steps, key=lambda step: step.above))
    dearest: list[tuple[int, int, int]] = []
    most_input = most_output = 0
    for above, rates in ordered:
        most_input = max(most_input, rates.dearest_input)
        most_output = max(most_output, rates.dearest_output)
        dearest.append((above, most_input, most_output))
    return Tariff(ordered, tuple(dearest), to_nano(request))


def _input_of(counts: TokenCounts) -> int:
    """Return how long an input was, with what is billed less than it."""
    return sum(_input_parts(counts))


def _input_parts(counts: TokenCounts) -> tuple[int, int, int]:
    """Return the input that no cache had, what a cache gave, and what it took."""
    whole = counts.input_tokens or 0
    cached, written = counts.cached_input_tokens or 0, counts.cache_write_tokens or 0
    cached = min(cached, whole)
    written = min(written, whole - cached)
    return whole - cached - written, cached, written
