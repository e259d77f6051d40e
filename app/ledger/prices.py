"""Prices of targets: from the settings first, then from a catalog, otherwise unknown."""

import hashlib
import re
from collections.abc import Collection, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Final, Protocol

import msgspec

from ..events import TokenCounts
from .config import PriceConfig, TokenPrices
from .rates import Ceiling, PriceStep, Rates, Tariff, rates, tariff

__all__ = ["Catalog", "Ceiling", "OwnPrice", "Price", "PriceBook"]

MAX_FOUND = 4096
"""The maximum number of cached prices: clients may use any model name."""


BUILT_IN: Final = "built-in"
"""The price version of targets within this process."""


class Price(Protocol):
    """The price of one target."""

    version: str
    """The price list and its version, such as `genai-prices 0.2.3`."""
    context_length: int | None
    """The context length of the model in tokens, if known."""

    def tariffs(self, service_tier: str | None) -> Sequence[Tariff]:
        """Return the current tariff, and those that may follow within a day."""

    @property
    def tariff(self) -> Tariff:
        """The current tariff of the default service tier."""
        return self.tariffs(None)[0]

    def cost(self, counts: TokenCounts) -> int:
        """Return the current cost of token counts, in nano-USD; an unknown count is 0."""
        return self.tariffs(counts.service_tier)[0].cost(counts)

    def ceiling(self, input_tokens: int, *, service_tier: str | None = None) -> Ceiling:
        """Return the maximum cost of a call that ends within a day, regardless of caching."""
        now, *later = self.tariffs(service_tier)
        ceiling = now.ceiling(input_tokens)
        for other in later:
            ceiling = Ceiling(*map(max, ceiling, other.ceiling(input_tokens)))
        return ceiling


class Catalog(Protocol):
    """A list of prices maintained by others."""

    def find(self, upstream: str, model: str) -> Price | None:
        """Return the price of an upstream's model; None if unknown."""


class OwnPrice(Price):
    """A price from the settings, for any service tier."""

    def __init__(self, config: PriceConfig) -> None:
        self.version = config.version or f"own {_digest(config)}"
        self.context_length = None
        steps = [PriceStep(tier.above, _rates(tier)) for tier in config.tiers]
        self._tariffs = (tariff([PriceStep(-1, _rates(config)), *steps], request=config.request),)

    def tariffs(self, service_tier: str | None) -> Sequence[Tariff]:
        return self._tariffs


class PriceBook:
    """Finds the price of a target by its name, `upstream/model`.

    Models of `free` upstreams cost nothing, unless the settings have a price.
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
        """Return the price of a target; None if unknown. Thread-safe."""
        return self._found(target)

    def is_own(self, target: str) -> bool:
        """Return whether the settings have a price for a target."""
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
    return rates(**{name: getattr(prices, name) for name in TokenPrices.__struct_fields__})


def _digest(config: PriceConfig) -> str:
    return hashlib.sha256(msgspec.json.encode(config)).hexdigest()[:8]
