"""Parser of the `[[route]]` tables."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ..generation.retry import TargetPolicy
from ..upstreams.endpoints import Upstream
from ..upstreams.routes import Route
from ..upstreams.targets import Target
from .failure import SettingsError, reason, suggest
from .tables import check_known
from .upstreams import how_to_add
from .values import Attempts, Count, Seconds

TIMEOUTS = (
    "connect_timeout_s",
    "first_event_timeout_s",
    "event_gap_timeout_s",
    "idle_timeout_s",
    "total_timeout_s",
)


class TargetTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One target: `model` is `upstream/model`. Missing fields default to the route's."""

    model: str
    order: Count | None = None
    weight: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None
    attempts: Attempts | None = None
    connect_timeout_s: Seconds | None = None
    first_event_timeout_s: Seconds | None = None
    event_gap_timeout_s: Seconds | None = None
    idle_timeout_s: Seconds | None = None
    total_timeout_s: Seconds | None = None


class RouteTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[[route]]`: a public model name, and its targets."""

    name: Annotated[str, Meta(pattern=r"^[!-~]{1,200}$")]
    targets: Annotated[list[str | TargetTable], Meta(min_length=1, max_length=100)]
    attempts: Attempts | None = None
    budget_s: Seconds | None = None
    record_content: bool = False


def build_routes(
    tables: Any, upstreams: Sequence[Upstream], *, attempts: int, where: str
) -> tuple[Route, ...]:
    """Build the routes of the file for the configured upstreams."""
    if not isinstance(tables, list):
        raise SettingsError(f"{where}route: write tables such as [[route]]")
    by_name = {upstream.name: upstream for upstream in upstreams}
    routes: dict[str, Route] = {}
    for number, raw in enumerate(tables, start=1):
        place = f"{where}route {number}"
        table = _read(raw, place)
        place = f"{where}route {table.name!r}"
        if table.name in routes:
            raise SettingsError(f"{place}: the name is used twice")
        routes[table.name] = Route(
            table.name,
            _targets(table, by_name, attempts=table.attempts or attempts, place=place),
            table.budget_s,
            table.record_content,
        )
    return tuple(routes.values())


def _read(raw: Any, place: str) -> RouteTable:
    if isinstance(raw, dict) and isinstance(raw.get("name"), str):
        place = f"{place} ({raw['name'][:50]!r})"
    check_known(raw, RouteTable.__struct_fields__, place)
    targets = raw.get("targets") if isinstance(raw, dict) else None
    for index, target in enumerate(targets if isinstance(targets, list) else ()):
        check_known(target, TargetTable.__struct_fields__, f"{place}.targets[{index}]")
    try:
        return msgspec.convert(raw, RouteTable)
    except msgspec.ValidationError as error:
        key, message = reason(error)
        if key == ".name":
            message = "a route's name is 1 to 200 visible ASCII characters without spaces"
        raise SettingsError(f"{place}{key}: {message}") from None


def _targets(
    table: RouteTable, upstreams: Mapping[str, Upstream], *, attempts: int, place: str
) -> tuple[Target, ...]:
    targets = []
    for index, target in enumerate(table.targets):
        row = TargetTable(target) if isinstance(target, str) else target
        name, _, model = row.model.partition("/")
        upstream = upstreams.get(name)
        if upstream is None or not model:
            raise SettingsError(f"{place}: targets[{index}]: {_why_not(row.model, upstreams)}")
        if not upstream.prefixed and model not in upstream.models:
            raise SettingsError(
                f"{place}: targets[{index}]: upstream {name!r} has no model {model!r}; "
                f"models: {', '.join(upstream.models)}"
            )
        # Targets with a weight share the first place; the others follow in list order.
        first = 1 if row.weight is not None else index + 1
        choice = TargetPolicy(
            order=row.order or first,
            weight=1.0 if row.weight is None else row.weight,
            attempts=row.attempts or attempts,
        )
        timeouts = {key: value for key in TIMEOUTS if (value := getattr(row, key)) is not None}
        targets.append(Target(upstream, model, choice, timeouts))
    return tuple(targets)


def _why_not(target: str, upstreams: Mapping[str, Upstream]) -> str:
    name, _, model = target.partition("/")
    known = f"upstreams: {', '.join(upstreams)}"
    if not model:
        return f"{target!r} is not of the form upstream/model; {known}"
    remedy = how_to_add(name)
    if remedy is not None:
        return f"{target!r}: unknown upstream; {remedy}"
    return f"{target!r}: unknown upstream; {known}{suggest(name, upstreams)}"
