"""Detection of timeouts without effect, since a shorter one ends first."""

from collections.abc import Iterator, Mapping
from typing import Final

from .values import Settings

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
