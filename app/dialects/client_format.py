"""What a dialect is towards clients: their requests in, frames and errors out.

A renderer is a pure function of the log: no clock, no chance, nothing but the events and the
`labels` in `stream.start`. So the frames of a stream in a dialect are always the same ones,
and a reader that comes back is given those after the one that it saw last.

The id of a frame is `<stream>.<letter><n>`: n counts the frames of this dialect from 1, with
a gap where a log has one, and the native dialect, whose frames are the events, has no letter.
It is the last line of its frame: some clients take it for their cursor as soon as they have
read that line, and would never ask again for a frame that was cut after it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from ..errors import RelayError, RequestError
from ..events import Event
from ..framing.lines import escape_line_ends
from ..requests import ChatRequest, check_chat


class Frame(NamedTuple):
    """What one event of a client's stream says."""

    data: bytes
    """One line: JSON, or an end marker."""
    event: str | None = None
    """The name of the event, where the dialect has names."""


class Renderer(Protocol):
    """The frames of one stream: `feed` it all events, from the first."""

    def feed(self, event: Event) -> Iterable[Frame]:
        """Return the frames that the next event makes."""


class FrameWriter(Protocol):
    """The bytes of one connection: `feed` it the log's events after `begin`, in order."""

    begin: int
    """The number of the event after which it wants to be fed."""

    def feed(self, event: Event) -> bytes:
        """Return what the next event adds, which may be nothing."""

    def skip(self, count: int) -> None:
        """Leave out so many numbers: those of frames that were lost."""


class NumberedWriter:
    """Writes the frames of a renderer, with ids, and only those after the cursor."""

    begin = 0

    def __init__(
        self, renderer: Renderer, stream: str, *, letter: str, after: int, retry_ms: int
    ) -> None:
        self.count = 0
        """How many frames there were, those that were left out too."""
        self._skipped = 0
        self._renderer = renderer
        self._id = f"\nid: {stream}.{letter}".encode()
        self._after = after
        self._retry = b"retry: %d\n" % retry_ms

    def feed(self, event: Event) -> bytes:
        """Return what the next event adds, which may be nothing."""
        return b"".join([self._write(frame) for frame in self._renderer.feed(event)])

    def skip(self, count: int) -> None:
        """Leave out so many numbers: those of frames that were lost."""
        self._skipped += count

    @property
    def last(self) -> int:
        """The number of the last frame there was, left out or not."""
        return self._skipped + self.count

    def _write(self, frame: Frame) -> bytes:
        self.count += 1
        number = self._skipped + self.count
        if number <= self._after:
            return b""
        retry, self._retry = self._retry, b""
        name = b"event: %b\n" % frame.event.encode() if frame.event else b""
        data = escape_line_ends(frame.data)
        return b"%b%bdata: %b%b%d\n\n" % (retry, name, data, self._id, number)


class ParsedRequest(msgspec.Struct, frozen=True):
    """A client's request as a chat request, with what else the client said."""

    chat: ChatRequest
    labels: Mapping[str, str] = {}
    """What the dialect has to say again in its frames: kept in `stream.start`."""
    lingers: bool | None = None
    """Whether the stream goes on without a reader; None for the dialect's own habit."""
    name: str | None = None
    """What its client calls the stream, before and without knowing its id."""

    def __post_init__(self) -> None:
        """Check what the types do not bound.

        Raises:
            RequestError: `invalid_request`, with the place and the bound.
        """
        check_chat(self.chat)


class Failure(NamedTuple):
    """An error before a stream began, in the words of a dialect."""

    status: int
    body: bytes
    media_type: str = "application/json"


PROVIDER_STATUSES: Final = {"upstream_auth": 401}
"""Failures that the clients of OpenAI's and Anthropic's formats are given with the provider's
status: they send again what is answered with a 5xx, some of them (AI SDK, opencode) whatever
`x-should-retry` says. To pages of the relay's own format 401 is about their own credential."""


class ClientFormat(NamedTuple):
    """All that the HTTP side needs to speak one dialect with clients."""

    name: str
    """What `?format=` calls it."""
    path: str
    """Where its generations are started; what is below is its own too."""
    letter: str
    """In the ids of its frames; "" for the native dialect, whose frames are the events."""
    parse_request: Callable[[bytes], ParsedRequest]
    """Raises RequestError: `invalid_request`."""
    renderer: Callable[[str], Renderer]
    """Of a stream, by its id."""
    render_result: Callable[[str, Sequence[Event]], Any]
    """The whole answer as one JSON object, of a stream and all its events."""
    render_failure: Callable[[RelayError, str], Failure]
    """Of an error and the request's id."""
    request_type: Any = dict
    """What a request is decoded as; `GET /openapi.json` says it."""
    replays: bool = False
    """Whether its clients have to be sent everything again when they come back."""
    lingers: bool = True
    """Whether its clients can come back, so that their streams go on for a while."""
    asks_again: bool = False
    """Whether its clients send a request again that was refused as something that may pass:
    the official ones twice, Claude Code ten times."""
    breaks_off: bool = False
    """Whether the body of an answer that did not complete ends uncleanly: for old clients, that
    pass over an error and take a clean end for that of the answer."""
    headers: Mapping[str, str] = {}
    name_of: Callable[[str], str] | None = None
    """What a stream that is started here is found by, made of its id."""
    asking_headers: Sequence[str] = ()
    """The headers of a request that are part of what it asks."""
    own_writer: Callable[..., FrameWriter] | None = None
    """What writes the renderer's frames faster than `NumberedWriter`, to the same bytes."""

    def writer(self, stream: str, *, after: int, retry_ms: int) -> FrameWriter:
        """Write the frames of a stream after a cursor."""
        if self.own_writer is not None:
            return self.own_writer(stream, after=after, retry_ms=retry_ms)
        renderer = self.renderer(stream)
        return NumberedWriter(renderer, stream, letter=self.letter, after=after, retry_ms=retry_ms)


def frame_id(stream: str, letter: str, number: int) -> str:
    """Return the id of a frame."""
    return f"{stream}.{letter}{number}"


def parse_frame_id(text: str, *, letter: str) -> tuple[str | None, int]:
    """Read the id of a frame, or its bare number, as the stream and the number.

    Raises:
        RequestError: `invalid_request`, it is no id of this dialect.
    """
    match = _FRAME_ID.fullmatch(text)
    if match is None or (match["stream"] is not None and match["letter"] != letter):
        example = frame_id("st_4fJ9qXw0V1cT8mYbR2nZkQ", letter, 7)
        raise RequestError(
            "invalid_request",
            f"{text[:80]!r} is not the id of an event in this format; ids look like {example}",
        )
    return match["stream"], int(match["number"])


_FRAME_ID = re.compile(
    r"(?:(?P<stream>[\w-]{1,64})\.(?P<letter>[a-z]?))?(?P<number>\d{1,16})", re.ASCII
)
