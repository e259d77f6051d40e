"""The numbers of the documents that come from the benchmark's table: `python -m bench.numbers`.

It writes those of `docs/benchmarks/table.json` into their sentences, and the tables of resumes and
readers from `resume.json` and `readers.json`.
"""

import json
import re
from pathlib import Path
from typing import Final

from bench import readers, resume

ROOT: Final = Path(__file__).parent.parent

REST, IDLE = "rest_mib", "idle_kib"
PLACES: Final = (
    ("README.md", r"(?<=An idle stream takes )\d+(?= KiB)", IDLE),
    ("docs/operations.md", r"(?<=\| memory \| )\d+(?= MiB at rest)", REST),
    ("docs/operations.md", r"\d+(?= KiB an open stream)", IDLE),
    ("docs/benchmarks.md", r"(?<=At rest, the relay takes )\d+(?= MiB)", REST),
    ("docs/benchmarks.md", r"\d+(?= \| [\d.]+ \| × [\d.]+ \|\n\| over TLS \| 47)", IDLE),
)
"""Documents, where a number is in each, and its figure."""

TABLES: Final = (("reconnect", "resume", resume), ("readers", "readers", readers))
"""The first cell of a table, the benchmark whose file it is from, and what makes its rows."""


def correct(name: str, text: str) -> str:
    """Return a document with the numbers of the table.

    Raises:
        ValueError: a number of `PLACES` is not there once.
    """
    figures = _figures("table.json", "seseragi")
    for document, pattern, figure in PLACES:
        if document == name:
            number = f"{figures[figure]['median']:.0f}"
            text, count = re.subn(pattern, number, text)
            if count != 1:
                raise ValueError(f"{name}: {pattern!r} is there {count} times")
    for cell, benchmark, made in TABLES if name == "docs/benchmarks.md" else ():
        found = _figures(f"{benchmark}.json", f"seseragi, {benchmark}")
        rows = made.summarize({one: value["median"] for one, value in found.items()})
        head = rf"(?m)(^\| {cell} \|.+\n\|[-|]+\n)(?:\|.+\n)+"
        text, count = re.subn(head, rf"\g<1>{rows}\n", text)
        if count != 1:
            raise ValueError(f"{name}: the table of {cell!r} is there {count} times")
    return text


def _figures(file: str, relay: str) -> dict[str, dict[str, float]]:
    rows = json.loads((ROOT / "docs/benchmarks" / file).read_text("utf-8"))["rows"]
    (figures,) = (row["figures"] for row in rows if row["relay"] == relay)
    return dict(figures)


if __name__ == "__main__":
    for name in {place[0] for place in PLACES}:
        path = ROOT / name
        path.write_text(correct(name, path.read_text("utf-8")), "utf-8")
