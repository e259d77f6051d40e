"""Schema of the file's `[upstream.NAME]` tables."""

from collections.abc import Sequence
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from ..upstreams.credentials import Auth
from .failure import SettingsError, reason, suggest
from .values import SCHEME

Text = Annotated[str, Meta(min_length=1)]
"""For values where an empty string would be mistaken for absence."""

Scheme = Annotated[str, Meta(pattern=SCHEME)]


class UpstreamTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[upstream.NAME]`: a name of a preset, or `preset`, provides the defaults."""

    preset: str | None = None
    base_url: str | None = None
    dialect: Text | None = None
    key_env: Text | None = None
    key_file: Text | None = None
    auth: Auth | None = None
    region: str | None = None
    project: str | None = None
    location: str | None = None
    resource: str | None = None
    account: str | None = None
    profile: str | None = None
    """Of Amazon's shared files."""
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    models: tuple[Text, ...] = ()
    default_model: Text | None = None
    quirks: dict[str, Any] = {}
    """Of the dialect's own type."""
    options: tuple[Text, ...] | None = None
    url_schemes: tuple[Scheme, ...] | None = None
    max_output_tokens: Annotated[int, Meta(ge=1, le=10**7)] | None = None
    trace_context: bool = False


def read_upstream_table(raw: Any, place: str) -> UpstreamTable:
    """Parse one table; `place` is its path."""
    check_known(raw, UpstreamTable.__struct_fields__, place)
    try:
        return msgspec.convert(raw, UpstreamTable)
    except msgspec.ValidationError as error:
        key, message = reason(error)
        if key == ".auth":  # which may be a key, by mistake
            message = f"use {', '.join(map(repr, get_args(Auth)))}"
        raise SettingsError(f"{place}{key}: {message}") from None


def check_known(raw: Any, known: Sequence[str], place: str) -> None:
    """Refuse unknown keys of a table; other types are left to its parser."""
    for key in raw if isinstance(raw, dict) else ():
        if key not in known:
            raise SettingsError(f"{place}: unknown key {key!r}{suggest(key, known)}")
