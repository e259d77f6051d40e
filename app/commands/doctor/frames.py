"""The bytes of an event stream, line by line: frames with their times, and what is odd.

A client's parser forgives a lot; here all counts that the relay does not send itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

BOM = b"\xef\xbb\xbf"
MAX_ODD = 20


@dataclass
class Frame:
    """The fields between two blank lines, and when the blank line came."""

    at: float
    fields: list[tuple[str, str]]

    def value(self, name: str) -> str | None:
        return next((value for known, value in self.fields if known == name), None)

    @property
    def event(self) -> dict[str, Any]:
        """What `data:` says; an empty object if it is no JSON."""
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
    """What an event stream was made of."""

    frames: list[Frame] = field(default_factory=list)
    comments: list[tuple[float, str]] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    """Lines that no relay sends, in words."""
    rest: bytes = b""
    """What came after the last line's end."""

    @property
    def deltas(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.type == "text.delta"]

    @property
    def text(self) -> str:
        return "".join(str(frame.event.get("text", "")) for frame in self.deltas)

    @property
    def ended(self) -> bool:
        """Return whether the stream said that it is over."""
        return bool(self.frames) and self.frames[-1].type == "stream.end"

    @property
    def numbers(self) -> list[int]:
        """The numbers of the events, by their ids."""
        ids = [frame.value("id") or "" for frame in self.frames]
        tails = [cursor.rpartition(".")[2] for cursor in ids]
        return [int(tail) for tail in tails if tail.isdecimal()]


def read_frames(pieces: Iterable[tuple[float, bytes]]) -> Frames:
    """Cut a body into frames; each came when its last byte did."""
    found = Frames()
    fields: list[tuple[str, str]] = []
    buffer = b""
    first = True
    for at, data in pieces:
        buffer += data
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            if first:
                first = False
                if line.startswith(BOM):
                    found.odd.append("a byte order mark before the first line")
                    line = line.removeprefix(BOM)
            if line.endswith(b"\r"):
                found.odd.append("lines end in CR LF")
                line = line[:-1]
            if not line:
                if fields:
                    found.frames.append(Frame(at, fields))
                    fields = []
                else:
                    found.odd.append("blank lines between the frames")
            elif line.startswith(b":"):
                found.comments.append((at, line[1:].decode("utf-8", "replace").strip()))
            else:
                _take_field(line, fields, found)
    found.rest = buffer
    found.odd = list(dict.fromkeys(found.odd))[:MAX_ODD]
    return found


def _take_field(line: bytes, fields: list[tuple[str, str]], found: Frames) -> None:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        found.odd.append("text that is not UTF-8")
        text = line.decode("utf-8", "replace")
    name, colon, value = text.partition(": ")
    if not colon or name not in ("event", "data", "id", "retry"):
        if not (colon := ":" if text.partition(":")[0] in ("event", "data", "id", "retry") else ""):
            found.odd.append(f"the line {text[:60]!r}")
            return
        found.odd.append("no space after the colon of a field")
        name, _, value = text.partition(":")
    fields.append((name, value))
