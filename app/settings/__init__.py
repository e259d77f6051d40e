"""Settings: defaults, a TOML file, the environment, the command line; later ones take precedence.

The result is one frozen value, built once. No other module reads the environment or the file.
"""

from typing import TYPE_CHECKING, Any

from .convert import SettingsError
from .identity import load_identity

if TYPE_CHECKING:
    from .load import load_scalar, load_settings
    from .values import Settings

__all__ = ["Settings", "SettingsError", "load_identity", "load_scalar", "load_settings"]


def __getattr__(name: str) -> Any:
    """Import the rest of the settings, which takes a second, only where it is used."""
    if name in __all__:
        from . import load

        return getattr(load, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
