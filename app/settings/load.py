"""Loading of settings from all sources."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..identity.config import Identity
from ..ledger.config import LedgerConfig
from ..upstreams.options import SAFE_WORD
from .failure import SettingsError
from .identity import build_identity
from .limits import build_limits
from .network import check_network
from .prices import build_prices
from .replayed import stand_in
from .routes import build_routes
from .scalars import CONFIG, PREFIX, check_keys, convert, from_environment
from .upstreams import DEMO, Common, build_upstreams
from .values import Settings

CONFIG_FILE = "seseragi.toml"


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
    environ = {name: value for name, value in environ.items() if value.strip()}
    check_network(environ)
    table, where = _find_file(environ, config)
    upstreams, routes = table.pop("upstream", {}), table.pop("route", [])
    identity = build_identity(table, environ, where=where)
    limits = build_limits(table, where=where)
    prices = build_prices(table.pop("price", []), where=where)
    check_keys(table, where)
    values = {name: convert(name, value, f"{where}{name}") for name, value in table.items()}
    values |= from_environment(environ)
    for name, value in (overrides or {}).items():
        values[name] = convert(name, value, f"--{name.replace('_', '-')}")
    common = Common(values.get("url_schemes", Settings().url_schemes))
    # With a restricted set of models or clients.
    if routes or not values.get("passthrough", True) or identity.configured:
        common = common._replace(options=(SAFE_WORD,))
    if values.get("record_cassettes") == "replay" and values.get("cassettes"):
        environ |= stand_in(Path(values["cassettes"]), environ)
    values["upstreams"] = build_upstreams(upstreams, environ, where=where, common=common)
    ledger = LedgerConfig(limits=limits, prices=prices)
    settings = Settings(**values, identity=identity, ledger=ledger)
    demo = (DEMO,) if settings.demo else ()
    built = build_routes(
        routes, (*settings.upstreams, *demo), attempts=settings.attempts, where=where
    )
    return msgspec.structs.replace(settings, routes=built)


def load_identity(environ: Mapping[str, str], *, config: str | None = None) -> Identity:
    """Build only the authentication settings.

    So keys can be created where the relay itself could not start.

    Raises:
        SettingsError: the file, or this part of it, is invalid.
    """
    environ = {name: value for name, value in environ.items() if value.strip()}
    table, where = _find_file(environ, config)
    return build_identity(table, environ, where=where)


def load_scalar(name: str, environ: Mapping[str, str], *, config: str | None = None) -> Any:
    """Return one scalar setting; None if it is not set.

    Raises:
        SettingsError: the file, or this part of it, is invalid.
    """
    environ = {key: value for key, value in environ.items() if value.strip()}
    table, where = _find_file(environ, config)
    variable = f"{PREFIX}{name.upper()}"
    if variable in environ:
        return convert(name, environ[variable], f"the environment variable {variable}")
    return convert(name, table[name], f"{where}{name}") if name in table else None


def _find_file(environ: Mapping[str, str], config: str | None) -> tuple[dict[str, Any], str]:
    """Return the content of the file, and the prefix of its settings in messages."""
    path = config or environ.get(CONFIG)
    if path is None and not Path(CONFIG_FILE).is_file():
        return {}, ""
    path = path or CONFIG_FILE
    return _read_file(path), f"{path}: "


def _read_file(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise SettingsError(f"{path}: file not found; check --config") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # bad TOML, bad UTF-8, a number of thousands of digits
        raise SettingsError(f"{path}: invalid TOML: {error}") from None
    except RecursionError:
        raise SettingsError(f"{path}: nested too deeply") from None
