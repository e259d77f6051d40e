"""What plugs into a relay: parts by name, built-in or of installed packages.

A package adds a part by an entry point of the kind's group, whose name is the part's:

    [project.entry-points."seseragi.balances"]
    nearest = "my_package:Nearest"

A part is loaded when a setting names it. The table of kinds is in ARCHITECTURE.md, and
`seseragi plugins` lists them.
"""

from collections.abc import Callable, Container, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeVar

from .errors import suggest

T = TypeVar("T")

MAX_SHOWN: Final = 80
"""Characters of an unknown name in an error."""


class PluginError(ValueError):
    """A part is unknown or cannot be loaded; the message says so in one line."""


def find_entries(group: str, built_in: Container[str]) -> dict[str, EntryPoint]:
    """Return the entry points of installed packages by name, without those of built-in parts."""
    found = entry_points(group=group)
    return {entry.name: entry for entry in found if entry.name not in built_in}


class Registry(dict[str, T]):
    """The parts of one kind, by name: the built-in ones, and those that have been loaded."""

    def __init__(
        self,
        kind: str,
        built_in: Mapping[str, T],
        *,
        group: str,
        is_part: Callable[[Any], bool],
        wants: str,
        make: Callable[[Any], Any] = lambda loaded: loaded,
    ) -> None:
        """Begin with the built-in parts.

        `make` returns the part for what an entry point loads; `is_part` checks it, and `wants`
        says what it has to be.
        """
        super().__init__(built_in)
        self.kind = kind
        self.group = group
        self.wants = wants
        self.built_in = tuple(built_in)
        self._is_part = is_part
        self._make = make

    def installed(self) -> dict[str, EntryPoint]:
        """Return the parts of installed packages; a built-in name is never replaced."""
        return find_entries(self.group, self.built_in)

    def find(self, name: str) -> T:
        """Return a part, which is loaded if it is of a package.

        Raises:
            PluginError: there is none of this name, or it cannot be loaded.
        """
        if name not in self:
            installed = self.installed()
            if name not in installed:
                known = (*self.built_in, *installed)
                raise PluginError(
                    f"unknown {self.kind} {name[:MAX_SHOWN]!r}{suggest(name, known)}; known: "
                    f"{', '.join(known)}; packages add others by the entry point group "
                    f"{self.group!r}"
                )
            self[name] = self._load(installed[name])
        return self[name]

    def load_all(self) -> None:
        """Load the parts of all installed packages.

        Raises:
            PluginError: one cannot be loaded.
        """
        for name in self.installed():
            self.find(name)

    def _load(self, entry: EntryPoint) -> T:
        what = f"{self.kind} {entry.name!r} ({entry.value})"
        try:
            part: T = self._make(entry.load())
        except Exception as error:
            raise PluginError(f"{what} cannot be loaded: {error!r}") from error
        if not self._is_part(part):
            raise PluginError(f"{what} is not {self.wants}")
        return part
