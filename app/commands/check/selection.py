"""Selection of the targets to check: the named ones, or all of the settings."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...errors import RequestError
from ...settings import Settings, SettingsError
from ...settings.upstreams import DEMO
from ...upstreams.endpoints import Upstream
from ...upstreams.routes import Upstreams
from ...upstreams.targets import Target

DEMO_MODEL = "demo"
"""Checked if there is no provider."""


class Selection(NamedTuple):
    """Targets and upstreams to check."""

    targets: Sequence[Target]
    unnamed: Sequence[Upstream] = ()
    """Upstreams without a known model."""


def select(names: Sequence[str], settings: Settings) -> Selection:
    """Return the targets of these routes, targets and upstreams; all if `names` is empty.

    Raises:
        SettingsError: a name is unknown, or has no model.
    """
    demo = (DEMO,) if settings.demo or not settings.upstreams else ()
    upstreams = Upstreams(
        (*demo, *settings.upstreams), routes=settings.routes, default_model=settings.default_model
    )
    if names:
        chosen = [target for name in names for target in _find(name, upstreams)]
        return Selection(_each_once(chosen))
    targets = [target for route in settings.routes for target in route.targets]
    if settings.default_model is not None:
        targets += upstreams.resolve(None).targets
    for upstream in settings.upstreams:
        targets += _targets_of(upstream)
    targets = _each_once(targets)
    reached = {target.upstream.name for target in targets}
    unnamed = [upstream for upstream in settings.upstreams if upstream.name not in reached]
    if not targets and not unnamed:
        targets = [Target(DEMO, DEMO_MODEL)]
    return Selection(targets, unnamed)


def _find(name: str, upstreams: Upstreams) -> Sequence[Target]:
    """Return the targets of a name on the command line."""
    for upstream in upstreams.all:
        if name == upstream.name and name not in upstreams.routes and upstream is not DEMO:
            if found := list(_targets_of(upstream)):
                return found
            raise SettingsError(
                f"no model of upstream {name!r} is known; name one, such as '{name}/MODEL'"
            )
    try:
        # Targets of routes may be checked even if clients may not name them.
        prefix, _, model = name.partition("/")
        for route in upstreams.routes.values():
            if route.name != name and (
                own := [target for target in route.targets if target.name == name]
            ):
                return own[:1]
        if prefix == DEMO.name and model in DEMO.models and DEMO in upstreams.all:
            return [Target(DEMO, model)]
        return upstreams.resolve(name).targets
    except RequestError as error:
        raise SettingsError(str(error)) from None


def _targets_of(upstream: Upstream) -> Iterator[Target]:
    default = (upstream.default_model,) if upstream.default_model else ()
    for model in (*upstream.models, *default):
        yield Target(upstream, model)


def _each_once(targets: Sequence[Target]) -> list[Target]:
    """Return the targets without duplicate names."""
    found: dict[str, Target] = {}
    for target in targets:
        found.setdefault(target.name, target)
    return list(found.values())
