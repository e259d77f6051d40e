"""Format of cassette files: JSON lines, the head first, then one event per line. No I/O.

Line n contains event n of the stream; the head replaces event 1, the `stream.start`, of which
a replay has its own. `at` is in seconds from the start of the stream. Files do not identify
the client: no key, no owner, no id of a request or of the stream.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, assert_never

import msgspec
from msgspec import Meta

from .. import __version__
from ..errors import CODES
from ..events import (
    ChoiceEnd,
    ContentFilter,
    Event,
    LogProbs,
    Media,
    Notice,
    Opaque,
    ProviderTool,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    RefusalEnd,
    RefusalStart,
    Source,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    encode,
    type_of,
)

VERSION: Final = 1
MAX_BYTES: Final = 16 * 2**20
"""The largest file, which is read into memory before its first event is sent."""
MAX_SECONDS: Final = 86_400
MAX_REASON: Final = 300
"""Characters of the reason for an invalid line, which may quote it."""

_Start = TextStart | ReasoningStart | RefusalStart | ToolCallStart
_Delta = TextDelta | ReasoningDelta | RefusalDelta | ToolCallDelta
_End = TextEnd | ReasoningEnd | RefusalEnd | ToolCallEnd
_NO_TARGET: Final = "a 'stream.target' has to come before the answer"
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


class Played(NamedTuple):
    """An event, and its time."""

    at: float
    event: Event


class Cassette(NamedTuple):
    """The content of a file."""

    head: CassetteHead
    played: Sequence[Played]

    @property
    def last(self) -> int:
        """The number of the last event."""
        return 1 + len(self.played)


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
        model,
        measured_from,
        request_digest or None,
        request,
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
    return [each * place for place in range(count)]


def file_name_of(model: str) -> str:
    """Return a file name for a model's cassette, without path and stream id."""
    return _UNFIT.sub("-", model)[:60].strip("-._") or "stream"


def parse_tape(data: bytes) -> Cassette:
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
    played: list[Played] = []
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
        played.append(Played(found.at, found.event))
    return Cassette(head, played)


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
            case TextDelta() | ReasoningDelta() | RefusalDelta() | ToolCallDelta():
                return self._refuse_more(event)
            case StreamStart():
                return "'stream.start' stands in no line: the head is in its place"
            case StreamTarget():
                if self._has_target:
                    return "there is a 'stream.target' already"
                self._has_target = True
            case StreamEnd(error=error):
                if error is not None and error.code not in CODES:
                    return f"unknown code {error.code[:40]!r}"
                if self._open and error is None:
                    return f"block {min(self._open)} has no end yet"
                self._ended = True
            case TextStart() | ReasoningStart() | RefusalStart() | ToolCallStart():
                return self._refuse_start(event)
            case TextEnd() | ReasoningEnd() | RefusalEnd() | ToolCallEnd():
                if reason := self._refuse_more(event):
                    return reason
                del self._open[event.block]
            case Opaque() | Source() | Media() | LogProbs() | ContentFilter() | ProviderTool():
                pass
            case Notice() | ChoiceEnd() | Usage():
                pass
            case _:
                assert_never(event)
        return ""

    def _refuse_start(self, event: _Start) -> str:
        if not self._has_target:
            return _NO_TARGET
        if event.block in self._begun:
            return f"block {event.block} has begun already"
        self._begun.add(event.block)
        self._open[event.block] = _kind(event), event.choice
        return ""

    def _refuse_more(self, event: _Delta | _End) -> str:
        if not self._has_target:
            return _NO_TARGET
        kind, block, choice = _kind(event), event.block, event.choice
        begun_as, belongs_to = self._open.get(block, ("", choice))
        if begun_as != kind:
            return f"block {block} is no open '{kind}' block"
        if belongs_to != choice:
            return f"block {block} has begun with choice {belongs_to}, not {choice}"
        return ""


def _kind(event: _Start | _Delta | _End) -> str:
    return type_of(event).partition(".")[0]


def render_tape(head: CassetteHead, played: Iterable[Played]) -> bytes:
    """Encode a whole file."""
    return render_head(head) + b"".join(render_event(event, at) for at, event in played)
