"""The numbers of the documents that come from the benchmarks: `python -m bench.numbers`.

It writes those of `docs/benchmarks/table.json` into their sentences, and the documents' tables from
the files beside that.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench import growth, readers, resume, soak, table

ROOT: Final = Path(__file__).parent.parent

BENCHMARKS: Final = "docs/benchmarks.md"

Rows = Mapping[str, Mapping[str, float]]
"""Medians by the names of relays and figures."""

PLACES: Final[Sequence[tuple[str, str, table.Quote]]] = (
    ("README.md", r"(?<=needs )\d+(?= % of the CPU for each token)", table.share("dense_us")),
    ("README.md", r"(?<= and )\d+(?= % for a short request)", table.share("request_us")),
    ("README.md", r"(?<=An idle stream takes )\d+(?= KiB)", table.own("idle_kib")),
    ("docs/operations.md", r"(?<=\| memory \| )\d+(?= MiB at rest)", table.own("rest_mib")),
    ("docs/operations.md", r"\d+(?= KiB an open stream)", table.own("idle_kib")),
)
"""Documents, where a number is in each, and what finds it in the table."""

TABLES: Final[Sequence[tuple[str, str, str, Callable[[Rows], str]]]] = (
    (BENCHMARKS, "of one run", "table", table.summarize),
    ("docs/configuration.md", "cost", "logs", table.summarize_logs),
    (BENCHMARKS, "interpreter", "pythons", table.summarize_pythons),
    (BENCHMARKS, "reconnect", "resume", lambda rows: resume.summarize(rows["seseragi, resume"])),
    (BENCHMARKS, "readers", "readers", lambda rows: readers.summarize(rows["seseragi, readers"])),
    (BENCHMARKS, "log", "soak", lambda rows: soak.summarize(rows["seseragi, soak"])),
    (BENCHMARKS, "cost by", "growth", lambda rows: growth.summarize(rows["seseragi, growth"])),
)
"""The document of a table, its first cell, the file that it is from, and what makes its rows."""

DOCUMENTS: Final = sorted({*(place[0] for place in PLACES), *(row[0] for row in TABLES)})


def correct(name: str, text: str) -> str:
    """Return a document with the numbers of the table.

    Raises:
        ValueError: a number of `PLACES` is not there once.
    """
    for document, pattern, figure in PLACES:
        if document == name:
            text, count = re.subn(pattern, figure(_rows("table")), text)
            if count != 1:
                raise ValueError(f"{name}: {pattern!r} is there {count} times")
    for document, cell, file, made in TABLES:
        if document != name:
            continue
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
