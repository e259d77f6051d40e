"""Settings: defaults, a TOML file, the environment, the command line; later ones take precedence.

The result is one frozen value, built once. No other module reads the environment or the file.
"""

from .convert import SettingsError
from .load import load_identity, load_scalar, load_settings
from .values import Settings

__all__ = ["Settings", "SettingsError", "load_identity", "load_scalar", "load_settings"]
