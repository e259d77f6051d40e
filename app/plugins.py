"""What plugs into a relay: parts by name, built-in or of installed packages.

A package adds a part by an entry point of the kind's group, whose name is the part's:

    [project.entry-points."seseragi.balances"]
    nearest = "my_package:Nearest"

A part is loaded when a setting names it. The table of kinds is in ARCHITECTURE.md, and
`seseragi plugins` lists them.
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeVar

T = TypeVar("T")

MAX_SHOWN: Final = 80
"""Characters of an unknown name in an error."""


class PluginError(ValueError):
    """A part is unknown or cannot be loaded; the message says so in one line."""


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
        found = entry_points(group=self.group)
        return {entry.name: entry for entry in found if entry.name not in self.built_in}

    def find(self, name: str) -> T:
        """Return a part, which is loaded if it is of a package.

        Raises:
            PluginError: there is none of this name, or it cannot be loaded.
        """
        if name not in self:
            installed = self.installed()
            if name not in installed:
                known = (*self.built_in, *installed)
                similar = get_close_matches(name, known, n=1)
                meant = f"; did you mean {similar[0]!r}?" if similar else ""
                raise PluginError(
                    f"unknown {self.kind} {name[:MAX_SHOWN]!r}{meant}; known: {', '.join(known)}; "
                    f"packages add others by the entry point group {self.group!r}"
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
