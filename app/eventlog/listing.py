"""The list of an owner's streams: its entries and their positions.

Running streams come first, by their start, then ended ones, by their end; the newest first. So a
stream that ends while its owner pages through the list is listed twice, never left out.

Places rise strictly in the order in which entries are stored, over all processes and whatever
their clocks do: who has read a part up to a place misses no later entry of it.
"""

import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from ..events import Status
from .stream_info import StreamInfo


class ListPosition(NamedTuple):
    """A position in the list, behind an entry or before all of a part."""

    ended: bool = False
    """In which part: of ended streams, or of running ones."""
    at: float = math.inf
    """The place of the entry among those of its part: about when it was stored, see `place`."""
    stream: str = ""
    """The entry; of those with one `at` the greater comes first."""

    def __str__(self) -> str:
        part = "e" if self.ended else "r"
        return f"{part}{self.at!r}-{self.stream}" if self.stream else part


STEP: Final = 1e-6
"""The least distance of two places, which a float of today's unix seconds can hold."""


def place(now: float, newest: float | None) -> float:
    """Return the place of a new entry after the newest one."""
    return max(now, (newest or 0) + STEP)


_POSITION = re.compile(r"([er])(?:(\d{1,20}(?:\.\d{1,20})?)-([\w-]{1,64}))?", re.ASCII)


def parse_position(text: str) -> ListPosition | None:
    """Read what `str` has made of a position; None for anything else."""
    match = _POSITION.fullmatch(text)
    if match is None:
        return None
    part, at, stream = match.groups()
    position = ListPosition(part == "e", float(at or math.inf), stream or "")
    return position if str(position) == text else None


class ListedStream(NamedTuple):
    """One entry of the list."""

    stream: str
    model: str
    metadata: dict[str, str]
    started_at: float
    position: ListPosition
    ended_at: float | None = None
    status: Status | None = None
    """None while it runs, as `ended_at` is."""
    last: int = 0
    """The number of its `stream.end`, once it has ended."""


def pack_listing(info: StreamInfo) -> bytes:
    """Encode the part of an info that a list shows, for `unpack_listing`."""
    return msgspec.msgpack.encode(listing_of(info))


def unpack_listing(data: bytes | None) -> tuple[str, dict[str, str]]:
    """Return the model and the metadata of a stream; empty if they are missing or broken."""
    try:
        return _decode(data or b"")
    except (ValueError, msgspec.MsgspecError):
        return "", {}


def listing_of(info: StreamInfo) -> tuple[str, dict[str, str]]:
    """Return the model and the metadata of a stream."""
    return info.model or info.route, info.metadata or {}


_decode = msgspec.msgpack.Decoder(tuple[str, dict[str, str]]).decode


class OwnerIndex:
    """The streams of each owner in this process's memory."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._newest = 0.0
        """Of all owners, so that it outlives the entries of one."""
        self._streams: dict[tuple[str, bool], dict[str, float]] = {}
        """By owner and part: each stream's place, in ascending order."""

    def add(self, info: StreamInfo, *, ended: bool = False) -> None:
        """Add a stream that starts, or has ended."""
        self.remove(info)
        streams = self._streams.setdefault((info.owner, ended), {})
        streams[info.id] = self._newest = place(self._wall(), self._newest)

    def remove(self, info: StreamInfo) -> None:
        """Remove a stream, if it is there."""
        for part in ((info.owner, False), (info.owner, True)):
            streams = self._streams.get(part, {})
            if streams.pop(info.id, None) and not streams:
                del self._streams[part]

    def page(self, owner: str, after: ListPosition, *, limit: int) -> list[ListPosition]:
        """Return the positions of the next streams."""
        streams = self._streams.get((owner, after.ended), {})
        found: list[ListPosition] = []
        for stream, at in reversed(streams.items()):
            if len(found) == limit:
                break
            if at < after.at:
                found.append(ListPosition(after.ended, at, stream))
        return found
