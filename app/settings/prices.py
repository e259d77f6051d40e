"""Parser of `[[price]]`, the operator's prices of targets."""

from typing import Any

import msgspec

from ..ledger.config import PriceConfig, PriceTier
from .failure import SettingsError, reason
from .tables import check_known

MAX_TABLES = 1000


def build_prices(tables: Any, *, where: str) -> tuple[PriceConfig, ...]:
    """Build the prices of the file, in order.

    Raises:
        SettingsError: a table, a key or a value is invalid.
    """
    if not isinstance(tables, list):
        raise SettingsError(f"{where}price: write tables such as [[price]]")
    if len(tables) > MAX_TABLES:
        raise SettingsError(f"{where}price: has {len(tables)} tables; the maximum is {MAX_TABLES}")
    return tuple(_build(raw, f"{where}price[{n}]") for n, raw in enumerate(tables, 1))


def _build(raw: Any, place: str) -> PriceConfig:
    if isinstance(raw, dict) and isinstance(raw.get("target"), str):
        place = f"{place} ({raw['target'][:80]!r})"
    check_known(raw, PriceConfig.__struct_fields__, place)
    tiers = raw.get("tiers") if isinstance(raw, dict) else None
    for n, tier in enumerate(tiers if isinstance(tiers, list) else (), 1):
        check_known(tier, PriceTier.__struct_fields__, f"{place}.tiers[{n}]")
    try:
        price = msgspec.convert(raw, PriceConfig)
    except msgspec.ValidationError as error:
        key, message = reason(error)
        if key == ".version":
            message = "give 1 to 40 visible ASCII characters"
        raise SettingsError(f"{place}{key}: {message}") from None
    if not {"/", "*"} & set(price.target):
        raise SettingsError(
            f"{place}.target: {price.target!r} matches nothing: write 'upstream/model', such as "
            f"'openai/{price.target}', or a glob such as '*/{price.target}'"
        )
    lengths = [tier.above for tier in price.tiers]
    if len(set(lengths)) < len(lengths):
        raise SettingsError(f"{place}.tiers: two are above the same length")
    return price
