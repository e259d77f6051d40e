"""Settings of limits and prices. Pure values; `app.settings` parses them."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from .limits import UNLIMITED, UsageLimits

UsdPerMillion = Annotated[float, Meta(ge=0, le=10**6)]
Version = Annotated[
    str,
    Meta(
        pattern=r"^[!-~]([ -~]{0,38}[!-~])?$",
        description="give 1 to 40 visible ASCII characters",
    ),
]


class TokenPrices(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Prices of tokens by kind, in USD per million."""

    input: UsdPerMillion
    output: UsdPerMillion
    cached_input: UsdPerMillion | None = None
    """None: as `input`; the same applies to each kind of input."""
    cache_write: UsdPerMillion | None = None
    cache_write_1h: UsdPerMillion | None = None
    """Cached for an hour; None: as `cache_write`."""
    audio_input: UsdPerMillion | None = None
    reasoning: UsdPerMillion | None = None
    """None: as `output`; the same applies to each kind of output."""
    audio_output: UsdPerMillion | None = None


class PriceTier(TokenPrices, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[price.tiers]]`: prices for all tokens of a call with a long input."""

    above: Annotated[int, Meta(ge=1, le=10**9)]
    """The longest input, in tokens, below this tier."""


class PriceConfig(TokenPrices, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[price]]`: prices of the targets whose names match a glob."""

    target: Annotated[str, Meta(min_length=1, max_length=300)]
    """A glob of `upstream/model`; the first matching table applies."""
    request: Annotated[float, Meta(ge=0, le=1000)] = 0
    """USD per call."""
    tiers: Annotated[tuple[PriceTier, ...], Meta(max_length=20)] = ()
    version: Version | None = None
    """The version of this price in records; None: a digest of the table."""


class LimitsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[limits]`: of the relay, and the defaults for each tenant, key and user."""

    relay: UsageLimits = UNLIMITED
    tenant: UsageLimits = UNLIMITED
    key: UsageLimits = UNLIMITED
    user: UsageLimits = UNLIMITED
    tenants: Mapping[str, UsageLimits] = {}
    """By tenant, instead of `tenant`."""
    max_output_tokens: Annotated[int, Meta(ge=1, le=10**7)] = 16_384
    """The reserved and requested maximum output, for requests without one if tokens or money
    are limited.
    """


class LedgerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of limits and prices."""

    limits: LimitsConfig = LimitsConfig()
    prices: tuple[PriceConfig, ...] = ()
