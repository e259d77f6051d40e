"""Reading of settings: a TOML file, the environment, the command line.

And of the variables that libraries read. With a wrong one the HTTP client would fail at start with
a traceback; OpenTelemetry would silently accept some, or request unsupported features.
"""

import ipaddress
import re
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import httpx2
import msgspec

from ..eventlog.opening import LOGS
from ..ledger.config import LedgerConfig
from ..policies.deadlines import Limits
from ..telemetry.observer import OBSERVERS
from .convert import SettingsError, check_origins, explain, find_part, same_fields, suggest_name
from .identity import CLIENT_KEY, CONFIG, IDENTITY, PREFIX, build_identity, read_sources
from .tables import build_hooks, build_limits, build_prices, build_routes, build_webhooks
from .upstreams import DEMO, build_upstreams
from .values import LISTS, SCALARS, Settings

SPANS: Final = 2048
BATCH: Final = 64
"""Encoding takes 3 ms, which blocks the process: a batch of 512 took 20 ms."""

CONTENT_SPANS: Final = 256
CONTENT_BATCH: Final = 32
"""Spans with content take up to 320 KB: at most 80 MB are queued, and 10 MB sent at once."""

KEYS: Final = (
    *SCALARS, "auth", "hook", "issuer", "key", "limits", "price", "route", "tenant", "upstream",
    "webhook",
)  # fmt: skip
"""The keys of the file."""

_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")

_TYPES = {field.name: field.type for field in msgspec.structs.fields(Settings)}

# Kubernetes sets such variables in every pod for a service named "seseragi".
_KUBERNETES = re.compile(rf"{PREFIX}(SERVICE_.*|PORT_\d+_.*)")


def load_settings(
    environ: Mapping[str, str],
    *,
    config: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Build the settings.

    `config` is the path of the file; by default `SESERAGI_CONFIG`, else `seseragi.toml` in the
    working directory if it exists. `overrides` are scalars from the command line.

    Raises:
        SettingsError: a file, a key or a value is invalid.
    """
    table, where, environ = sources = read_sources(environ, config)
    check_network(environ)
    upstreams, routes = table.pop("upstream", {}), table.pop("route", [])
    hooks, webhooks = table.pop("hook", []), table.pop("webhook", [])
    identity = build_identity(*sources)
    limits = build_limits(table, where)
    prices = build_prices(table.pop("price", []), where)
    for key in table:
        if key not in SCALARS:
            raise SettingsError(f"{where}unknown key {key!r}{suggest_name(key, KEYS)}")
    values = {name: _convert(name, value, f"{where}{name}") for name, value in table.items()}
    values |= _read_variables(environ)
    for name, value in (overrides or {}).items():
        values[name] = _convert(name, value, f"--{name.replace('_', '-')}")
    settings = Settings(
        **values, identity=identity, ledger=LedgerConfig(limits=limits, prices=prices)
    )
    settings = msgspec.structs.replace(
        settings,
        upstreams=build_upstreams(
            upstreams, environ, settings, where, restricted=bool(routes) or identity.configured
        ),
    )
    _find_parts(settings)
    targets = (*settings.upstreams, *((DEMO,) if settings.demo else ()))
    built = build_routes(routes, targets, attempts=settings.attempts, where=where)
    return msgspec.structs.replace(
        settings,
        routes=built,
        hooks=build_hooks(hooks, built, environ, where),
        webhooks=build_webhooks(webhooks, environ, where),
    )


def _find_parts(settings: Settings) -> None:
    """Load the parts of installed packages that the settings name.

    Raises:
        SettingsError: there is none of this name, or it cannot be loaded.
    """
    find_part(LOGS, settings.log.partition(":")[0], "log")
    for name in settings.observers:
        find_part(OBSERVERS, name, "observers")


def find_contradictions(settings: Settings) -> Iterator[str]:
    """Yield a line for each setting that another one contradicts."""
    limits = Limits(**same_fields(settings, Limits))
    if limits.total_timeout_s < limits.first_event_timeout_s:
        yield _too_short(limits)
    # The default is for settings that say nothing of it.
    if limits.first_event_timeout_s < limits.fallback_after_s != Limits().fallback_after_s:
        yield (
            f"fallback_after_s: {limits.fallback_after_s:g} s is above first_event_timeout_s "
            f"({limits.first_event_timeout_s:g} s) and has no effect; lower it"
        )
    for route in settings.routes:
        for target in (*route.targets, *((route.spent.target,) if route.spent else ())):
            place, upstream = f"route {route.name!r}: {target.name!r}", target.upstream
            own = target.limits(limits)
            line = _too_short(own)
            if own.total_timeout_s < own.first_event_timeout_s and line != _too_short(limits):
                yield f"{place}: {line}"
            if upstream.prefixed and upstream.models and target.model not in upstream.models:
                yield (
                    f"{place}: models of [upstream.{upstream.name}] does not list it; add it "
                    "there, or correct it"
                )


def _too_short(limits: Limits) -> str:
    return (
        f"total_timeout_s: {limits.total_timeout_s:g} s is below first_event_timeout_s "
        f"({limits.first_event_timeout_s:g} s): raise it, or lower that"
    )


def load_scalar(name: str, environ: Mapping[str, str], *, config: str | None = None) -> Any:
    """Return one scalar setting; None if it is not set.

    Raises:
        SettingsError: the file, or this part of it, is invalid.
    """
    table, where, environ = read_sources(environ, config)
    variable = f"{PREFIX}{name.upper()}"
    if variable in environ:
        return _convert(name, environ[variable], f"the environment variable {variable}")
    return _convert(name, table[name], f"{where}{name}") if name in table else None


def _read_variables(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the scalars from environment variables."""
    values = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable in (CONFIG, CLIENT_KEY, *IDENTITY.values()):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if _KUBERNETES.fullmatch(variable) or (name == "port" and "://" in value):
            continue
        if name not in SCALARS:
            known = [f"{PREFIX}{scalar.upper()}" for scalar in SCALARS]
            raise SettingsError(
                f"the environment variable {variable} is unknown"
                f"{suggest_name(variable, known, PREFIX)}"
            )
        values[name] = _convert(name, value, f"the environment variable {variable}")
    return values


def _convert(name: str, value: Any, where: str) -> Any:
    """Convert one scalar; strings (from variables, the command line) are parsed as its type."""
    raw = value
    if name in LISTS and isinstance(value, str):
        raw = [item.strip() for item in value.split(",") if item.strip()]
    shown = "it" if "@" in str(value) else repr(value)  # a URL may contain a password
    try:
        converted = msgspec.convert(raw, _TYPES[name], strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        _, message = explain(error, _TYPES[name])
        raise SettingsError(f"{where}: {shown} cannot be used: {message}") from None
    if name == "cors_origins":
        check_origins(converted, where, others=("*", "null"))
    elif name == "trusted_proxies":
        _check_networks(converted, where)
    return converted


def _check_networks(networks: tuple[str, ...], where: str) -> None:
    for network in networks:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            raise SettingsError(
                f"{where}: {network!r} cannot be used: give the address of a proxy, or a network "
                "such as '10.0.0.0/8'"
            ) from None


def check_network(environ: Mapping[str, str]) -> None:
    """Refuse unreadable certificates and invalid proxies."""
    if path := environ.get("SSL_CERT_FILE"):
        try:
            ssl.create_default_context(cafile=path)
        except (OSError, ValueError):  # an SSLError is an OSError
            raise SettingsError(
                f"the environment variable SSL_CERT_FILE: {path!r} is not a file of certificates "
                "(PEM)"
            ) from None
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        for variable in (name, name.lower()):
            url = environ.get(variable, "").strip()
            try:
                if url:
                    httpx2.Proxy(url if "://" in url else f"http://{url}")
            except (ValueError, httpx2.InvalidURL):
                raise SettingsError(
                    f"the environment variable {variable}: not a proxy URL"
                ) from None


class SpanLimits(NamedTuple):
    """The maximum number of queued spans, the batch size, and the delay to fill a batch."""

    spans: int
    batch: int
    delay_ms: int


def read_span_limits(environ: Mapping[str, str], *, content: bool) -> SpanLimits | None:
    """Return the limits for exporting spans; None if the environment disables that.

    Raises:
        SettingsError: a variable is invalid.
    """
    environ = {name: value.strip() for name, value in environ.items() if value.strip()}
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    exporter = environ.get("OTEL_TRACES_EXPORTER", "otlp")
    if exporter == "none":
        return None
    if exporter != "otlp":
        raise SettingsError(
            f"OTEL_TRACES_EXPORTER: {exporter!r} cannot be used: use 'otlp', or 'none' for none"
        )
    protocol = next((environ[name] for name in _PROTOCOLS if name in environ), "http/protobuf")
    if protocol != "http/protobuf":
        raise SettingsError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL: {protocol!r} cannot be used: use 'http/protobuf', which "
            "collectors take at port 4318"
        )
    spans = _read(environ, "OTEL_BSP_MAX_QUEUE_SIZE", CONTENT_SPANS if content else SPANS)
    batch = _read(environ, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", CONTENT_BATCH if content else BATCH)
    delay_ms = _read(environ, "OTEL_BSP_SCHEDULE_DELAY", 5000)
    return SpanLimits(spans, min(batch, spans), delay_ms)


def _read(environ: Mapping[str, str], name: str, default: int) -> int:
    value = environ.get(name, f"{default}")
    if not (value.isascii() and value.isdecimal() and len(value) < 10 and int(value)):
        raise SettingsError(f"{name}: {value!r} cannot be used: give a whole number from 1 on")
    return int(value)
