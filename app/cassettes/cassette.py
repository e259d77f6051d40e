"""Format of cassette files: JSON lines, the head first, then one event per line. No I/O.

Line n contains event n of the stream; the head replaces event 1, the `stream.start`, of which
a replay has its own. `at` is in seconds from the start of the stream. Files do not identify
the client: no key, no owner, no id of a request or of the stream.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import Meta

from .. import __version__
from ..errors import CODES
from ..events import (
    Event,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    RefusalEnd,
    RefusalStart,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    encode,
    type_of,
)

VERSION: Final = 1
MAX_BYTES: Final = 16 * 2**20
"""The largest file, which is read into memory before its first event is sent."""
MAX_SECONDS: Final = 86_400
DIGITS: Final = 24
"""Characters of the digest in the name of a recorded cassette: 96 bits."""
MAX_REASON: Final = 300
"""Characters of the reason for an invalid line, which may quote it."""

_Block = (
    TextStart | TextDelta | TextEnd | ReasoningStart | ReasoningDelta | ReasoningEnd
    | RefusalStart | RefusalDelta | RefusalEnd | ToolCallStart | ToolCallDelta | ToolCallEnd
)  # fmt: skip
_BLOCK: Final = get_args(_Block)
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]+")

T = TypeVar("T")


class CassetteHead(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The first line."""

    cassette: Literal[1]
    """The version of the format, which identifies a file."""
    made_by: Annotated[str, Meta(max_length=100)]
    model: Annotated[str, Meta(max_length=2048)]
    """The requested model."""
    measured_from: Annotated[int, Meta(ge=1)] | None = None
    """The first event with a measured time; earlier ones are spread evenly. None: all."""
    request_digest: Annotated[str, Meta(max_length=100)] | None = None
    request: dict[str, Any] | None = None
    """The request, if the settings enable that."""


class TimedEvent(NamedTuple):
    """An event, and its time."""

    at: float
    event: Event


class Cassette(NamedTuple):
    """The content of a file."""

    head: CassetteHead
    events: Sequence[TimedEvent]

    @property
    def last(self) -> int:
        """The number of the last event."""
        return 1 + len(self.events)


class CassetteError(ValueError):
    """A line is invalid; the message has its number and the reason."""


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    at: Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
    event: Event


_head = msgspec.json.Decoder(CassetteHead)
_line = msgspec.json.Decoder(_Line)
_to_json = msgspec.json.Encoder().encode


def make_head(
    model: str,
    *,
    measured_from: int | None,
    request_digest: str = "",
    request: dict[str, Any] | None = None,
) -> CassetteHead:
    """Return the head of a new cassette."""
    return CassetteHead(
        VERSION,
        f"seseragi {__version__}",
        model=model,
        measured_from=measured_from,
        request_digest=request_digest or None,
        request=request,
    )


def render_head(head: CassetteHead) -> bytes:
    """Encode the first line."""
    return _to_json(head) + b"\n"


def render_event(event: Event, at: float) -> bytes:
    """Encode the line of an event; nothing for a `stream.start`, which the head replaces."""
    if isinstance(event, StreamStart):
        return b""
    return b'{"at":%b,"event":%b}\n' % (_to_json(round(at, 3)), encode(event))


def spread(count: int, seconds: float) -> list[float]:
    """Return times for events of which only the total duration is known."""
    each = min(max(seconds, 0.0), MAX_SECONDS) / max(count - 1, 1)
    return [each * step for step in range(count)]


def name_of_recording(model: str, digest: str) -> str:
    """Return the name of the cassette for a request; without a digest that of its model."""
    name = _UNFIT.sub("-", model)[:60].strip("-._") or "stream"
    return f"{name}-{digest[:DIGITS]}" if digest else name


def parse_cassette(data: bytes) -> Cassette:
    """Parse a file.

    Raises:
        CassetteError: a line is invalid; with its number, from 1.
    """
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if not lines or not lines[0].strip():
        raise CassetteError("line 1: empty; expected the head of a cassette")
    if lines[0].startswith(BOM_UTF8):
        raise CassetteError("line 1: starts with a byte order mark; save as UTF-8 without it")
    head = _decode(_head, lines[0], number=1)
    events: list[TimedEvent] = []
    order = _Order()
    before = 0.0
    for number, line in enumerate(lines[1:], 2):
        if not line or line.isspace():
            raise CassetteError(f"line {number}: empty; each line must contain an event")
        found = _decode(_line, line, number=number)
        if found.at < before:
            raise CassetteError(f"line {number}: at: {found.at:g} s is before the line above it")
        before = found.at
        if reason := order.refuse(found.event):
            raise CassetteError(f"line {number}: {reason}")
        events.append(TimedEvent(found.at, found.event))
    return Cassette(head, events)


def upstream_of(line: bytes) -> str:
    """Return the upstream in a line of a file; "" for other events."""
    try:
        event = _line.decode(line).event
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return event.upstream if isinstance(event, StreamTarget) else ""


def _decode(decoder: msgspec.json.Decoder[T], line: bytes, *, number: int) -> T:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CassetteError(f"line {number}: {str(error)[:MAX_REASON]}") from None


class _Order:
    """Validates the order of events, by the invariants of `events`."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[str, int]] = {}
        """The kind and choice of each open block."""
        self._begun: set[int] = set()
        self._has_target = self._ended = False

    def refuse(self, event: Event) -> str:
        """Return why an event is invalid here, "" if it is valid."""
        if self._ended:
            return "nothing follows a 'stream.end'"
        match event:
            case StreamStart():
                return "'stream.start' is invalid: the head replaces it"
            case StreamTarget():
                self._has_target = True  # a later target continues the answer
            case StreamEnd(error=error):
                if error is not None and error.code not in CODES:
                    return f"unknown code {error.code[:40]!r}"
                if self._open and error is None:
                    return f"block {min(self._open)} has no end yet"
                self._ended = True
            case _ if isinstance(event, _BLOCK):
                return self._refuse_block(event)
        return ""

    def _refuse_block(self, event: _Block) -> str:
        kind, _, action = type_of(event).partition(".")
        block = event.block
        if not self._has_target:
            return "a 'stream.target' has to come before the answer"
        if action == "start":
            if block in self._begun:
                return f"block {block} has already begun"
            self._begun.add(block)
            self._open[block] = kind, event.choice
            return ""
        begun_as, choice = self._open.get(block, ("", event.choice))
        if begun_as != kind:
            return f"block {block} is not an open '{kind}' block"
        if choice != event.choice:
            return f"block {block} has begun with choice {choice}, not {event.choice}"
        if action == "end":
            del self._open[block]
        return ""


def render_cassette(head: CassetteHead, events: Iterable[TimedEvent]) -> bytes:
    """Encode a whole file."""
    return render_head(head) + b"".join(render_event(event, at) for at, event in events)
