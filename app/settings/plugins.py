"""Parts that installed packages add to the built-in ones, by entry points."""

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, TypeVar

from .convert import SettingsError, suggest

T = TypeVar("T")


def find_part(name: str, built_in: Mapping[str, T], protocol: Any, *, group: str, place: str) -> T:
    """Return the part that a setting names: a built-in one, or a new one of a package's class.

    Raises:
        SettingsError: there is none, or it cannot be used.
    """
    if name in built_in:
        return built_in[name]
    entries = {entry.name: entry for entry in entry_points(group=group)}
    if name not in entries:
        known = [*built_in, *entries]
        raise SettingsError(
            f"{place}: unknown name {name[:80]!r}{suggest(name, known)}; known: "
            f"{', '.join(known)}; packages add others by the entry point group {group!r}"
        )
    source = entries[name].value
    try:
        part: T = entries[name].load()()
    except Exception as error:
        raise SettingsError(f"{place}: {name!r} ({source}) cannot be loaded: {error!r}") from error
    if not isinstance(part, protocol):
        raise SettingsError(
            f"{place}: {name!r} ({source}) is not a {protocol.__name__}: make it a subclass of "
            f"{protocol.__module__.partition('.')[2]}.{protocol.__name__}"
        )
    return part
