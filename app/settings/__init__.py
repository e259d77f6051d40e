"""The settings: defaults, a TOML file, the environment, the command line; later wins.

One frozen value, built once. No other module reads the environment or the file.
"""

from app.settings.failure import SettingsError
from app.settings.load import load_settings
from app.settings.values import Settings

__all__ = ["Settings", "SettingsError", "load_settings"]
