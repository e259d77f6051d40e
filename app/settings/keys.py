"""Where keys are read from. None of them is ever part of a message."""

import re
from collections.abc import Mapping
from pathlib import Path

from app.settings.failure import SettingsError
from app.upstreams.credentials import Secret


def read_key(
    key_file: str | None,
    key_env: str | None,
    preset_env: str | None,
    environ: Mapping[str, str],
    *,
    place: str,
) -> Secret | None:
    """Read the key of the upstream at `place`, None if there is none."""
    if key_file is not None:
        source = f"{place}.key_file"
        try:
            value = Path(key_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise SettingsError(f"{source}: {key_file!r} cannot be read") from None
    else:
        variable = key_env or preset_env
        if variable is None:
            return None
        source = f"the environment variable {variable}"
        value = environ.get(variable, "").strip()
        if not value and key_env:
            raise SettingsError(f"{place}.key_env: {source} is not set")
    if not value:
        return None
    if not re.fullmatch(r"[!-~]+", value):
        raise SettingsError(f"{source}: a key has visible ASCII characters only")
    return Secret(value)
