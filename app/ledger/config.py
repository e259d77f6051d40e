"""Settings of limits and prices. Pure values; `app.settings` parses them."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=0, le=10**12)]
Usd = Annotated[float, Meta(ge=0, le=10**6)]


class UsageLimits(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """Limits of one account; None: no limit. A request must fit every account it belongs to.

    A minute is any 60 seconds; days and months are in UTC.
    """

    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    """Input and output together."""
    streams: Count | None = None
    """Concurrent streams."""
    usd_per_day: Usd | None = None
    usd_per_month: Usd | None = None
    strict: bool | None = None
    """Whether a stream is billed its whole reservation when its hidden output would be
    estimated.
    """

    def __bool__(self) -> bool:
        """Return whether there is any limit."""
        return self != UNLIMITED


UNLIMITED = UsageLimits()


class Limit(NamedTuple):
    """One kind of limit. Reservations, usage and scripts of logs read them from `LIMITS`."""

    name: str
    """Its field in `UsageLimits`."""
    field: str
    """Its field in `Account`."""
    counts: Literal["streams", "requests", "tokens", "nano_usd"]
    per: Literal["minute", "day", "month"] | None
    """None: at once."""


LIMITS: Final = (
    Limit("streams", "streams", counts="streams", per=None),
    Limit("requests_per_minute", "requests_per_minute", counts="requests", per="minute"),
    Limit("tokens_per_minute", "tokens_per_minute", counts="tokens", per="minute"),
    Limit("usd_per_day", "nano_usd_per_day", counts="nano_usd", per="day"),
    Limit("usd_per_month", "nano_usd_per_month", counts="nano_usd", per="month"),
)
"""All kinds, in the order in which they are checked."""


def smaller(first: UsageLimits, second: UsageLimits) -> UsageLimits:
    """Return the lower of each limit; the result is strict if either is."""
    if not second:
        return first
    found = {}
    for name in UsageLimits.__struct_fields__:
        limits = [value for one in (first, second) if (value := getattr(one, name)) is not None]
        if limits:
            found[name] = any(limits) if name == "strict" else min(limits)
    return UsageLimits(**found)


def over(own: UsageLimits, default: UsageLimits) -> UsageLimits:
    """Return `own`, with missing limits from `default`."""
    return UsageLimits(
        **{
            name: getattr(default, name) if (limit := getattr(own, name)) is None else limit
            for name in UsageLimits.__struct_fields__
        }
    )


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
