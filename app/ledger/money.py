"""Integer arithmetic for US dollars, in nano-USD: a token may cost less than a micro-USD."""

from decimal import Decimal
from typing import Final

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
