"""Which targets are checked: those that are named, or all that the settings know."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...errors import RequestError
from ...settings import Settings, SettingsError
from ...settings.upstreams import DEMO
from ...upstreams.endpoints import Upstream
from ...upstreams.routes import Upstreams
from ...upstreams.targets import Target

DEMO_MODEL = "demo-tools"
"""What is asked where there is no provider: the demo that calls tools."""


class Selection(NamedTuple):
    """What is to be checked."""

    targets: Sequence[Target]
    unnamed: Sequence[Upstream] = ()
    """The upstreams of which no model is known, so that there is nothing to ask for."""


def select(names: Sequence[str], settings: Settings) -> Selection:
    """Return the targets of these routes, targets and upstreams; of all where none is named.

    Raises:
        SettingsError: there is no such name, or nothing to ask.
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
    """Return the targets that a name of the command line stands for."""
    for upstream in upstreams.all:
        if name == upstream.name and name not in upstreams.routes and upstream is not DEMO:
            if found := list(_targets_of(upstream)):
                return found
            raise SettingsError(
                f"no model of upstream {name!r} is known; name one, such as '{name}/MODEL'"
            )
    try:
        # As the targets of routes are named, which clients may not be allowed to use.
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
    """Return the targets without those that have the name of one before."""
    found: dict[str, Target] = {}
    for target in targets:
        found.setdefault(target.name, target)
    return list(found.values())
