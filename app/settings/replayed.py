"""Substitutes for the keys with which cassettes were recorded, for replay without providers.

Requests have to select the same targets as when they were recorded, without calling them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ..cassettes.folder import Folder
from ..upstreams.presets import PRESETS

KEY: Final = "replayed"
BASE_URL: Final = "http://127.0.0.1:9"
"""A port without a server: `discard` (RFC 863)."""


def stand_in(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that add the providers of the cassettes in a folder."""
    found: dict[str, str] = {}
    for name in Folder(folder).upstreams():
        preset = PRESETS.get(name)
        if preset is None or any(variable in environ for variable in preset.key_env):
            continue
        if preset.key_env:
            found[preset.key_env[0]] = KEY
        if preset.base_url_env is not None and preset.base_url_env not in environ:
            found[preset.base_url_env] = BASE_URL
    return found
