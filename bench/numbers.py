"""The numbers of the documents that come from the benchmark's table: `python -m bench.numbers`.

It writes those of `docs/benchmarks/table.json` into their sentences, and the tables of
`docs/benchmarks.md` from the files beside that.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench import readers, resume, table

ROOT: Final = Path(__file__).parent.parent

Rows = Mapping[str, Mapping[str, float]]
"""Medians by the names of relays and figures."""

PLACES: Final = (
    ("README.md", r"(?<=needs )\d+(?= % of the CPU for each token)", table.share("dense_us")),
    ("README.md", r"(?<= and )\d+(?= % for a short request)", table.share("request_us")),
    ("README.md", r"(?<=An idle stream takes )\d+(?= KiB)", table.own("idle_kib")),
    ("docs/operations.md", r"(?<=\| memory \| )\d+(?= MiB at rest)", table.own("rest_mib")),
    ("docs/operations.md", r"\d+(?= KiB an open stream)", table.own("idle_kib")),
)
"""Documents, where a number is in each, and what finds it in the table."""

TABLES: Final[Sequence[tuple[str, str, Callable[[Rows], str]]]] = (
    ("of one run", "table", table.summarize),
    ("interpreter", "pythons", table.summarize_pythons),
    ("reconnect", "resume", lambda rows: resume.summarize(rows["seseragi, resume"])),
    ("readers", "readers", lambda rows: readers.summarize(rows["seseragi, readers"])),
)
"""The first cell of a table, the file that it is from, and what makes its rows."""


DOCUMENTS: Final = ("README.md", "docs/operations.md", "docs/benchmarks.md")


def correct(name: str, text: str) -> str:
    """Return a document with the numbers of the table.

    Raises:
        ValueError: a number of `PLACES` is not there once.
    """
    for document, pattern, figure in PLACES:
        if document == name:
            text, count = re.subn(pattern, f"{figure(_rows('table')):.0f}", text)
            if count != 1:
                raise ValueError(f"{name}: {pattern!r} is there {count} times")
    for cell, file, made in TABLES if name == "docs/benchmarks.md" else ():
        head = rf"(?m)(^\| {cell} \|.+\n\|[-|]+\n)(?:\|.+\n)+"
        text, count = re.subn(head, rf"\g<1>{made(_rows(file))}\n", text)
        if count != 1:
            raise ValueError(f"{name}: the table of {cell!r} is there {count} times")
    return text


def _rows(file: str) -> Rows:
    rows = json.loads((ROOT / f"docs/benchmarks/{file}.json").read_text("utf-8"))["rows"]
    return {
        row["relay"]: {name: value["median"] for name, value in row["figures"].items()}
        for row in rows
    }


if __name__ == "__main__":
    for name in DOCUMENTS:
        path = ROOT / name
        path.write_text(correct(name, path.read_text("utf-8")), "utf-8")
