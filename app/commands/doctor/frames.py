"""Event stream frames with their arrival times."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec


@dataclass
class Frame:
    """The fields between two blank lines."""

    at: float
    """Arrival of the blank line that ends it."""
    fields: dict[str, str]

    @property
    def event(self) -> dict[str, Any]:
        """The object in `data:`; empty if there is none."""
        try:
            value = msgspec.json.decode(self.fields.get("data", ""))
        except msgspec.DecodeError:
            return {}
        return value if isinstance(value, dict) else {}


@dataclass
class Frames:
    """A parsed event stream."""

    frames: list[Frame] = field(default_factory=list)
    comments: list[float] = field(default_factory=list)
    """Arrival of each."""

    @property
    def deltas(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.event.get("type") == "text.delta"]

    @property
    def text(self) -> str:
        return "".join(str(frame.event.get("text", "")) for frame in self.deltas)

    @property
    def ended(self) -> bool:
        return bool(self.frames) and self.frames[-1].event.get("type") == "stream.end"


def read_frames(pieces: Iterable[tuple[float, bytes]]) -> Frames:
    """Parse a body; a frame arrived when its last byte did."""
    found = Frames()
    fields: dict[str, str] = {}
    buffer = b""
    for at, data in pieces:
        buffer += data
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            name, _, value = line.removesuffix(b"\r").decode("utf-8", "replace").partition(":")
            if line.startswith(b":"):
                found.comments.append(at)
            elif name:
                fields[name] = value.removeprefix(" ")
            elif fields:
                found.frames.append(Frame(at, fields))
                fields = {}
    return found
