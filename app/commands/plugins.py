"""`seseragi plugins`: the parts that settings can name, built-in and of installed packages."""

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ..dialects.client_formats import CLIENT_FORMATS
from ..dialects.upstream_formats import UPSTREAM_FORMATS
from ..eventlog.opening import LOGS
from ..generation.stages.plugged import STAGES
from ..plugins import Registry, find_entries
from ..policies.balance import BALANCES
from ..telemetry.observer import OBSERVERS
from . import COMMANDS, GROUP
from .terminal import print_table

REGISTRIES: Final[tuple[Registry[Any], ...]] = (
    UPSTREAM_FORMATS,
    CLIENT_FORMATS,
    LOGS,
    STAGES,
    BALANCES,
    OBSERVERS,
)
COLUMNS: Final = ("kind", "name", "from")


class Part(NamedTuple):
    """One part, as it is listed."""

    kind: str
    name: str
    source: str
    """"built-in", or the object and the package that bring it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments to a parser."""
    groups = ", ".join([*(one.group for one in REGISTRIES), GROUP])
    parser.description = (
        "List the parts that settings can name: built-in ones, and those of installed packages, "
        f"which add them by entry points of the groups {groups}."
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the parts, and return the exit status."""
    parts = list(list_parts())
    if options.json:
        print(json.dumps([part._asdict() for part in parts], indent=2))
    else:
        print_table([COLUMNS, *parts])
    return 0


def list_parts() -> Iterator[Part]:
    """Yield the parts of each kind, without loading those of packages."""
    kinds = [(one.kind, one.group, one.built_in) for one in REGISTRIES]
    for kind, group, built_in in [*kinds, ("command", GROUP, (*COMMANDS,))]:
        yield from (Part(kind, name, "built-in") for name in built_in)
        for name, entry in find_entries(group, built_in).items():
            package = "" if entry.dist is None else f" of {entry.dist.name}"
            yield Part(kind, name, f"{entry.value}{package}")
