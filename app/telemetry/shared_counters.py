"""Numbers that several processes add up: each has an area of memory, and all can read it.

An area is a table that only grows. It is mapped before the processes are forked, so that what
one has counted is there when it is killed, at once and exactly, and its successor goes on from
there. Each area has one writer.

prometheus_client's own way for several processes needs a variable before it is imported and a
folder of files, one more for each process that was ever started, and has no gauges that are
looked at.
"""

import mmap
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
import structlog

NAMES_BYTES: Final = 2 * 2**20
VALUES: Final = 2**18
"""How many numbers an area has room for. Memory that is not used is not taken."""

_HEADER: Final = 64
_PROCESS, _NAMES_USED, _VALUES_USED, _SCRAPED_AT = 0, 1, 2, 3

log = structlog.get_logger("seseragi.telemetry")


class Series(NamedTuple):
    """One row of the table: what is counted, and how many numbers that takes."""

    metric: str
    labels: tuple[str, ...] = ()
    size: int = 1


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, tuple[str, ...], int]).decode


class SharedCounters:
    """The numbers of one process."""

    def __init__(self, *, names_bytes: int = NAMES_BYTES) -> None:
        values_at = _HEADER + names_bytes
        memory = memoryview(mmap.mmap(-1, values_at + 8 * (VALUES + 1)))
        self._header = memory[:_HEADER].cast("q")
        self._names = memory[_HEADER:values_at]
        self.values = memory[values_at:].cast("d")
        """The numbers, by the places that `place` gives."""
        self._full = False

    @property
    def process(self) -> int:
        """The id of the process that has the area; 0 if none has."""
        return self._header[_PROCESS]

    @property
    def scraped_at(self) -> int:
        """When the process last answered with all numbers, by `time.monotonic_ns`; 0 for never."""
        return self._header[_SCRAPED_AT]

    @scraped_at.setter
    def scraped_at(self, at: int) -> None:
        self._header[_SCRAPED_AT] = at

    def places(self) -> dict[Series, int]:
        """Return the places of what is in it already."""
        return dict(self._rows())

    def enter(self, process: int) -> None:
        """Note which process has the area and serves."""
        self._header[_PROCESS] = process

    def leave(self) -> None:
        """Note that the process of the area has ended. What it has counted stays."""
        self._header[_PROCESS] = 0

    def place(self, series: Series) -> int | None:
        """Make room for a series that has none; None if there is no more."""
        name = _encode(tuple(series))
        start, place = self._header[_NAMES_USED], self._header[_VALUES_USED]
        end = start + 4 + len(name)
        if end > len(self._names) or place + series.size > VALUES:
            if not self._full:
                self._full = True
                log.warning("metrics have no room for more series", series=series.metric)
            return None
        self._names[start : start + 4] = len(name).to_bytes(4, "little")
        self._names[start + 4 : end] = name
        self._header[_NAMES_USED] = end  # last: others read up to here
        self._header[_VALUES_USED] = place + series.size
        return place

    def read(self) -> Iterator[tuple[Series, list[float]]]:
        """Yield what has been counted, in any process."""
        for series, place in self._rows():
            yield series, list(map(float, self.values[place : place + series.size]))

    def _rows(self) -> Iterator[tuple[Series, int]]:
        at = place = 0
        while at < self._header[_NAMES_USED]:
            end = at + 4 + int.from_bytes(self._names[at : at + 4], "little")
            series = Series(*_decode(self._names[at + 4 : end]))
            yield series, place
            at, place = end, place + series.size
