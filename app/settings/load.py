"""Reading of settings: a TOML file, the environment, the command line."""

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ..ledger.config import LedgerConfig
from .convert import SettingsError, check_origins, explain, suggest
from .identity import CLIENT_KEY, CONFIG, IDENTITY, PREFIX, build_identity, read_sources
from .libraries import check_network
from .tables import build_limits, build_prices, build_routes
from .upstreams import DEMO, build_upstreams
from .values import LISTS, SCALARS, Settings

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
    identity = build_identity(*sources)
    limits = build_limits(table, where)
    prices = build_prices(table.pop("price", []), where)
    for key in table:
        if key not in SCALARS:
            raise SettingsError(f"{where}unknown key {key!r}{suggest(key, SCALARS)}")
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
    targets = (*settings.upstreams, *((DEMO,) if settings.demo else ()))
    return msgspec.structs.replace(
        settings, routes=build_routes(routes, targets, attempts=settings.attempts, where=where)
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
                f"the environment variable {variable} is unknown{suggest(variable, known)}"
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
