"""The table `tail`: the events of running streams, in the order of their commits.

Running streams append to the end of it, so that a commit writes a page or two however many
streams take part in it. (One clustered table instead made an append seven times dearer with a
hundred streams, since each touched a page of its own.) Filed rows are dead: they are swept from
the front, and the few live ones there move to the end.

Each process has a range of keys, and writes and removes rows of its own range only.
"""

from collections.abc import Callable, Iterator, Sequence
from sqlite3 import Connection

from ...events import Event, decode

RANGE_BITS = 40
"""A process may add 2**40 rows in its life: 10,000 a second for three years."""

TAIL_ROWS = 10_000
"""The number of dead rows above which transactions sweep them."""

SWEPT_AT_ONCE = 1_000

TailRow = tuple[int, bytes]
"""The number of the first event, and the events."""


class TailTable:
    """The rows of one process, and reading those of others. All sync.

    Changes of the counters are appended to `staged`, to be made after the commit.
    """

    def __init__(
        self, connection: Connection, *, process: int, staged: list[Callable[[], None]]
    ) -> None:
        self._execute = connection.execute
        self._staged = staged
        self._oldest = self._next = _range(process)[0] + 1
        """The first key of this process, and the next one."""
        self._filed: dict[int, int] = {}
        """The last filed event of each running stream."""
        self._rows: dict[int, list[int]] = {}
        """The first event of each live row of each running stream."""
        self.live = 0
        """How many live rows there are."""

    def __contains__(self, stream: int) -> bool:
        """Return whether a stream runs in this process and was not removed."""
        return stream in self._filed

    def start(self, stream: int, *, filed: int = 0) -> None:
        """Add a stream with so many filed events, once its transaction is committed."""
        self._staged.append(lambda: self._filed.update({stream: filed}))

    def append(self, stream: int, first: int, data: bytes) -> None:
        """Add a row."""
        self._insert(stream, first, data)
        self._rows.setdefault(stream, []).append(first)
        self.live += 1

    def _insert(self, stream: int, first: int, data: bytes) -> None:
        self._execute("INSERT INTO tail VALUES (?, ?, ?, ?)", (self._next, stream, first, data))
        self._next += 1

    def note_filed(self, stream: int, last: int) -> None:
        """Count the rows of a stream up to an event as dead, once it is committed."""

        def filed() -> None:
            if stream in self._filed:
                self._filed[stream] = last
                rows = self._rows.get(stream, [])
                self._rows[stream] = [first for first in rows if first > last]
                self.live -= len(rows) - len(self._rows[stream])

        self._staged.append(filed)

    def stop_soon(self, stream: int) -> None:
        """Do `stop` once the transaction is committed."""
        self._staged.append(lambda: self.stop(stream))

    def stop(self, stream: int) -> None:
        """Count all rows of a stream as dead: it has ended or was removed."""
        self._filed.pop(stream, None)
        self.live -= len(self._rows.pop(stream, ()))

    def remove(self, stream: int) -> None:
        """Remove all rows of a stream."""
        self._execute("DELETE FROM tail WHERE stream = ?", (stream,))
        self.stop_soon(stream)

    def remove_process(self, process: int) -> None:
        """Remove all rows of a process."""
        self._execute("DELETE FROM tail WHERE key > ? AND key < ?", _range(process))

    # Sweeping

    def sweep_surplus(self) -> None:
        """Sweep if there are many dead rows."""
        surplus = self._next - self._oldest - 2 * self.live - TAIL_ROWS
        if surplus > 0:
            self.sweep(surplus + SWEPT_AT_ONCE)

    def end(self) -> int:
        """Return the next key if there are dead rows, else 0."""
        return self._next if self._next - self._oldest > self.live else 0

    def sweep(self, count: int | None = None) -> int:
        """Remove so many rows from the front, moving live ones to the end.

        Returns the key of the first row that stays in place.
        """
        end = min(self._oldest + (count or SWEPT_AT_ONCE), self._next)
        for stream, first, data in self._execute(
            "SELECT stream, first, events FROM tail WHERE key >= ? AND key < ? ORDER BY key",
            (self._oldest, end),
        ).fetchall():
            if first > self._filed.get(stream, first):
                self._insert(stream, first, data)
        self._execute("DELETE FROM tail WHERE key >= ? AND key < ?", (self._oldest, end))

        def swept() -> None:
            self._oldest = end

        self._staged.append(swept)
        return end

    # Reading

    def rows_of(
        self, streams: Sequence[int], *, after: int = 0, end: int = 2**63 - 1
    ) -> dict[int, list[TailRow]]:
        """Return the rows of streams, filed or not, in the order of events.

        Only rows with keys between `after` and `end`, both excluded.
        """
        tails: dict[int, list[TailRow]] = {stream: [] for stream in streams}
        marks = ",".join("?" * len(streams))
        where = f"key > ? AND key < ? AND stream IN ({marks})"
        for stream, first, data in self._execute(
            f"SELECT stream, first, events FROM tail WHERE {where}",  # noqa: S608  (marks only)
            (after, end, *streams),
        ):
            tails[stream].append((first, data))
        for rows in tails.values():
            rows.sort()
        return tails

    def unfiled(self, stream: int, filed: int) -> list[bytes]:
        """Return the events of a stream after the last filed one."""
        return [data for first, data in self.rows_of([stream])[stream] if first > filed]

    def read(self, stream: int, process: int, after: int) -> Iterator[Event]:
        """Yield the events of another process's stream after a cursor."""
        low, high = _range(process)
        for first, data in self.rows_of([stream], after=low, end=high)[stream]:
            lines = data.split(b"\n")
            yield from map(decode, lines[max(after + 1 - first, 0) :])
            after = max(after, first + len(lines) - 1)

    def read_new(
        self, streams: Sequence[int], process: int, at: int
    ) -> tuple[dict[int, list[TailRow]], int]:
        """Return the rows that a process has added for streams after a key, and its last key."""
        low, high = _range(process)
        last = self._execute(
            "SELECT key FROM tail WHERE key > ? AND key < ? ORDER BY key DESC LIMIT 1", (low, high)
        ).fetchone()
        end = last[0] if last else low
        return self.rows_of(streams, after=max(at, low), end=end + 1), max(at, end)


def _range(process: int) -> tuple[int, int]:
    """Return the bounds of a process's keys, both excluded."""
    return process << RANGE_BITS, (process + 1) << RANGE_BITS
