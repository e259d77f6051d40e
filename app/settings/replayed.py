"""What a relay that only replays says in the place of the keys that it was recorded with.

Its requests have to mean the same targets as when they were recorded, and nobody is asked.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ..cassettes.folder import Folder
from ..upstreams.presets import PRESETS

KEY: Final = "replayed"
BASE_URL: Final = "http://127.0.0.1:9"
"""Where nobody listens: the port of `discard` (RFC 863)."""


def stand_in(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that add the providers which the cassettes of a folder are from."""
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
