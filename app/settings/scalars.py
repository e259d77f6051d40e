"""The settings that are one value each: keys at the top of the file, and variables."""

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
"""Names the file and is no setting of it."""
CLIENT_KEY = f"{PREFIX}KEY"
"""No setting: the key that `seseragi doctor` shows, which a relay of the same machine ignores."""
IDENTITY = tuple(f"{PREFIX}{name}" for name in ("AUTH", "KEYS_FILE", "SIGNING_KEY"))
"""Stand for keys of tables: see `identity`."""

_TYPES = {field.name: field.type for field in msgspec.structs.fields(Settings)}

_HOST_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")

# Kubernetes gives every pod such variables for a service that is called "seseragi".
_KUBERNETES = re.compile(rf"{PREFIX}(SERVICE_.*|PORT_\d+_.*)")


def check_keys(table: Mapping[str, Any], where: str) -> None:
    """Refuse a key at the top of the file that is no setting."""
    for key in table:
        if key not in SCALARS:
            raise SettingsError(f"{where}unknown key {key!r}{suggest(key, SCALARS)}")


def convert(name: str, value: Any, where: str) -> Any:
    """Check one scalar; text (of the environment, the command line) is read as its type."""
    kind = _TYPES[name]
    if name == "log_levels":
        return _convert_levels(value, where)
    if isinstance(value, str) and name in LISTS:
        value = [item.strip() for item in value.split(",") if item.strip()]
    try:
        converted = msgspec.convert(value, kind, strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        _, told = reason(error)
        if name == "log":
            told = "use 'memory', 'sqlite:///PATH' or 'redis://HOST/DB'"
        elif name == "records":
            told = "use 'sqlite:///PATH' or 'postgresql://USER:PASSWORD@HOST/DATABASE'"
        elif get_origin(kind) is Literal:
            told = f"use {' or '.join(map(repr, get_args(kind)))}"
        what = "it" if "@" in str(value) else repr(value)  # a URL may hold a password
        raise SettingsError(f"{where}: {what} cannot be used: {told}") from None
    if name == "trusted_proxies":
        _check_networks(converted, where)
    if name == "allowed_hosts":
        _check_hosts(converted, where)
    if name == "cors_origins":
        check_origins(converted, where, others=("*", "null"))
    return converted


def _join_keys(table: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the rows of a table with the names that TOML has taken apart at their dots."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _join_keys(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _convert_levels(value: Any, where: str) -> dict[str, str]:
    """Check the levels of loggers; a text is as `seseragi.relay=debug, uvicorn.error=info`."""
    if isinstance(value, str):
        rows = [row.partition("=") for row in value.split(",") if row.strip()]
        value = {name.strip(): level.strip() for name, _, level in rows}
    if not isinstance(value, dict):
        raise SettingsError(
            f"{where}: {value!r} cannot be used: give a table, such as "
            "{ 'seseragi.relay' = 'debug' }"
        )
    levels = dict(_join_keys(value))
    for name, level in levels.items():
        try:
            msgspec.convert({name: level}, _TYPES["log_levels"])
        except msgspec.ValidationError:
            if level in get_args(Level):
                told = "give the name of a logger, such as 'seseragi.relay'"
                raise SettingsError(f"{where}: {name!r} cannot be used: {told}") from None
            told = f"use {' or '.join(map(repr, get_args(Level)))}"
            raise SettingsError(f"{where}.{name}: {level!r} cannot be used: {told}") from None
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
        except ValueError:  # IDNA's errors too
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
    """Read the settings that are variables."""
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
