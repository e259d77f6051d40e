"""Scalar settings: keys at the top of the file, and environment variables."""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec

from ..telemetry.logs import LOGGERS
from .failure import SettingsError, check_origins, reason, suggest
from .values import LISTS, SCALARS, Level, Settings

PREFIX = "SESERAGI_"
CONFIG = f"{PREFIX}CONFIG"
"""The path of the file; not a setting of the file itself."""
CLIENT_KEY = f"{PREFIX}KEY"
"""Not a setting: the API key of `seseragi doctor`, which a relay on the same machine ignores."""
IDENTITY = tuple(f"{PREFIX}{name}" for name in ("AUTH", "KEYS_FILE", "SIGNING_KEY"))
"""Variables for keys of tables: see `identity`."""

_TYPES = {field.name: field.type for field in msgspec.structs.fields(Settings)}

_HOST_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")

# Kubernetes sets such variables in every pod for a service named "seseragi".
_KUBERNETES = re.compile(rf"{PREFIX}(SERVICE_.*|PORT_\d+_.*)")


def check_keys(table: Mapping[str, Any], where: str) -> None:
    """Refuse an unknown key at the top of the file."""
    for key in table:
        if key not in SCALARS:
            raise SettingsError(f"{where}unknown key {key!r}{suggest(key, SCALARS)}")


def convert(name: str, value: Any, where: str) -> Any:
    """Convert one scalar; strings (from the environment, the command line) are parsed as its
    type.
    """
    kind = _TYPES[name]
    if name == "log_levels":
        return _convert_levels(value, where)
    if isinstance(value, str) and name in LISTS:
        value = [item.strip() for item in value.split(",") if item.strip()]
    try:
        converted = msgspec.convert(value, kind, strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        _, message = reason(error)
        if name == "log":
            message = "use 'memory', 'sqlite:///PATH' or 'redis://HOST/DB'"
        elif name == "records":
            message = "use 'sqlite:///PATH' or 'postgresql://USER:PASSWORD@HOST/DATABASE'"
        elif get_origin(kind) is Literal:
            message = f"use {' or '.join(map(repr, get_args(kind)))}"
        shown = "it" if "@" in str(value) else repr(value)  # a URL may contain a password
        raise SettingsError(f"{where}: {shown} cannot be used: {message}") from None
    if name == "trusted_proxies":
        _check_networks(converted, where)
    if name == "allowed_hosts":
        _check_hosts(converted, where)
    if name == "cors_origins":
        check_origins(converted, where, others=("*", "null"))
    return converted


def _join_keys(table: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the items of a table, rejoining names that TOML splits at dots."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _join_keys(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _convert_levels(value: Any, where: str) -> dict[str, str]:
    """Convert the levels of loggers; a string has the form `seseragi.generation=debug,
    uvicorn.error=info`.
    """
    if isinstance(value, str):
        rows = [row.partition("=") for row in value.split(",") if row.strip()]
        value = {name.strip(): level.strip() for name, _, level in rows}
    if not isinstance(value, dict):
        raise SettingsError(
            f"{where}: {value!r} cannot be used: give a table, such as "
            "{ 'seseragi.generation' = 'debug' }"
        )
    levels = dict(_join_keys(value))
    for name, level in levels.items():
        try:
            msgspec.convert({name: level}, _TYPES["log_levels"])
        except msgspec.ValidationError:
            if level in get_args(Level):
                message = "give the name of a logger, such as 'seseragi.generation'"
                raise SettingsError(f"{where}: {name!r} cannot be used: {message}") from None
            message = f"use {' or '.join(map(repr, get_args(Level)))}"
            raise SettingsError(f"{where}.{name}: {level!r} cannot be used: {message}") from None
        ours = name.partition(".")[0] == "seseragi"
        if ours and name not in LOGGERS:
            raise SettingsError(
                f"{where}: there is no logger {name!r}{suggest(name, LOGGERS)}; "
                f"there are {', '.join(LOGGERS)}"
            )
    return levels


def _check_hosts(hosts: Iterable[str], where: str) -> None:
    for host in hosts:
        try:
            name = host.removeprefix("*.").encode("idna").decode()
            if not (host == "*" or _HOST_NAME.fullmatch(name)):
                ipaddress.ip_address(name.strip("[]"))
        except ValueError:  # includes IDNA's errors
            raise SettingsError(
                f"{where}: {host!r} cannot be used: give a name without scheme and port, such as "
                "'chat.example.com', '*.example.com' for all below it, or '*' for any"
            ) from None


def _check_networks(networks: Iterable[str], where: str) -> None:
    for network in networks:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            raise SettingsError(
                f"{where}: {network!r} cannot be used: give the address of a proxy, or a network "
                "such as '10.0.0.0/8'"
            ) from None


def from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings from environment variables."""
    values = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable in (CONFIG, CLIENT_KEY, *IDENTITY):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if _KUBERNETES.fullmatch(variable) or (name == "port" and "://" in value):
            continue
        if name not in SCALARS:
            raise SettingsError(
                f"the environment variable {variable} is unknown"
                f"{suggest(variable, (f'{PREFIX}{known.upper()}' for known in SCALARS))}"
            )
        values[name] = convert(name, value, f"the environment variable {variable}")
    return values
