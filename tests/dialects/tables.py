"""Tables of documents that follow from tests: compared by them, and written by `python -m`."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Table(NamedTuple):
    """A table between two marks of a document."""

    document: Path
    begin: str
    end: str
    head: tuple[str, str]
    rows: Iterable[tuple[str, str]]

    def render(self) -> str:
        lines = [f"| {first} | {second} |" for first, second in (self.head, *self.rows)]
        return "\n".join([lines[0], "|---|---|", *lines[1:]])

    def read(self) -> str:
        """Return the table as the document has it."""
        text = self.document.read_text(encoding="utf-8")
        return text.split(self.begin)[1].split(self.end)[0].strip()

    def write(self) -> None:
        """Replace the document's table."""
        text = self.document.read_text(encoding="utf-8")
        before, after = text.split(self.begin)[0], text.split(self.end)[1]
        whole = f"{before}{self.begin}\n{self.render()}\n{self.end}{after}"
        self.document.write_text(whole, encoding="utf-8")
