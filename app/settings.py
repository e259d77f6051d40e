"""The settings: defaults, a TOML file, the environment, the command line; later wins.

One frozen value, built once. No other module reads the environment or the file.
"""

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Meta

from app.dialects.table import DIALECTS, MODEL
from app.upstreams.credentials import Auth, Credentials, Key, NoCredentials, Secret
from app.upstreams.endpoints import Upstream
from app.upstreams.presets import PRESETS, Preset

PREFIX = "SESERAGI_"
CONFIG_FILE = "seseragi.toml"

Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]
SecondsOrNone = Annotated[float, Meta(ge=0, le=31_536_000)]
Count = Annotated[int, Meta(ge=1)]
Bytes = Annotated[int, Meta(ge=1024)]


LOG = r"^(memory|sqlite:///(?!:|file:).+)$"
"""Where the event log may be."""


class SettingsError(Exception):
    """A setting cannot be used; the text is one line that says where and what to do."""


class UpstreamTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[upstream.NAME]`: a name that is a preset, or names one, starts from its values."""

    preset: str | None = None
    base_url: str | None = None
    key_env: str | None = None
    key_file: str | None = None
    dialect: str | None = None
    auth: Auth | None = None
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    models: tuple[str, ...] = ()
    default_model: str | None = None
    quirks: dict[str, Any] | None = None
    """Of the dialect's own type."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything two deployments may want to differ in. Units are in the names."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8000
    log: Annotated[str, Meta(pattern=LOG)] = "memory"
    log_format: Literal["auto", "console", "json"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    demo: bool = True
    default_model: str | None = None
    cors_origins: tuple[str, ...] = ()

    gate_s: SecondsOrNone = 5
    heartbeat_s: Seconds = 10
    retry_ms: Annotated[int, Meta(ge=500, le=600_000)] = 2000
    send_timeout_s: Seconds = 30
    linger_s: SecondsOrNone = 60
    drain_s: SecondsOrNone = 5
    retention_s: SecondsOrNone = 900

    connect_timeout_s: Seconds = 10
    first_event_timeout_s: Seconds = 300
    idle_timeout_s: Seconds = 60
    total_timeout_s: Seconds = 1800

    max_request_bytes: Bytes = 8 * 2**20
    max_line_bytes: Bytes = 16 * 2**20
    max_event_bytes: Bytes = 16 * 2**20
    max_log_bytes: Bytes = 512 * 2**20
    max_stream_bytes: Bytes = 64 * 2**20
    max_stream_events: Count = 1_000_000
    max_streams: Count = 2000
    max_readers: Count = 200

    upstreams: tuple[Upstream, ...] = ()


SCALARS = tuple(name for name in Settings.__struct_fields__ if name != "upstreams")


def load_settings(
    environ: Mapping[str, str],
    *,
    config: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Build the settings.

    `config` is the path of the file; without it `SESERAGI_CONFIG`, else `seseragi.toml` in
    the working directory if there is one. `overrides` are scalars from the command line.

    Raises:
        SettingsError: a file, a key or a value that cannot be used.
    """
    environ = {name: value for name, value in environ.items() if value.strip()}
    path = config or environ.get(f"{PREFIX}CONFIG")
    table: dict[str, Any] = {}
    if path is not None or Path(CONFIG_FILE).is_file():
        path = path or CONFIG_FILE
        table = _read_file(path)
    where = f"{path}: "
    tables = table.pop("upstream", {})
    _check_keys(table, where)
    values = {name: _convert(name, value, f"{where}{name}") for name, value in table.items()}
    values |= _from_environment(environ)
    for name, value in (overrides or {}).items():
        values[name] = _convert(name, value, f"--{name.replace('_', '-')}")
    values["upstreams"] = _upstreams(tables, environ, where=where)
    return Settings(**values)


def _read_file(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise SettingsError(f"{path}: there is no such file; check --config") from None
    except OSError as error:
        raise SettingsError(f"{path}: it cannot be read: {error.strerror}") from None
    except ValueError as error:  # bad TOML, bad UTF-8, a number of thousands of digits
        raise SettingsError(f"{path}: it is not valid TOML: {error}") from None
    except RecursionError:
        raise SettingsError(f"{path}: it is nested too deeply") from None


def _check_keys(table: Mapping[str, Any], where: str) -> None:
    for key in table:
        if key not in SCALARS:
            raise SettingsError(f"{where}unknown key {key!r}{_suggest(key, SCALARS)}")


def _suggest(word: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _convert(name: str, value: Any, where: str) -> Any:
    """Check one scalar; text (of the environment, the command line) is read as its type."""
    kind = _TYPES[name]
    if isinstance(value, str) and name == "cors_origins":
        value = [origin.strip() for origin in value.split(",") if origin.strip()]
    elif name == "cors_origins" and isinstance(value, list):
        value = list(value)
    try:
        return msgspec.convert(value, kind, strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        reason = str(error).partition(" - at")[0]
        if name == "log":
            reason = "use 'memory' or 'sqlite:///PATH'"
        elif get_origin(kind) is Literal:
            reason = f"use {' or '.join(map(repr, get_args(kind)))}"
        raise SettingsError(
            f"{where}: {value!r} cannot be used: {reason[0].lower()}{reason[1:]}"
        ) from None


_TYPES = {field.name: field.type for field in msgspec.structs.fields(Settings)}

# Kubernetes gives every pod such variables for a service that is called "seseragi".
_KUBERNETES = re.compile(rf"{PREFIX}(SERVICE_.*|PORT_\d+_.*)")


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable == f"{PREFIX}CONFIG":
            continue
        name = variable.removeprefix(PREFIX).lower()
        if _KUBERNETES.fullmatch(variable) or (name == "port" and "://" in value):
            continue
        if name not in SCALARS:
            raise SettingsError(
                f"the environment variable {variable} is unknown"
                f"{_suggest(variable, tuple(f'{PREFIX}{known.upper()}' for known in SCALARS))}"
            )
        values[name] = _convert(name, value, f"the environment variable {variable}")
    return values


def _upstreams(tables: Any, environ: Mapping[str, str], *, where: str) -> tuple[Upstream, ...]:
    """Build the upstreams of the file, then those that a key in the environment adds."""
    if not isinstance(tables, dict):
        raise SettingsError(f"{where}upstream: write tables such as [upstream.openai]")
    upstreams = []
    for name, raw in tables.items():
        place = f"{where}upstream.{name}"
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name) or name == "demo":
            raise SettingsError(
                f"{place}: an upstream's name is made of a-z, 0-9, '_', '.' and '-', "
                "and is not 'demo'"
            )
        try:
            table = msgspec.convert(raw, UpstreamTable)
        except msgspec.ValidationError as error:
            reason, _, at = str(error).partition(" - at ")
            key = at.strip("`").removeprefix("$")
            raise SettingsError(f"{place}{key}: {reason[0].lower()}{reason[1:]}") from None
        upstreams.append(_upstream(name, table, environ, place=place))
    for name, preset in PRESETS.items():
        if name not in tables and _is_wanted(preset, environ):
            upstreams.append(
                _upstream(name, UpstreamTable(), environ, place=preset.key_env or name)
            )
    return tuple(upstreams)


def _is_wanted(preset: Preset, environ: Mapping[str, str]) -> bool:
    """Tell whether the environment alone says enough to use a provider."""
    has_key = bool(preset.key_env and environ.get(preset.key_env))
    has_url = bool(preset.base_url_env and environ.get(preset.base_url_env))
    return has_url or (has_key and preset.base_url is not None)


def _upstream(
    name: str, table: UpstreamTable, environ: Mapping[str, str], *, place: str
) -> Upstream:
    if table.preset is not None and table.preset not in PRESETS:
        raise SettingsError(
            f"{place}.preset: unknown preset {table.preset!r}; presets: {', '.join(PRESETS)}"
        )
    preset = PRESETS.get(table.preset or name, Preset())
    dialect = table.dialect or preset.dialect
    if dialect not in DIALECTS:
        raise SettingsError(
            f"{place}.dialect: unknown dialect {dialect!r}; dialects: {', '.join(DIALECTS)}"
        )
    base_url, source = table.base_url, f"{place}.base_url"
    if base_url is None and preset.base_url_env and environ.get(preset.base_url_env):
        base_url, source = environ[preset.base_url_env], preset.base_url_env
    base_url = base_url or preset.base_url
    if base_url is None:
        raise SettingsError(f"{place}: base_url is missing; give the URL the API is under")
    return Upstream(
        name=name,
        base_url=_checked_url(base_url, source),
        dialect=dialect,
        credentials=_credentials(table, preset, environ, place=place),
        query=table.query,
        headers=_checked_headers(table.headers, f"{place}.headers"),
        quirks=_quirks(table, preset, dialect=dialect, place=place),
        models=table.models,
        default_model=table.default_model or preset.default_model,
    )


def _quirks(
    table: UpstreamTable, preset: Preset, *, dialect: str, place: str
) -> msgspec.Struct | None:
    """Read the quirks as the dialect's own; those that are not given stay the preset's."""
    known = preset.quirks if preset.dialect == dialect else None
    if table.quirks is None:
        return known
    values = msgspec.structs.asdict(known) if known is not None else {}
    try:
        return msgspec.convert({**values, **table.quirks}, DIALECTS[dialect].quirks)
    except msgspec.ValidationError as error:
        reason, _, at = str(error).partition(" - at ")
        key = at.strip("`").removeprefix("$")
        raise SettingsError(f"{place}.quirks{key}: {reason[0].lower()}{reason[1:]}") from None


def _checked_url(url: str, source: str) -> str:
    url = url.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
        host.encode("idna")
        httpx2.URL(url.replace(MODEL, "model"))
    except (ValueError, httpx2.InvalidURL) as error:
        raise SettingsError(f"{source}: it is no URL: {error}") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise SettingsError(f"{source}: it has to start with http:// or https:// and name a host")
    if parts.username or parts.password:
        raise SettingsError(f"{source}: put the key into key_env, not into the URL")
    if parts.query or parts.fragment or not re.fullmatch(r"[!-~]+", url):
        raise SettingsError(
            f"{source}: it must have no query, fragment, spaces or special characters; "
            "what every request needs goes into query"
        )
    return url


def _checked_headers(headers: Mapping[str, str], source: str) -> Mapping[str, str]:
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
            raise SettingsError(f"{source}: {name!r} is no name of a header")
        if not re.fullmatch(r"[ -~]*", value):
            raise SettingsError(f"{source}.{name}: a header has visible ASCII characters only")
    return headers


def _credentials(
    table: UpstreamTable, preset: Preset, environ: Mapping[str, str], *, place: str
) -> Credentials:
    secret = _secret(table, preset, environ, place=place)
    return Key(secret, table.auth or preset.auth) if secret else NoCredentials()


def _secret(
    table: UpstreamTable, preset: Preset, environ: Mapping[str, str], *, place: str
) -> Secret | None:
    if table.key_file is not None:
        source = f"{place}.key_file"
        try:
            value = Path(table.key_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise SettingsError(f"{source}: {table.key_file!r} cannot be read") from None
    else:
        variable = table.key_env or preset.key_env
        if variable is None:
            return None
        source = f"the environment variable {variable}"
        value = environ.get(variable, "").strip()
        if not value and table.key_env:
            raise SettingsError(f"{place}.key_env: {source} is not set")
    if not value:
        return None
    if not re.fullmatch(r"[!-~]+", value):
        raise SettingsError(f"{source}: a key has visible ASCII characters only")
    return Secret(value)
