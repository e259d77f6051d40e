"""What tokens cost: the operator's own prices first, then those of a catalog, else unknown."""

import hashlib
import re
from collections.abc import Collection, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Final, Protocol

import msgspec

from ..events import TokenCounts
from .config import PriceConfig, TokenPrices
from .rates import Ceiling, Rates, Step, Tariff, rates, tariff

__all__ = ["Catalog", "Ceiling", "OwnPrice", "Price", "PriceBook"]

MAX_FOUND = 4096
"""How many targets are remembered with their prices: clients may name any model."""


BUILT_IN: Final = "built-in"
"""The version of the prices of what answers within this process."""


class Price(Protocol):
    """What one target costs."""

    @property
    def version(self) -> str:
        """Which edition of which list of prices it is from, such as `genai-prices 0.2.3`."""

    @property
    def tariff(self) -> Tariff:
        """What it is made of now."""

    @property
    def context_length(self) -> int | None:
        """How many tokens the model takes and returns at most, where that is known."""

    def cost(self, counts: TokenCounts) -> int:
        """Return what so many tokens cost, in nano-USD; an unknown count is 0."""

    def ceiling(self, input_tokens: int, *, service_tier: str | None = None) -> Ceiling:
        """Return what a call with so long an input may cost, whatever of it is cached."""


class Catalog(Protocol):
    """A list of prices that others keep."""

    def find(self, upstream: str, model: str) -> Price | None:
        """Return the price of a model of an upstream; None where it is unknown."""


class OwnPrice:
    """A price of the settings."""

    context_length: int | None = None

    def __init__(self, config: PriceConfig) -> None:
        self.version = config.version or f"own {_digest(config)}"
        steps = [Step(tier.above, _rates(tier)) for tier in config.tiers]
        self.tariff = tariff([Step(-1, _rates(config)), *steps], request=config.request)

    def cost(self, counts: TokenCounts) -> int:
        """Return what so many tokens cost, in nano-USD."""
        return self.tariff.cost(counts)

    def ceiling(self, input_tokens: int, *, service_tier: str | None = None) -> Ceiling:
        """Return what a call with so long an input may cost, of whatever service tier."""
        return self.tariff.ceiling(input_tokens)


class PriceBook:
    """Finds the price of a target by its name, `upstream/model`.

    The models of the upstreams that are `free` cost nothing unless the settings say so.
    """

    def __init__(
        self,
        configs: Sequence[PriceConfig],
        catalog: Catalog | None = None,
        *,
        free: Collection[str] = (),
    ) -> None:
        self._own = [(re.compile(translate(config.target)), OwnPrice(config)) for config in configs]
        self._catalog = catalog
        self._free = dict.fromkeys(
            free, OwnPrice(PriceConfig(target="*", input=0, output=0, version=BUILT_IN))
        )
        self._found = lru_cache(MAX_FOUND)(self._find)

    def price_of(self, target: str) -> Price | None:
        """Return the price of a target; None where it is unknown. May be called in any thread."""
        return self._found(target)

    def is_own(self, target: str) -> bool:
        """Return whether a table of the settings says what a target costs."""
        return any(glob.match(target) for glob, _ in self._own)

    def _find(self, target: str) -> Price | None:
        for glob, price in self._own:
            if glob.match(target):
                return price
        upstream, _, model = target.partition("/")
        if upstream in self._free:
            return self._free[upstream]
        return self._catalog.find(upstream, model) if self._catalog is not None else None


def _rates(prices: TokenPrices) -> Rates:
    return rates(
        prices.input,
        prices.output,
        cached_input=prices.cached_input,
        cache_write=prices.cache_write,
        cache_write_1h=prices.cache_write_1h,
        audio_input=prices.audio_input,
        reasoning=prices.reasoning,
        audio_output=prices.audio_output,
    )


def _digest(config: PriceConfig) -> str:
    return hashlib.sha256(msgspec.json.encode(config)).hexdigest()[:8]
