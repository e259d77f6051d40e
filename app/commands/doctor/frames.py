"""Event stream frames with their arrival times, and the lines that a relay does not send."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

FIELDS = ("event", "data", "id", "retry")
MAX_ODD = 20


@dataclass
class Frame:
    """The fields between two blank lines."""

    at: float
    """Arrival of the blank line that ends it."""
    fields: list[tuple[str, str]]

    def value(self, name: str) -> str | None:
        return next((value for known, value in self.fields if known == name), None)

    @property
    def event(self) -> dict[str, Any]:
        """The object in `data:`; empty if there is none."""
        try:
            value = msgspec.json.decode(self.value("data") or "")
        except msgspec.DecodeError:
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def type(self) -> str:
        return str(self.event.get("type", ""))


@dataclass
class Frames:
    """A parsed event stream."""

    frames: list[Frame] = field(default_factory=list)
    comments: list[float] = field(default_factory=list)
    """Arrival of each."""
    odd: list[str] = field(default_factory=list)
    """Descriptions of lines that the relay does not send."""
    rest: bytes = b""
    """Bytes after the last line end."""

    @property
    def deltas(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.type == "text.delta"]

    @property
    def text(self) -> str:
        return "".join(str(frame.event.get("text", "")) for frame in self.deltas)

    @property
    def ended(self) -> bool:
        return bool(self.frames) and self.frames[-1].type == "stream.end"

    @property
    def numbers(self) -> list[int]:
        """The numbers of the events' ids."""
        ids = [frame.value("id") or "" for frame in self.frames]
        tails = [cursor.rpartition(".")[2] for cursor in ids]
        return [int(tail) for tail in tails if tail.isdecimal()]


def read_frames(pieces: Iterable[tuple[float, bytes]]) -> Frames:
    """Parse a body; a frame arrived when its last byte did."""
    found = Frames()
    odd: dict[str, None] = {}
    fields: list[tuple[str, str]] = []
    buffer = b""
    for at, data in pieces:
        buffer += data
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            if line.endswith(b"\r"):
                odd["lines end in CR LF"] = None
                line = line[:-1]
            text = line.decode("utf-8", "replace")
            if text.encode() != line:
                odd["text that is not UTF-8"] = None
            name, _, value = text.partition(":")
            if not line:
                if fields:
                    found.frames.append(Frame(at, fields))
                    fields = []
                else:
                    odd["blank lines between the frames"] = None
            elif line.startswith(b":"):
                found.comments.append(at)
            elif name in FIELDS:
                if not value.startswith(" "):
                    odd["no space after the colon of a field"] = None
                fields.append((name, value.removeprefix(" ")))
            else:
                odd[f"the line {text[:60]!r}"] = None
    found.rest = buffer
    found.odd = list(odd)[:MAX_ODD]
    return found
