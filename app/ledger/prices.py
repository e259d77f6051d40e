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
from .rates import Ceiling, Rates, Step, Tariff, rates, tariff

__all__ = ["Catalog", "Ceiling", "OwnPrice", "Price", "PriceBook"]

MAX_FOUND = 4096
"""The maximum number of cached prices: clients may use any model name."""


BUILT_IN: Final = "built-in"
"""The price version of targets within this process."""


class Price(Protocol):
    """The price of one target."""

    @property
    def version(self) -> str:
        """The price list and its version, such as `genai-prices 0.2.3`."""

    @property
    def tariff(self) -> Tariff:
        """The current tariff."""

    @property
    def context_length(self) -> int | None:
        """The context length of the model in tokens, if known."""

    def cost(self, counts: TokenCounts) -> int:
        """Return the cost of token counts, in nano-USD; an unknown count is 0."""

    def ceiling(self, input_tokens: int, *, service_tier: str | None = None) -> Ceiling:
        """Return the maximum cost of a call with this input, regardless of caching."""


class Catalog(Protocol):
    """A list of prices maintained by others."""

    def find(self, upstream: str, model: str) -> Price | None:
        """Return the price of an upstream's model; None if unknown."""


class OwnPrice:
    """A price from the settings."""

    context_length: int | None = None

    def __init__(self, config: PriceConfig) -> None:
        self.version = config.version or f"own {_digest(config)}"
        steps = [Step(tier.above, _rates(tier)) for tier in config.tiers]
        self.tariff = tariff([Step(-1, _rates(config)), *steps], request=config.request)

    def cost(self, counts: TokenCounts) -> int:
        """Return the cost of token counts, in nano-USD."""
        return self.tariff.cost(counts)

    def ceiling(self, input_tokens: int, *, service_tier: str | None = None) -> Ceiling:
        """Return the maximum cost of a call with this input, for any service tier."""
        return self.tariff.ceiling(input_tokens)


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
