"""What may stand in a table of the file."""

from typing import Any, get_args

import msgspec

from app.settings.failure import SettingsError, reason, suggest
from app.upstreams.credentials import Auth


class UpstreamTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[upstream.NAME]`: a name that is a preset, or names one, starts from its values."""

    preset: str | None = None
    base_url: str | None = None
    dialect: str | None = None
    key_env: str | None = None
    key_file: str | None = None
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
    models: tuple[str, ...] = ()
    default_model: str | None = None
    quirks: dict[str, Any] = {}
    """Of the dialect's own type."""


def read_upstream_table(raw: Any, place: str) -> UpstreamTable:
    """Check one table; `place` is where it stands."""
    for key in raw if isinstance(raw, dict) else ():
        if key not in UpstreamTable.__struct_fields__:
            known = UpstreamTable.__struct_fields__
            raise SettingsError(f"{place}: unknown key {key!r}{suggest(key, known)}")
    try:
        return msgspec.convert(raw, UpstreamTable)
    except msgspec.ValidationError as error:
        key, told = reason(error)
        if key == ".auth":  # which may be a key, by mistake
            told = f"use {', '.join(map(repr, get_args(Auth)))}"
        raise SettingsError(f"{place}{key}: {told}") from None
