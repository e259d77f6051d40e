"""Selection of the targets to check: the named ones, or all of the settings."""

from collections.abc import Iterable, Sequence
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
    known = [target for route in settings.routes for target in route.targets]
    if settings.default_model is not None:
        known += upstreams.resolve(None).targets
    for upstream in settings.upstreams:
        default = (upstream.default_model,) if upstream.default_model else ()
        known += [Target(upstream, model) for model in (*upstream.models, *default)]
    if names:
        return Selection(_unique(one for name in names for one in _find(name, upstreams, known)))
    reached = {target.upstream.name for target in known}
    unnamed = [upstream for upstream in settings.upstreams if upstream.name not in reached]
    if not known and not unnamed:
        known = [Target(DEMO, DEMO_MODEL)]
    return Selection(_unique(known), unnamed)


def _find(name: str, upstreams: Upstreams, known: Sequence[Target]) -> Sequence[Target]:
    """Return the targets of a name on the command line."""
    # Targets of routes may be checked even if clients may not name them.
    own = [target for target in known if name in (target.name, target.upstream.name)]
    if own and name not in upstreams.routes:
        return own
    if any(name == upstream.name for upstream in upstreams.all if upstream is not DEMO):
        raise SettingsError(f"{name}: no model is known; name one, such as '{name}/MODEL'")
    try:
        return upstreams.resolve(name.removeprefix(f"{DEMO.name}/")).targets
    except RequestError as error:
        raise SettingsError(str(error)) from None


def _unique(targets: Iterable[Target]) -> list[Target]:
    """Return the targets without duplicate names."""
    return list({target.name: target for target in targets}.values())
