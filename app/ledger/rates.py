"""Money in integers, token rates and tariffs: sums are only rounded at their end.

A rate is in nano-USD per million tokens, rounded up.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from ..events import TokenCounts

NANO: Final = 1_000_000_000
"""A dollar in nano-USD, the unit of all sums."""


def to_nano(usd: float | str | Decimal) -> int:
    """Return dollars in nano-USD, rounded up."""
    exact = Decimal(str(usd)) * NANO
    whole = int(exact)
    return whole + (exact > whole)


def to_usd(nano: int) -> str:
    """Return nano-USD as a decimal number of dollars, such as `0.00135`."""
    sign, nano = ("-", -nano) if nano < 0 else ("", nano)
    whole, part = divmod(nano, NANO)
    return f"{sign}{whole}.{part:09d}".rstrip("0").rstrip(".")


MILLION = 1_000_000

MAX_NANO_USD = 10**18
"""A billion dollars: the cap for wrong counts of a provider, within the range that logs store."""

Usd = float | str | Decimal


class Ceiling(NamedTuple):
    """The maximum cost of a call, in nano-USD."""

    input: int
    """The whole input, and the fee of the call."""
    output: int
    """One token of output, of the most expensive kind."""


class Rates(NamedTuple):
    """Prices per million tokens by kind. Each token is of one kind."""

    input: int
    cached_input: int
    cache_write: int
    cache_write_1h: int
    audio_input: int
    output: int
    reasoning: int
    audio_output: int

    def weigh(self, counts: TokenCounts) -> int:
        """Return the cost of token counts, in millionths of a nano-USD.

        In each dialect the input includes cache reads and writes, and the output includes
        reasoning. If a provider counts a part higher than the whole, it is billed as the
        whole.
        """
        plain, cached, written = _input_parts(counts)
        written_1h = min(written, counts.cache_write_1h_tokens or 0)
        audio_input = min(plain, counts.audio_input_tokens or 0)
        output = counts.output_tokens or 0
        reasoning = min(output, counts.reasoning_tokens or 0)
        visible = output - reasoning
        audio_output = min(visible, counts.audio_output_tokens or 0)
        return (
            self.input * (plain - audio_input)
            + self.cached_input * cached
            + self.cache_write * (written - written_1h)
            + self.cache_write_1h * written_1h
            + self.audio_input * audio_input
            + self.output * (visible - audio_output)
            + self.reasoning * reasoning
            + self.audio_output * audio_output
        )

    @property
    def dearest_input(self) -> int:
        return max(self[:5])

    @property
    def dearest_output(self) -> int:
        return max(self[5:])


def rates(
    input: Usd,
    output: Usd | None,
    *,
    cached_input: Usd | None = None,
    cache_write: Usd | None = None,
    cache_write_1h: Usd | None = None,
    audio_input: Usd | None = None,
    reasoning: Usd | None = None,
    audio_output: Usd | None = None,
) -> Rates:
    """Return rates from USD per million tokens; missing kinds default to the plain kind.

    Without a price of output it is free: embeddings.
    """
    uncached, generated = to_nano(input), to_nano(output or 0)
    written = _or(cache_write, uncached)
    return Rates(
        uncached,
        _or(cached_input, uncached),
        cache_write=written,
        cache_write_1h=_or(cache_write_1h, written),
        audio_input=_or(audio_input, uncached),
        output=generated,
        reasoning=_or(reasoning, generated),
        audio_output=_or(audio_output, generated),
    )


def _or(usd: Usd | None, default: int) -> int:
    return default if usd is None else to_nano(usd)


class PriceStep(NamedTuple):
    """The rates of all tokens of a call whose input is longer than `above` tokens."""

    above: int
    rates: Rates


class Tariff(NamedTuple):
    """The price of calls: rates by the length of the input, and a fee."""

    steps: Sequence[PriceStep]
    """In order of length; the first is above -1."""
    dearest: Sequence[tuple[int, int, int]]
    """Per step, the highest rates of input and output up to it."""
    request: int
    """Nano-USD per call."""

    def cost(self, counts: TokenCounts) -> int:
        """Return the cost of token counts, in nano-USD."""
        steps = self.steps
        found = steps[0].rates
        if len(steps) > 1:
            length = _input_of(counts)
            for above, rates in steps:
                if length > above:
                    found = rates
        return min(-(-found.weigh(counts) // MILLION) + self.request, MAX_NANO_USD)

    def ceiling(self, input_tokens: int) -> Ceiling:
        """Return the maximum cost of a call with at most this input, regardless of caching."""
        _, dearest_input, dearest_output = self.dearest[0]
        if len(self.dearest) > 1:
            for above, *dearest in self.dearest:
                if above < input_tokens:
                    dearest_input, dearest_output = dearest
        nano_usd = -(-dearest_input * input_tokens // MILLION) + self.request
        return Ceiling(min(nano_usd, MAX_NANO_USD), -(-dearest_output // MILLION))


def tariff(steps: Iterable[PriceStep], *, request: Usd = 0) -> Tariff:
    """Return a tariff of unordered steps, the lowest of which is above -1, and a fee in USD."""
    ordered = tuple(sorted(steps, key=lambda step: step.above))
    dearest: list[tuple[int, int, int]] = []
    most_input = most_output = 0
    for above, rates in ordered:
        most_input = max(most_input, rates.dearest_input)
        most_output = max(most_output, rates.dearest_output)
        dearest.append((above, most_input, most_output))
    return Tariff(ordered, tuple(dearest), to_nano(request))


def _input_of(counts: TokenCounts) -> int:
    """Return the length of an input, including discounted tokens."""
    return sum(_input_parts(counts))


def _input_parts(counts: TokenCounts) -> tuple[int, int, int]:
    """Return the uncached input, the cache reads and the cache writes."""
    whole = counts.input_tokens or 0
    cached, written = counts.cached_input_tokens or 0, counts.cache_write_tokens or 0
    cached = min(cached, whole)
    written = min(written, whole - cached)
    return whole - cached - written, cached, written
