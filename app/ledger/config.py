"""What the settings say of money. Pure values; `app.settings.ledger` reads them."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from .limits import UNLIMITED, UsageLimits

UsdPerMillion = Annotated[float, Meta(ge=0, le=10**6)]


class TokenPrices(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What tokens of each kind cost, in USD a million."""

    input: UsdPerMillion
    output: UsdPerMillion
    cached_input: UsdPerMillion | None = None
    """None: as `input`, and so for each kind of input."""
    cache_write: UsdPerMillion | None = None
    cache_write_1h: UsdPerMillion | None = None
    """What is kept for an hour; None: as `cache_write`."""
    audio_input: UsdPerMillion | None = None
    reasoning: UsdPerMillion | None = None
    """None: as `output`, and so for each kind of output."""
    audio_output: UsdPerMillion | None = None


class PriceTier(TokenPrices, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[price.tiers]]`: what all tokens of a call cost whose input is long."""

    above: Annotated[int, Meta(ge=1, le=10**9)]
    """Tokens of input that are still cheaper."""


class PriceConfig(TokenPrices, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[price]]`: what the targets cost whose names a glob matches."""

    target: Annotated[str, Meta(min_length=1, max_length=300)]
    """A glob of `upstream/model`; the first table that matches counts."""
    request: Annotated[float, Meta(ge=0, le=1000)] = 0
    """USD a call."""
    tiers: Annotated[tuple[PriceTier, ...], Meta(max_length=20)] = ()
    version: Annotated[str, Meta(pattern=r"^[!-~]([ -~]{0,38}[!-~])?$")] | None = None
    """What stands in records as the edition of this price; None: a digest of the table."""


class LimitsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[limits]`: of the whole relay, and of each tenant, key and user that says nothing else."""

    relay: UsageLimits = UNLIMITED
    tenant: UsageLimits = UNLIMITED
    key: UsageLimits = UNLIMITED
    user: UsageLimits = UNLIMITED
    tenants: Mapping[str, UsageLimits] = {}
    """Those of one tenant, in place of `tenant`."""
    max_output_tokens: Annotated[int, Meta(ge=1, le=10**7)] = 16_384
    """What is reserved, and asked for as the longest answer, where a request does not say and
    tokens or money are limited."""


class LedgerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All that the settings say of money."""

    limits: LimitsConfig = LimitsConfig()
    prices: tuple[PriceConfig, ...] = ()
