"""Counters of several processes in shared memory: each process writes one table, all read it.

A table only grows. It is mapped before the processes are forked: the counts of a killed process
stay, and its successor continues them. Each table has one writer.

prometheus_client's multiprocess mode keeps them in files. A full file system there kills the
process (SIGBUS), a stream takes 28 us instead of 8, and a scrape twice as long: 95 ms instead of
47 for 3,000 lines of four workers.
"""

import mmap
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
import structlog

NAMES_BYTES: Final = 2 * 2**20
VALUES: Final = 2**18
"""The capacity of a table. Unused pages take no memory."""

LONGEST: Final = 64
"""The most values of a series; so many after the table are those of series without room."""

_HEADER: Final = 64
_PROCESS, _NAMES_USED, _VALUES_USED, _SCRAPED_AT = 0, 1, 2, 3

log = structlog.get_logger("seseragi.telemetry")


class Series(NamedTuple):
    """One row of a table: a metric with its labels, and its number of values."""

    metric: str
    labels: tuple[str, ...] = ()
    size: int = 1


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, tuple[str, ...], int]).decode


class SharedCounters:
    """The table of one process."""

    def __init__(self, *, names_bytes: int = NAMES_BYTES) -> None:
        values_at = _HEADER + names_bytes
        memory = memoryview(mmap.mmap(-1, values_at + 8 * (VALUES + LONGEST)))
        self._header = memory[:_HEADER].cast("q")
        self._names = memory[_HEADER:values_at]
        self.values = memory[values_at:].cast("d")
        """The values, by the offsets that `allocate` returns."""
        self._full = False

    @property
    def process(self) -> int:
        """The id of the serving process; 0 if it stopped."""
        return self._header[_PROCESS]

    @property
    def scraped_at(self) -> int:
        """When the process last answered a scrape, by `time.monotonic_ns`; 0 for never."""
        return self._header[_SCRAPED_AT]

    @scraped_at.setter
    def scraped_at(self, at: int) -> None:
        self._header[_SCRAPED_AT] = at

    def offsets(self) -> dict[Series, int]:
        """Return the offsets of the series in the table."""
        return dict(self._rows())

    def enter(self, process: int) -> None:
        """Store the id of the serving process."""
        self._header[_PROCESS] = process

    def leave(self) -> None:
        """Mark the process as stopped. Its counts stay."""
        self._header[_PROCESS] = 0

    def allocate(self, series: Series) -> int:
        """Add a series and return its offset, which is beyond the table if that is full."""
        name = _encode(tuple(series))
        start, offset = self._header[_NAMES_USED], self._header[_VALUES_USED]
        end = start + 4 + len(name)
        if end > len(self._names) or offset + series.size > VALUES:
            if not self._full:
                self._full = True
                log.warning(
                    "metrics are full: further series are not counted", series=series.metric
                )
            return VALUES
        self._names[start : start + 4] = len(name).to_bytes(4, "little")
        self._names[start + 4 : end] = name
        self._header[_NAMES_USED] = end  # last: others read up to here
        self._header[_VALUES_USED] = offset + series.size
        return offset

    def read(self) -> Iterator[tuple[Series, list[float]]]:
        """Yield all series with their values; callable in any process."""
        for series, offset in self._rows():
            yield series, list(map(float, self.values[offset : offset + series.size]))

    def _rows(self) -> Iterator[tuple[Series, int]]:
        at = offset = 0
        while at < self._header[_NAMES_USED]:
            end = at + 4 + int.from_bytes(self._names[at : at + 4], "little")
            series = Series(*_decode(self._names[at + 4 : end]))
            yield series, offset
            at, offset = end, offset + series.size
