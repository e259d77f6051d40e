"""What may be used in a time, as the settings and credentials say it. Pure values."""

from typing import Annotated

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=0, le=10**12)]
Usd = Annotated[float, Meta(ge=0, le=10**6)]


class UsageLimits(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """Limits of one account; None where there is none. Of several accounts each one counts.

    A minute is any 60 seconds, a day and a month are those of UTC.
    """

    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    """Input and output together."""
    streams: Count | None = None
    """At once."""
    usd_per_day: Usd | None = None
    usd_per_month: Usd | None = None
    strict: bool | None = None
    """Whether a stream costs all that was reserved where its hidden output would be estimated."""

    def __bool__(self) -> bool:
        """Return whether there is any limit."""
        return self != UNLIMITED


UNLIMITED = UsageLimits()


def smaller(first: UsageLimits, second: UsageLimits) -> UsageLimits:
    """Return the smaller of each limit of two sources; one that is strict makes both so."""
    if not second:
        return first
    found = {}
    for name in UsageLimits.__struct_fields__:
        limits = [value for one in (first, second) if (value := getattr(one, name)) is not None]
        if limits:
            found[name] = any(limits) if name == "strict" else min(limits)
    return UsageLimits(**found)


def over(own: UsageLimits, default: UsageLimits) -> UsageLimits:
    """Return the limits of one, and the default for each that it does not have."""
    return UsageLimits(
        **{
            name: getattr(default, name) if (limit := getattr(own, name)) is None else limit
            for name in UsageLimits.__struct_fields__
        }
    )
