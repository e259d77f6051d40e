"""Presets of providers, for use without configuration; `presets.toml` has a table for each.

A dialect is a wire format and is defined in `dialects`; this module has no code for one.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from .credentials import Auth
from .endpoints import DoorRules

AddedBy = Literal["key", "key or URL", "key and URL", "URL", "table"]
"""The variables that add an upstream without a table. A variable that is often set for other
reasons adds none.
"""


class PresetDoor(DoorRules, frozen=True, kw_only=True):
    """Another API of a provider, at the base URL of its preset."""

    hosts: tuple[str, ...] = ()
    """The hosts that have it, with their subdomains, beside that of the preset's base URL."""
    quirks: Mapping[str, object] = {}


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One provider."""

    title: str = ""
    base_url: str | None = None
    base_url_env: str | None = None
    base_url_suffix: str = ""
    """Appended to the variable's URL to form a base URL."""
    port: int | None = None
    """The default port if the variable has a host without port, or no scheme."""
    key_env: tuple[str, ...] = ()
    """The first variable that is set is used."""
    auth: Auth = "bearer"
    without_key: Auth = "none"
    added_by: AddedBy = "key"
    dialect: str = "openai_chat"
    quirks: Mapping[str, object] = {}
    """Fields of the dialect's own type."""
    host_quirks: Mapping[str, object] = {}
    """Quirks of the provider's own host only, not of hosts that replace it."""
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    """Sent with every request, by lower-case name; those of the upstream's table replace them."""
    defaults: Mapping[str, str] = {}
    """Values of `PLACES`."""
    lists_models: bool = True
    """False if the API has no list of models, or one without usable models."""
    default_model: str | None = None
    """The model for requests without one."""
    doors: Mapping[str, PresetDoor] = {}
    """Its other APIs, by dialect."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `presets.toml`."""

    places: Mapping[str, tuple[str, ...]]
    unknown: Preset
    presets: Mapping[str, Preset]


_FILE: Final = msgspec.toml.decode(
    Path(__file__).with_name("presets.toml").read_bytes(), type=_File
)
PLACES: Final = _FILE.places
PRESETS: Final = _FILE.presets
UNKNOWN: Final = _FILE.unknown
