"""Options and output that several subcommands have: `--config`, tables, escaped text."""

import argparse
from collections.abc import Iterable, Sequence


def add_config(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add the option `--config`."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        default=default,
        help="settings file (default: seseragi.toml if it exists)",
    )


def escape(text: str) -> str:
    """Escape control characters, which a terminal would interpret."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def print_table(rows: Iterable[Sequence[str]], *, numbers: int = 0) -> None:
    """Print rows in columns, of which the last `numbers` are right-aligned."""
    table = [[escape(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    first = len(widths) - numbers
    for cells in table:
        line = "  ".join(
            cell.rjust(width) if index >= first else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        print(line.rstrip())
