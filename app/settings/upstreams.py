"""The upstreams: the tables of the file, the presets, and what the environment adds."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from app.dialects.table import DIALECTS
from app.settings.failure import SettingsError, reason
from app.settings.keys import read_key
from app.settings.places import check_headers, check_url
from app.upstreams.credentials import Auth, Credentials, Key, NoCredentials
from app.upstreams.endpoints import Upstream
from app.upstreams.presets import PRESETS, Preset


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


def build_upstreams(tables: Any, environ: Mapping[str, str], *, where: str) -> tuple[Upstream, ...]:
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
            key, told = reason(error)
            raise SettingsError(f"{place}{key}: {told}") from None
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
        base_url=check_url(base_url, source),
        dialect=dialect,
        credentials=_credentials(table, preset, environ, place=place),
        query=table.query,
        headers=check_headers(table.headers, f"{place}.headers"),
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
        key, told = reason(error)
        raise SettingsError(f"{place}.quirks{key}: {told}") from None


def _credentials(
    table: UpstreamTable, preset: Preset, environ: Mapping[str, str], *, place: str
) -> Credentials:
    secret = read_key(
        table.key_file,
        table.key_env,
        preset.key_env,
        environ,
        place=place,
    )
    return Key(secret, table.auth or preset.auth) if secret else NoCredentials()
