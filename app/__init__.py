"""Seseragi: a relay between LLM APIs and browsers.

Installed it is the package `seseragi`; in the checkout the same package is called `app`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .identity.hook import Caller
    from .ledger.config import UsageLimits
    from .main import create_app
    from .settings import load_settings

__version__ = "0.1.0"
__all__ = ("Caller", "UsageLimits", "create_app", "load_settings")

_MODULES = {"Caller": "identity.hook", "UsageLimits": "ledger.config", "create_app": "main"}


def __getattr__(name: str) -> Any:
    """Import what is public when it is asked for: `seseragi --version` needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES.get(name, 'settings')}", __name__), name)
