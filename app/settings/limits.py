"""Parser of `[limits]`, its subtables, and `[tenant.NAME]`."""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec

from ..identity.config import Identity, KeyConfig
from ..identity.principal import is_visible
from ..ledger.config import LimitsConfig
from ..ledger.limits import UsageLimits
from .failure import SettingsError, reason
from .tables import check_known

EACH: Final = ("tenant", "key", "user")
"""The subtables of `[limits]`: defaults per account."""

LONGEST: Final = "max_output_tokens"
"""The key of `[limits]` that is not a limit of an account."""

MAX_NAME: Final = 256
"""Characters of a tenant's name."""

T = TypeVar("T", bound=msgspec.Struct)


def build_limits(tables: dict[str, Any], *, where: str) -> LimitsConfig:
    """Build the limits; remove their tables from those of the file.

    Raises:
        SettingsError: a table, a key or a value is invalid.
    """
    place = f"{where}limits"
    table = _check_table(tables.pop("limits", {}), place, "[limits]")
    check_known(table, (*UsageLimits.__struct_fields__, LONGEST, *EACH), place)
    own = {name: value for name, value in table.items() if name not in (LONGEST, *EACH)}
    longest = {LONGEST: table[LONGEST]} if LONGEST in table else {}
    return msgspec.structs.replace(
        _convert(longest, LimitsConfig, place),
        relay=_convert(own, UsageLimits, place),
        tenants=_read_tenants(tables.pop("tenant", {}), f"{where}tenant"),
        **{
            name: _convert(table[name], UsageLimits, f"{place}.{name}")
            for name in EACH
            if name in table
        },
    )


def list_idle(limits: LimitsConfig, identity: Identity, keys: Iterable[KeyConfig]) -> list[str]:
    """List the tables of limits without effect, since no client belongs to them."""
    if not identity.configured:
        each = [f"[limits.{name}]" for name in EACH if getattr(limits, name)]
        return each + [f"[tenant.{name}]" for name in limits.tenants]
    if identity.issuers:
        return []  # whose tokens name tenants
    known = {key.tenant for key in (*identity.keys, *keys)}
    return [f"[tenant.{name}]" for name in limits.tenants if name not in known]


def list_budgeted(
    limits: LimitsConfig, identity: Identity, keys: Iterable[KeyConfig]
) -> list[tuple[str, ...] | None]:
    """List the models of each money budget, as globs; None for all models."""
    found: list[tuple[tuple[str, ...] | None, UsageLimits]] = [(None, limits.relay)]
    if identity.configured:
        each = (limits.tenant, limits.key, limits.user, *limits.tenants.values())
        found += [(None, one) for one in each]
        found += [(one.models, one.limits) for one in (*identity.keys, *keys)]
        found += [(None, issuer.limits) for issuer in identity.issuers]
    return [
        models
        for models, own in found
        if own.usd_per_day is not None or own.usd_per_month is not None
    ]


def _read_tenants(raw: Any, place: str) -> dict[str, UsageLimits]:
    tenants = _check_table(raw, place, "[tenant.NAME]")
    for name in tenants:
        if not is_visible(name) or len(name) > MAX_NAME:
            raise SettingsError(
                f"{place}: {name[:80]!r} is not a tenant name; give 1 to {MAX_NAME} "
                "visible characters"
            )
    return {name: _convert(own, UsageLimits, f"{place}.{name}") for name, own in tenants.items()}


def _check_table(raw: Any, place: str, form: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise SettingsError(f"{place}: write a table, {form}")
    return raw


def _convert(raw: Any, form: type[T], place: str) -> T:
    check_known(raw, form.__struct_fields__, place)
    try:
        return msgspec.convert(raw, form)
    except msgspec.ValidationError as error:
        key, message = reason(error)
        raise SettingsError(f"{place}{key}: {message}") from None
