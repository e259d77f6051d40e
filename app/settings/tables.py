"""The tables of limits, prices, routes, hooks and webhooks."""

import importlib
import inspect
import re
import sys
from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from ..errors import suggest
from ..generation.stages.plugged import STAGES
from ..identity.principal import is_visible
from ..ledger.config import UNLIMITED, LimitsConfig, PriceConfig, UsageLimits
from ..policies.balance import BALANCES
from ..policies.capacity import TargetLimits
from ..policies.retry import TargetPolicy
from ..upstreams.endpoints import Upstream
from ..upstreams.routes import Hedge, Route, Spent
from ..upstreams.targets import Target
from ..upstreams.transforms import NO_CHANGES
from ..webhooks.message import Webhook
from .convert import SettingsError, convert, convert_rows, find_part, same_fields
from .transforms import build_changes, build_transform
from .upstreams import Text, check_url, how_to_add
from .values import Attempts, Count, HookConfig, Seconds

MAX_PRICES: Final = 1000
MAX_TENANT: Final = 256
"""Characters of a tenant's name."""


class LimitsTable(UsageLimits, frozen=True):
    """`[limits]`: limits of the relay, and the defaults for accounts."""

    tenant: UsageLimits = UNLIMITED
    key: UsageLimits = UNLIMITED
    user: UsageLimits = UNLIMITED
    max_output_tokens: Annotated[int, Meta(ge=1, le=10**7)] = LimitsConfig().max_output_tokens


class TargetTable(TargetLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
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
    rename: Mapping[str, str] = {}
    drop: tuple[str, ...] = ()
    set: Mapping[str, Any] = {}


TIMEOUTS: Final = tuple(name for name in TargetTable.__struct_fields__ if name.endswith("_s"))

RouteName = Annotated[
    str,
    Meta(pattern=r"^[!-~]{1,200}$", description="give 1 to 200 visible ASCII characters"),
]


class RouteTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[[route]]`: a public model name, and its targets."""

    name: RouteName
    targets: Annotated[list[str | TargetTable], Meta(min_length=1, max_length=100)]
    attempts: Attempts | None = None
    budget_s: Seconds | None = None
    balance: str = "affinity"
    when_spent: Annotated[float, Meta(gt=0, le=1)] | None = None
    spent_target: str | None = None
    record_content: bool = False
    aliases: tuple[RouteName, ...] = ()
    defaults: dict[str, Any] = {}
    system_prefix: str = ""
    cache_prompt: bool = False
    rescue: bool = False
    takeover: bool = False
    stages: tuple[str, ...] = ()
    hedge_percentile: Annotated[float, Meta(ge=50, lt=100)] | None = None
    hedge_share: Annotated[float, Meta(gt=0, le=1)] = 0.05


def build_limits(tables: dict[str, Any], where: str) -> LimitsConfig:
    """Build the limits; remove their tables from those of the file.

    Raises:
        SettingsError: a table, a key or a value is invalid.
    """
    table = convert(tables.pop("limits", {}), LimitsTable, f"{where}limits")
    place = f"{where}tenant"
    tenants = convert(tables.pop("tenant", {}), dict[str, Any], place)
    for name in tenants:
        if not is_visible(name) or len(name) > MAX_TENANT:
            raise SettingsError(
                f"{place}: {name[:80]!r} is not a tenant name; give 1 to {MAX_TENANT} "
                "visible characters"
            )
    return LimitsConfig(
        relay=UsageLimits(**same_fields(table, UsageLimits)),
        tenants={
            name: convert(own, UsageLimits, f"{place}.{name}") for name, own in tenants.items()
        },
        **same_fields(table, LimitsConfig),
    )


def build_prices(rows: Any, where: str) -> tuple[PriceConfig, ...]:
    """Build the prices of targets, in order.

    Raises:
        SettingsError: a table, a key or a value is invalid.
    """
    prices = convert_rows(rows, PriceConfig, f"{where}price", label="target")
    if len(prices) > MAX_PRICES:
        raise SettingsError(f"{where}price: has {len(prices)} tables; the maximum is {MAX_PRICES}")
    for number, price in enumerate(prices, 1):
        place = f"{where}price[{number}] ({price.target[:80]!r})"
        if not {"/", "*"} & set(price.target):
            raise SettingsError(
                f"{place}.target: {price.target!r} matches nothing: write 'upstream/model', such "
                f"as 'openai/{price.target}', or a glob such as '*/{price.target}'"
            )
        if len({tier.above for tier in price.tiers}) < len(price.tiers):
            raise SettingsError(f"{place}.tiers: two are above the same length")
    return prices


def build_routes(
    rows: Any, upstreams: Sequence[Upstream], *, attempts: int, where: str
) -> tuple[Route, ...]:
    """Build the routes to the configured upstreams.

    Raises:
        SettingsError: a table, a key or a value is invalid.
    """
    by_name = {upstream.name: upstream for upstream in upstreams}
    routes: dict[str, Route] = {}
    aliases: dict[str, str] = {}
    for table in convert_rows(rows, RouteTable, f"{where}route", label="name"):
        place = f"{where}route {table.name!r}"
        if table.name in routes:
            raise SettingsError(f"{place}: the name is used twice")
        for alias in table.aliases:
            if aliases.setdefault(alias, table.name) != table.name:
                raise SettingsError(
                    f"{place}: the alias {alias!r} is also of route {aliases[alias]!r}"
                )
        changes = build_changes(
            table.defaults,
            system_prefix=table.system_prefix,
            cache_prompt=table.cache_prompt,
            place=place,
        )
        targets = []
        for index, row in enumerate(table.targets):
            target = TargetTable(model=row) if isinstance(row, str) else row
            here = f"{place}: targets[{index}]"
            upstream, model = _find_upstream(target.model, by_name, here)
            # Targets with a weight share the first place; the others follow in list order.
            policy = TargetPolicy(
                order=target.order or (index + 1 if target.weight is None else 1),
                weight=1.0 if target.weight is None else target.weight,
                attempts=target.attempts or table.attempts or attempts,
            )
            own = {name: value for name in TIMEOUTS if (value := getattr(target, name)) is not None}
            transform = build_transform(target.rename, target.drop, target.set, here)
            own_changes = changes
            if transform is not None:
                own_changes = msgspec.structs.replace(changes or NO_CHANGES, transform=transform)
            targets.append(
                Target(
                    upstream,
                    model,
                    policy=policy,
                    timeouts=own,
                    changes=own_changes,
                    capacity=_build_capacity(target, upstream.target_limits),
                )
            )
        spent = None
        if (table.when_spent is None) != (table.spent_target is None):
            raise SettingsError(f"{place}: set both when_spent and spent_target, or neither")
        if table.when_spent is not None and table.spent_target is not None:
            upstream, model = _find_upstream(table.spent_target, by_name, f"{place}: spent_target")
            policy = TargetPolicy(attempts=table.attempts or attempts)
            spent = Spent(table.when_spent, Target(upstream, model, policy=policy, changes=changes))
        hedge = None
        if table.hedge_percentile is not None:
            if len(targets) < 2:
                raise SettingsError(f"{place}: hedge_percentile needs a second target")
            hedge = Hedge(table.hedge_percentile, table.hedge_share)
        for name in table.stages:
            find_part(STAGES, name, f"{place}.stages")
        if table.takeover:
            _check_takeover(table, targets, place)
        own = {
            "targets": tuple(targets),
            "balance": find_part(BALANCES, table.balance, f"{place}.balance"),
            "spent": spent,
            "hedge": hedge,
            "changes": changes,
        }
        routes[table.name] = Route(**{**same_fields(table, Route), **own})
    for alias, name in aliases.items():
        if alias in routes:
            raise SettingsError(f"{where}route {name!r}: the alias {alias!r} is a route's name")
    return tuple(routes.values())


def _check_takeover(table: RouteTable, targets: Sequence[Target], place: str) -> None:
    if table.stages:
        raise SettingsError(f"{place}.takeover: an answer that passes stages cannot be taken over")
    if not (table.rescue or any(target.can_be_read_again for target in targets)):
        raise SettingsError(
            f"{place}.takeover: nothing can go on with an answer; "
            "set rescue = true, or give a target an upstream with resume = true"
        )


def _build_capacity(target: TargetTable, default: TargetLimits) -> TargetLimits | None:
    """Return the limits of a target, with missing ones from its upstream; None without any."""
    own = same_fields(target, TargetLimits).items()
    limits = msgspec.structs.replace(default, **{name: one for name, one in own if one is not None})
    return None if limits == TargetLimits() else limits


def _find_upstream(
    target: str, upstreams: Mapping[str, Upstream], place: str
) -> tuple[Upstream, str]:
    """Return the upstream and the model of a target `upstream/model`."""
    name, _, model = target.partition("/")
    upstream, known = upstreams.get(name), f"upstreams: {', '.join(upstreams)}"
    if not model:
        raise SettingsError(f"{place}: {target!r} is not of the form upstream/model; {known}")
    if upstream is None:
        remedy = how_to_add(name) or f"{known}{suggest(name, upstreams)}"
        raise SettingsError(f"{place}: {target!r}: unknown upstream; {remedy}")
    if not upstream.prefixed and model not in upstream.models:
        raise SettingsError(
            f"{place}: upstream {name!r} has no model {model!r}; "
            f"models: {', '.join(upstream.models)}"
        )
    return upstream, model


BUILT_IN = ("redact",)
"""Each is a module of `app.hooks`, with a function of the same name."""


class HookTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[[hook]]`: a function or an endpoint that checks texts."""

    call: Text | None = None
    url: Text | None = None
    key_env: Text | None = None
    name: Text | None = None
    on: Annotated[tuple[Literal["request", "answer"], ...], Meta(min_length=1)] = (
        "request",
        "answer",
    )
    hold: Annotated[int, Meta(ge=1, le=10_000)] = 200
    timeout_s: Annotated[float, Meta(gt=0, le=60)] = 2.0
    on_failure: Literal["closed", "open"] = "closed"
    routes: tuple[str, ...] | None = None


def build_hooks(
    rows: Any, routes: Sequence[Route], environ: Mapping[str, str], where: str
) -> tuple[HookConfig, ...]:
    """Build the hooks, in order.

    Raises:
        SettingsError: a table, a key or a value is invalid.
    """
    found = []
    known = [route.name for route in routes]
    for number, table in enumerate(convert_rows(rows, HookTable, f"{where}hook", label="name"), 1):
        place = f"{where}hook[{number}]"
        if (table.call is None) == (table.url is None):
            raise SettingsError(f"{place}: set call or url, one of both")
        for name in table.routes or ():
            if name not in known:
                raise SettingsError(
                    f"{place}.routes: there is no route {name[:80]!r}{suggest(name, known)}"
                )
        found.append(
            HookConfig(
                name=table.name or table.call or f"{number}",
                function=None
                if table.call is None
                else _find_function(table.call, f"{place}.call"),
                url="" if table.url is None else check_url(table.url, f"{place}.url"),
                secret=_find_secret(table, environ, place),
                stages=frozenset(table.on),
                routes=None if table.routes is None else frozenset(table.routes),
                hold=table.hold,
                timeout_s=table.timeout_s,
                fails_open=table.on_failure == "open",
            )
        )
    return tuple(found)


class WebhookTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[[webhook]]`: an endpoint that receives a POST when a stream has ended."""

    url: Text
    secret_env: Text
    name: RouteName | None = None


def build_webhooks(rows: Any, environ: Mapping[str, str], where: str) -> tuple[Webhook, ...]:
    """Build the webhooks.

    Raises:
        SettingsError: a table, a key or a value is invalid.
    """
    found: dict[str, Webhook] = {}
    tables = convert_rows(rows, WebhookTable, f"{where}webhook", label="name")
    for number, table in enumerate(tables, 1):
        place = f"{where}webhook[{number}]"
        url, _, query = table.url.partition("?")
        check_url(url, f"{place}.url")
        if not re.fullmatch(r"[!-~]*", query) or "#" in query:
            raise SettingsError(f"{place}.url: must not contain a fragment or spaces")
        name = table.name or urlsplit(url).hostname or ""
        if name in found:
            raise SettingsError(f"{place}: the name {name!r} is used twice; give it another 'name'")
        found[name] = Webhook(
            name=name,
            url=table.url,
            secrets=_find_secrets(table.secret_env, environ, f"{place}.secret_env"),
        )
    return tuple(found.values())


def _find_secrets(variable: str, environ: Mapping[str, str], place: str) -> tuple[bytes, ...]:
    """Return the secrets of a variable, which are as Standard Webhooks writes them."""
    if variable not in environ:
        raise SettingsError(f"{place}: the variable is not set")
    secrets = []
    for secret in environ[variable].split():
        encoded = secret.removeprefix("whsec_")
        try:
            secrets.append(b64decode(encoded + "=" * (-len(encoded) % 4), validate=True))
        except ValueError:
            secrets.append(b"")
        if encoded == secret or not 24 <= len(secrets[-1]) <= 64:
            raise SettingsError(
                f"{place}: the variable needs 'whsec_' and the base64 of 24 to 64 random bytes, or "
                "several of these, separated by spaces"
            )
    return tuple(secrets)


def _find_secret(table: HookTable, environ: Mapping[str, str], place: str) -> str:
    """Return the value of the `authorization` header; "" for none."""
    if table.key_env is None:
        return ""
    if table.url is None:
        raise SettingsError(f"{place}.key_env: only a hook with a url takes a key")
    if table.key_env not in environ:
        raise SettingsError(f"{place}.key_env: the variable is not set")
    return f"Bearer {environ[table.key_env]}"


def _import(module: str) -> ModuleType:
    """Import a module, also from the working directory, which the command has not in its path."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(module)
    finally:
        sys.path.pop(0)


def _find_function(path: str, place: str) -> Any:
    """Import a function; a name without a module is a built-in one."""
    module, _, name = path.partition(":")
    if path in BUILT_IN:
        module, name = f"{__name__.partition('.')[0]}.hooks.{path}", path
    if not name:
        raise SettingsError(
            f"{place}: {path[:80]!r} is not of the form module:function; "
            f"built-in: {', '.join(BUILT_IN)}"
        )
    try:
        function = getattr(_import(module), name)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"{place}: {path[:80]!r} cannot be imported: {error}") from None
    if not inspect.iscoroutinefunction(function):
        raise SettingsError(f"{place}: {path[:80]!r} is not an `async def` function")
    return function
