"""Bytes of scripted answers: frames of the native format, JSON lines, chunks and cuts. No I/O."""

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "cases"
STREAM = "st_4fJ9qXw0V1cT8mYbR2nZkQ"
STRIDE = 10**8

RETRY_MS = 5
"""The `retry:` of a scripted answer, unless it names its own."""

Event = dict[str, Any]


@cache
def streams() -> dict[str, list[Event]]:
    """Return the events of the streams that cases are made of, by name."""
    found: dict[str, list[Event]] = json.loads((FOLDER / "streams.json").read_text("utf-8"))
    return found


@dataclass
class Body:
    """A response body: chunks to send, each after a wait in seconds."""

    chunks: list[tuple[float, bytes]] = field(default_factory=list)

    @property
    def data(self) -> bytes:
        return b"".join(data for _, data in self.chunks)

    def kept(self, size: int) -> "Body":
        """Return the first `size` bytes."""
        body = Body()
        for wait, data in self.chunks:
            body.chunks.append((wait, data[:size]))
            size -= len(data)
            if size <= 0:
                break
        return body

    def split(self, size: int) -> "Body":
        """Return the same bytes in two chunks, the first of `size` bytes."""
        return Body([(0, self.data[:size]), (0, self.data[size:])])


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def event_id(number: int) -> str:
    return f"{STREAM}.{number}"


def number_of(cursor: str) -> int | None:
    """Return the number of a cursor, an id or its number; None if it is malformed."""
    stream, _, digits = cursor.rpartition(".")
    if stream not in ("", STREAM) or not digits.isascii() or not digits.isdigit():
        return None
    return int(digits)


def frame(event: Event, number: int, *, retry_ms: int | None = None) -> str:
    retry = "" if retry_ms is None else f"retry: {retry_ms}\n"
    name = f"event: {event['type']}\ndata: {compact(event)}\n"
    return f"{retry}{name}id: {event_id(number)}\n\n"


def json_line(event: Event, number: int) -> str:
    return compact({"event_id": event_id(number), **event}) + "\n"


def render(answer: dict[str, Any], *, stream: str, after: int = 0) -> Body:
    """Return the body that a case describes; without a description, the events after a cursor."""
    events = streams()[stream]
    lines = bool(answer.get("json_lines"))
    retry_ms = answer.get("retry_ms", RETRY_MS)
    line_end = answer.get("line_end", "\n")
    parts: list[tuple[float, bytes]] = []
    wait = 0.0
    for item in answer.get("body", [{"frames": [after + 1, len(events)]}]):
        data = b""
        match item:
            case str():
                data = item.encode()
            case {"hex": digits}:
                data = bytes.fromhex(digits)
            case {"wait_ms": duration}:
                wait += duration / 1000
            case {"repeat": text, "times": times}:
                data = (text * times).encode()
            case {"frames": [first, last]}:
                text = ""
                for number in range(first, last + 1):
                    event = events[number - 1]
                    text += (
                        json_line(event, number)
                        if lines
                        else frame(event, number, retry_ms=retry_ms)
                    )
                    retry_ms = None
                data = text.replace("\n", line_end).encode()
            case _:
                raise ValueError(f"body: {item!r} is no text, hex, frames, repeat or wait_ms")
        if data:
            parts.append((wait, data))
            wait = 0.0
    size = answer.get("pieces")
    if size is not None:
        whole = b"".join(data for _, data in parts)
        parts = [(0.0, whole[at : at + size]) for at in range(0, len(whole), size)]
    return Body(parts)


def last_number(data: bytes) -> int:
    """Return the number of the last whole frame or line in some bytes; 0 if there is none."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    number = 0
    for block in text.split("\n\n")[:-1]:
        for line in block.split("\n"):
            if line.startswith("id: "):
                number = number_of(line[4:]) or number
    for line in text.split("\n")[:-1]:
        if line.lstrip(" ").startswith('{"event_id"'):
            number = number_of(json.loads(line)["event_id"]) or number
    return number
