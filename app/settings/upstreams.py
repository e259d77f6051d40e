"""Upstreams from the file's tables, the presets and the environment."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from ..demo import EMBEDDING_MODEL, MODELS
from ..dialects.upstream_format import Quirks
from ..dialects.upstream_formats import UPSTREAM_FORMATS
from ..upstreams.cassettes import CASSETTE
from ..upstreams.endpoints import Upstream
from ..upstreams.presets import PRESETS, UNKNOWN, Preset
from .base_urls import check_headers, check_query, find_base_url, find_base_url_source
from .failure import SettingsError, reason, suggest
from .keys import build_credentials, find_source
from .tables import UpstreamTable, read_upstream_table

DEMO = Upstream("demo", "http://demo/v1", models=(*MODELS, EMBEDDING_MODEL), prefixed=False)
"""The built-in models, which run in this process."""


OWN = (DEMO.name, CASSETTE.name)
"""The names of upstreams within this process."""


class Common(NamedTuple):
    """Defaults for all upstreams, which their tables override."""

    url_schemes: tuple[str, ...]
    options: tuple[str, ...] | None = None


def build_upstreams(
    tables: Any, environ: Mapping[str, str], *, where: str, common: Common
) -> tuple[Upstream, ...]:
    """Build the upstreams of the file, then those that variables add."""
    if not isinstance(tables, dict):
        raise SettingsError(f"{where}upstream: write tables such as [upstream.openai]")
    upstreams = []
    for name, raw in tables.items():
        place = f"{where}upstream.{name}"
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name) or name in OWN:
            raise SettingsError(
                f"{place}: an upstream's name is made of a-z, 0-9, '_', '.' and '-', "
                f"and is not {' or '.join(map(repr, OWN))}"
            )
        table = read_upstream_table(raw, place)
        upstreams.append(_build(name, table, environ, place=place, common=common))
    for name, preset in PRESETS.items():
        if name not in tables and _is_wanted(preset, environ):
            place = f"upstream {name!r}"
            upstreams.append(_build(name, UpstreamTable(), environ, place=place, common=common))
    return tuple(upstreams)


def _is_wanted(preset: Preset, environ: Mapping[str, str]) -> bool:
    """Return whether the environment alone is sufficient to use a provider."""
    key = any(environ.get(variable) for variable in preset.key_env)
    url = bool(environ.get(preset.base_url_env or ""))
    match preset.added_by:
        case "key":
            return key
        case "URL":
            return url
        case "key or URL":
            return key or url
        case "key and URL":
            return key and url
        case "table":
            return False


def how_to_add(name: str) -> str | None:
    """Return how to add a preset's upstream; None if there is no such preset."""
    preset = PRESETS.get(name)
    if preset is None:
        return None
    table = f"write [upstream.{name}]"
    key, url = " or ".join(preset.key_env), preset.base_url_env
    match preset.added_by:
        case "key" | "key or URL":
            return f"set {key}, or {table}"
        case "key and URL":
            return f"set {key} and {url}, or {table}"
        case "URL":
            return f"set {url}, or {table}"
        case "table":
            return table


def _build(
    name: str, table: UpstreamTable, environ: Mapping[str, str], *, place: str, common: Common
) -> Upstream:
    if table.preset is not None and table.preset not in PRESETS:
        raise SettingsError(
            f"{place}.preset: unknown preset {table.preset!r}{suggest(table.preset, PRESETS)}; "
            f"presets: {', '.join(PRESETS)}"
        )
    preset = PRESETS.get(table.preset or name, UNKNOWN)
    dialect = table.dialect or preset.dialect
    if dialect not in UPSTREAM_FORMATS:
        raise SettingsError(
            f"{place}.dialect: unknown dialect {dialect!r}{suggest(dialect, UPSTREAM_FORMATS)}; "
            f"dialects: {', '.join(UPSTREAM_FORMATS)}"
        )
    # A host other than the provider's own may need no key.
    own_host = table.base_url is None and not environ.get(preset.base_url_env or "")
    needed = own_host and (preset.base_url or "").startswith("https:")
    credentials = build_credentials(table, preset, environ, place=place, needed=needed)
    return Upstream(
        name=name,
        base_url=find_base_url(table, preset, environ, place=place),
        dialect=dialect,
        credentials=credentials,
        query=check_query({**preset.query, **table.query}, f"{place}.query"),
        headers={**preset.headers, **check_headers(table.headers, f"{place}.headers")},
        quirks=_quirks(table, preset, dialect=dialect, own_host=own_host, place=place),
        models=table.models,
        default_model=table.default_model or (None if table.models else preset.default_model),
        lists_models=preset.lists_models,
        options=common.options if table.options is None else table.options,
        url_schemes=common.url_schemes if table.url_schemes is None else table.url_schemes,
        credentials_source=find_source(credentials, table, preset, environ, place=place),
        base_url_source=find_base_url_source(table, preset, environ, place=place),
        max_output_tokens=table.max_output_tokens,
        trace_context=table.trace_context,
    )


def _quirks(
    table: UpstreamTable, preset: Preset, *, dialect: str, own_host: bool, place: str
) -> Quirks | None:
    """Convert the quirks to the dialect's type; the preset's are the defaults."""
    known: Mapping[str, object] = {}
    if preset.dialect == dialect:
        known = {**preset.quirks, **(preset.host_quirks if own_host else {})}
    kind = UPSTREAM_FORMATS[dialect].quirks
    for key in table.quirks:
        if key not in kind.__struct_fields__:
            raise SettingsError(
                f"{place}.quirks: unknown key {key!r}{suggest(key, kind.__struct_fields__)}"
            )
    if not known and not table.quirks:
        return None
    try:
        return msgspec.convert({**known, **table.quirks}, kind)
    except msgspec.ValidationError as error:
        key, message = reason(error)
        raise SettingsError(f"{place}.quirks{key}: {message}") from None
