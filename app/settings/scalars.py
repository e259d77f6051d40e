"""The settings that are one value each: keys at the top of the file, and variables."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec

from .failure import SettingsError, reason, suggest
from .values import LISTS, SCALARS, Settings

PREFIX = "SESERAGI_"
CONFIG = f"{PREFIX}CONFIG"
"""Names the file and is no setting of it."""
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
    if isinstance(value, str) and name in LISTS:
        value = [item.strip() for item in value.split(",") if item.strip()]
    try:
        converted = msgspec.convert(value, kind, strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        _, told = reason(error)
        if name == "log":
            told = "use 'memory', 'sqlite:///PATH' or 'redis://HOST/DB'"
        elif get_origin(kind) is Literal:
            told = f"use {' or '.join(map(repr, get_args(kind)))}"
        what = "it" if "@" in str(value) else repr(value)  # a URL may hold a password
        raise SettingsError(f"{where}: {what} cannot be used: {told}") from None
    if name == "trusted_proxies":
        _check_networks(converted, where)
    if name == "allowed_hosts":
        _check_hosts(converted, where)
    return converted


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
        if not variable.startswith(PREFIX) or variable in (CONFIG, *IDENTITY):
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
