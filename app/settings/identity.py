"""The sources of settings, and the settings of authentication.

Nothing here imports the rest of the relay: keys are created where the relay itself could not
start, and a second sooner.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from ..errors import suggest
from ..identity.config import (
    ALGORITHMS,
    AuthConfig,
    Identity,
    IssuerConfig,
    KeyConfig,
    why_unusable,
)
from .convert import SettingsError, check_origins, convert, convert_rows

PREFIX: Final = "SESERAGI_"
_OF_AUTH = ("auth", "keys_file", "signing_key", "signing_key_fallbacks")
IDENTITY: Final = {name: f"{PREFIX}{name.upper()}" for name in _OF_AUTH}
"""The variables of `auth`, and of keys of `[auth]`."""

CONFIG_FILE = "seseragi.toml"
CONFIG = f"{PREFIX}CONFIG"
"""The path of the file; not a setting of the file itself."""
CLIENT_KEY = f"{PREFIX}KEY"
"""Not a setting: the API key of `seseragi doctor`, which a relay on the same machine ignores."""


class SettingsSources(NamedTuple):
    """The content of the file and the environment."""

    table: dict[str, Any]
    where: str
    """The prefix of the file's settings in messages."""
    environ: Mapping[str, str]
    """The variables that are not empty."""


def read_sources(environ: Mapping[str, str], config: str | None) -> SettingsSources:
    """Read the file and the environment.

    Raises:
        SettingsError: the file cannot be read.
    """
    environ = {name: value for name, value in environ.items() if value.strip()}
    path = config or environ.get(CONFIG)
    if path is None and not Path(CONFIG_FILE).is_file():
        return SettingsSources({}, "", environ)
    path = path or CONFIG_FILE
    return SettingsSources(_read_file(path), f"{path}: ", environ)


def _read_file(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            table: dict[str, Any] = msgspec.to_builtins(tomllib.load(file))  # times to strings
            return table
    except FileNotFoundError:
        raise SettingsError(f"{path}: file not found; check --config") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # bad TOML, bad UTF-8, a number of thousands of digits
        raise SettingsError(f"{path}: invalid TOML: {error}") from None
    except RecursionError:
        raise SettingsError(f"{path}: nested too deeply") from None


def load_identity(environ: Mapping[str, str], *, config: str | None = None) -> Identity:
    """Build only the authentication settings.

    So keys can be created where the relay itself could not start.

    Raises:
        SettingsError: the file, or this part of it, is invalid.
    """
    return build_identity(*read_sources(environ, config))


def build_identity(tables: dict[str, Any], where: str, environ: Mapping[str, str]) -> Identity:
    """Build the authentication settings; remove their tables from those of the file.

    Raises:
        SettingsError: a table, a key or a value is invalid.
    """
    auth, place = tables.pop("auth", None), f"{where}auth"
    variables: dict[str, Any] = {n: environ[v] for n, v in IDENTITY.items() if v in environ}
    if "signing_key_fallbacks" in variables:
        variables["signing_key_fallbacks"] = variables["signing_key_fallbacks"].split(",")
    if "auth" in variables:
        auth, place = variables.pop("auth"), f"the environment variable {IDENTITY['auth']}"
    trusted = auth == "none"
    if isinstance(auth, str) and not trusted:
        raise SettingsError(f"{place}: {auth!r} cannot be used: use 'none', or a table [auth]")
    configured = bool(auth is not None or variables or {"key", "issuer"} & tables.keys())
    keys = convert_rows(tables.pop("key", []), KeyConfig, f"{where}key")
    issuers = convert_rows(tables.pop("issuer", []), IssuerConfig, f"{where}issuer")
    for kind, rows in (("key", keys), ("issuer", issuers)):
        for number, row in enumerate(rows, 1):
            check_origins(row.origins, f"{where}{kind}[{number}].origins")
    _check_issuers(issuers, f"{where}issuer")
    if trusted and issuers:
        raise SettingsError(f"{place}: 'none' takes no [[issuer]]: every client may send chats")
    if trusted and (idle := next((key.name for key in keys if not key.roles), None)):
        raise SettingsError(
            f"{place}: with 'none' only operators need keys: give the key {idle!r} the role "
            "'admin', or remove it"
        )
    table = {} if auth is None or trusted else auth
    return Identity(
        auth=convert(
            {**table, **variables} if isinstance(table, dict) else table, AuthConfig, place
        ),
        keys=keys,
        issuers=issuers,
        trusted=trusted,
        configured=configured and not trusted,
    )


def _check_issuers(issuers: tuple[IssuerConfig, ...], place: str) -> None:
    """Refuse issuers whose tokens would all be rejected, or be ambiguous."""
    seen: dict[str, int] = {}
    for number, row in enumerate(issuers, 1):
        here = f"{place}[{number}]"
        if row.issuer in seen:
            raise SettingsError(
                f"{here}.issuer: {row.issuer!r} is also in {place}[{seen[row.issuer]}]; write one "
                "table with all audiences and algorithms"
            )
        seen[row.issuer] = number
        for name in row.algorithms:
            if name not in ALGORITHMS:
                raise SettingsError(
                    f"{here}.algorithms: {name!r} cannot be used{suggest(name, ALGORITHMS)}; "
                    f"use algorithms with a public key: {', '.join(ALGORITHMS)}"
                )
        # The issuer is only an identifier if `jwks_url` locates its keys.
        key, url = ("issuer", row.issuer) if row.jwks_url is None else ("jwks_url", row.jwks_url)
        message = why_unusable(url)
        if message is None and key == "issuer" and "?" in url:
            message = "set jwks_url, since it has a query"
        if message is not None:
            raise SettingsError(f"{here}.{key}: {message}")
