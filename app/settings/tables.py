"""What may stand in a table of the file."""

from collections.abc import Sequence
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from ..upstreams.credentials import Auth
from .failure import SettingsError, reason, suggest
from .values import SCHEME

Text = Annotated[str, Meta(min_length=1)]
"""Where an empty one would look like a value and mean that there is none."""

Scheme = Annotated[str, Meta(pattern=SCHEME)]


class UpstreamTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[upstream.NAME]`: a name that is a preset, or names one, starts from its values."""

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
    """Check one table; `place` is where it stands."""
    check_known(raw, UpstreamTable.__struct_fields__, place)
    try:
        return msgspec.convert(raw, UpstreamTable)
    except msgspec.ValidationError as error:
        key, told = reason(error)
        if key == ".auth":  # which may be a key, by mistake
            told = f"use {', '.join(map(repr, get_args(Auth)))}"
        raise SettingsError(f"{place}{key}: {told}") from None


def check_known(raw: Any, known: Sequence[str], place: str) -> None:
    """Refuse a key that the table does not have; what is no table is left to its reader."""
    for key in raw if isinstance(raw, dict) else ():
        if key not in known:
            raise SettingsError(f"{place}: unknown key {key!r}{suggest(key, known)}")
