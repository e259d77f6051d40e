"""Detection of settings without effect: timeouts after shorter ones, limits of nobody."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ..identity.config import Identity, KeyConfig
from ..ledger.config import LimitsConfig
from ..ledger.limits import UsageLimits
from .values import Settings

EACH: Final = ("tenant", "key", "user")
"""The subtables of `[limits]`: defaults per account."""

OVER_FIRST: Final = (
    ("connect_timeout_s", "first_event_timeout_s"),
    ("first_event_timeout_s", "total_timeout_s"),
    ("fallback_after_s", "first_event_timeout_s"),
    ("event_gap_timeout_s", "total_timeout_s"),
    ("idle_timeout_s", "event_gap_timeout_s"),
    ("idle_timeout_s", "total_timeout_s"),
    ("heartbeat_s", "total_timeout_s"),
)
"""Pairs: the first has no effect if it exceeds the second; `app.generation.deadlines`."""


def list_ineffective(settings: Settings) -> list[str]:
    """List configured timeouts without effect, each with the one that ends before it.

    Defaults are not reported: a shorter `total_timeout_s` need not shorten the others.
    """
    times = {field: getattr(settings, field) for pair in OVER_FIRST for field in pair}
    default = Settings()
    configured = {name: value for name, value in times.items() if value != getattr(default, name)}
    found = list(_list_longer(configured, times))
    longest, pause = settings.breaker_max_pause_s, settings.breaker_pause_s
    if longest != default.breaker_max_pause_s and longest < pause:
        found.append(f"breaker_max_pause_s = {longest:g} < breaker_pause_s = {pause:g}")
    for route in settings.routes:
        for target in route.targets:
            own = target.timeouts
            where = f"route {route.name!r}, {target.name}: "
            found += [f"{where}{message}" for message in _list_longer(own, {**times, **own})]
    return found


def _list_longer(configured: Mapping[str, float], times: Mapping[str, float]) -> Iterator[str]:
    for name, earlier in OVER_FIRST:
        if name in configured and times[name] > times[earlier]:
            yield f"{name} = {times[name]:g} > {earlier} = {times[earlier]:g}"


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
    return [models for models, own in found if own.has_budget]
