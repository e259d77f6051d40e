"""The interface of a client format: requests in, frames and errors out.

A renderer is a pure function of the log: it depends on the events alone, which include the
`labels` in `stream.start`. So the frames of a stream in a dialect never change, and a reader
that reconnects gets those after its cursor.

The id of a frame is `<stream>.<letter><n>`: n counts the frames of this dialect from 1, with
a gap where a log has one, and the native dialect, whose frames are the events, has no letter.
It is the last line of its frame: some clients advance their cursor as soon as they have read
that line, and would skip a frame that was cut after it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import chain, islice
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from ..errors import RelayError, RequestError
from ..events import Event, ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from ..framing.ndjson import escape_line_ends
from ..requests import ChatRequest, check_chat, parse_chat_request


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One SSE event of a client's stream."""

    data: bytes
    """One line: JSON, or an end marker."""
    event: str | None = None
    """The name of the event, if the dialect has names."""


class Renderer(Protocol):
    """The frames of one stream: `feed` it all events, from the first.

    It may also have `pass_over(event)`, for deltas that a client has seen: it takes the event, and
    returns the number of its frames (0 or 1), or takes nothing and returns None. A resume is ten
    times as fast by it.
    """

    def feed(self, event: Event) -> Iterable[Frame]:
        """Return the frames for the next event."""


DELTAS: Final = (TextDelta, RefusalDelta, ReasoningDelta, ToolCallDelta)


def list_frames(renderer: Renderer, events: Iterable[Event]) -> list[Any]:
    """Return the frames of a whole stream, encoded, without an end marker."""
    frames = [frame.data for event in events for frame in renderer.feed(event)]
    return [msgspec.Raw(data) for data in frames if data.startswith(b"{")]


class BodyForm(NamedTuple):
    """The form of a body that streams."""

    media_type: bytes
    heartbeat: bytes
    """Sent between frames while there are none; no client takes it for a part of one."""


EVENT_STREAM: Final = BodyForm(b"text/event-stream; charset=utf-8", b": hb\n")
"""Its heartbeat is a comment without a blank line: after one, clients that have seen an id would
dispatch an empty event, on which official SDKs fail."""

JSON_LINES: Final = BodyForm(b"application/x-ndjson", b" ")
"""Its heartbeat is white space before the next line's JSON: parsers fail on an empty line."""


class FrameWriter(Protocol):
    """The bytes of one connection: `feed` it the log's events after `begin`, in order."""

    form: BodyForm
    begin: int
    """The number of the event before the first one to feed."""

    def feed(self, *events: Event) -> bytes:
        """Return the bytes of the next events' frames, which may be none."""

    def skip(self, count: int) -> None:
        """Skip `count` numbers: those of lost frames."""


class NumberedWriter:
    """Writes the frames of a renderer, with ids, and only those after the cursor."""

    form = EVENT_STREAM
    begin = 0
    resumes = True
    """Whether clients resume with its numbers."""

    def __init__(
        self, renderer: Renderer, stream: str, *, letter: str, after: int, retry_ms: int
    ) -> None:
        self.count = 0
        """The number of frames so far, including skipped ones."""
        self.renderer = renderer
        self.letter = letter
        self._skipped = 0
        self._id = f"\nid: {stream}.{letter}".encode()
        self._after = after
        self._retry = b"retry: %d\n" % retry_ms

    def feed(self, *events: Event) -> bytes:
        """Return the bytes of the next events' frames, which may be none."""
        render, line, number = self.renderer.feed, self._id, self._skipped + self.count
        written: list[bytes] = []
        for frame in chain.from_iterable(map(render, events)):
            number += 1
            if number <= self._after:
                continue
            data, name = frame.data, frame.event
            if not data.isascii():
                data = escape_line_ends(data)
            if name is not None:
                written.append(b"event: %b\n" % name.encode())
            written.append(b"data: %b%b%d\n\n" % (data, line, number))
        self.count = number - self._skipped
        if written and self._retry:
            written.insert(0, self._retry)
            self._retry = b""
        return b"".join(written)

    def catch_up(self, event: Event) -> bytes:
        """Do `feed`; frames before the cursor are only counted if the renderer has `pass_over`."""
        pass_over = getattr(self.renderer, "pass_over", None)
        if pass_over is not None and self.missing > 0:
            count = pass_over(event)
            if count is not None:
                self.count += count
                return b""
        return self.feed(event)

    def skip(self, count: int) -> None:
        """Skip `count` numbers: those of lost frames."""
        self._skipped += count

    @property
    def missing(self) -> int:
        """The number of frames up to the cursor."""
        return self._after - self.last

    @property
    def last(self) -> int:
        """The number of the last frame, written or skipped."""
        return self._skipped + self.count


class UnnumberedWriter(NumberedWriter):
    """Writes frames without ids and `retry`, from the first."""

    def feed(self, *events: Event) -> bytes:
        """Return the bytes of the next events' frames, which may be none."""
        frames = [frame.data for frame in chain.from_iterable(map(self.renderer.feed, events))]
        self.count += len(frames)
        written = b"".join([b"data: %b\n\n" % data for data in frames])
        if written.isascii():
            return written
        return b"".join([b"data: %b\n\n" % escape_line_ends(data) for data in frames])


class MessageWriter(NumberedWriter):
    """Writes all frames of a renderer as JSON lines without ids: the messages of a connection."""

    form = JSON_LINES
    resumes = False

    def feed(self, *events: Event) -> bytes:
        """Return the lines of the next events' frames, or an empty line."""
        frames = chain.from_iterable(map(self.renderer.feed, events))
        lines = b"%b\n" % b"\n".join(map(attrgetter("data"), frames))
        return lines if lines.isascii() else escape_line_ends(lines)


MAX_PAIRS: Final = 16
MAX_KEY: Final = 64
MAX_VALUE: Final = 512
"""The most metadata that lists of streams show: OpenAI's limits, in characters."""


def name_of_chat(chat: str) -> str:
    """Return the name of a chat's streams, in every format.

    A digest: hooks do not check it, and it is stored.
    """
    return f"chat:{sha256(chat.encode(errors='surrogatepass')).hexdigest()}"


class ParsedRequest(msgspec.Struct, frozen=True):
    """A client's request as a chat request, with values for its own dialect."""

    chat: ChatRequest
    labels: Mapping[str, str] = {}
    """Values that the dialect repeats in its frames, stored in `stream.start`."""
    lingers: bool | None = None
    """Whether the stream continues without a reader; None for the dialect's default."""
    name: str | None = None
    """The client's own name for the stream, known before its id."""
    tags: Mapping[str, str] = {}
    """The conversation that the dialect names, for lists of streams."""

    @property
    def metadata(self) -> dict[str, str]:
        """The tags and the request's own metadata, as far as they fit into lists of streams."""
        if not (self.tags or self.chat.metadata):
            return {}
        pairs = {**self.tags, **(self.chat.metadata or {}), **self.tags}.items()
        fitting = (pair for pair in pairs if len(pair[0]) <= MAX_KEY and len(pair[1]) <= MAX_VALUE)
        return dict(islice(fitting, MAX_PAIRS))

    def __post_init__(self) -> None:
        """Check the bounds that the types cannot express.

        Raises:
            RequestError: `invalid_request`, with the path and the bound.
        """
        check_chat(self.chat)

    @classmethod
    def of_chat(cls, body: bytes) -> "ParsedRequest":
        """Parse a request of the relay's own format.

        Raises:
            RequestError: `invalid_request`.
        """
        return cls(parse_chat_request(body))


class Failure(NamedTuple):
    """An error response, before a stream has begun, in a dialect."""

    status: int
    body: bytes
    media_type: str = "application/json"


PROVIDER_STATUSES: Final = {"upstream_auth": 401, "upstream_forbidden": 403}
"""Failures with the provider's own status in OpenAI's and Anthropic's formats: their clients
retry a 5xx, some (AI SDK, opencode) in spite of `x-should-retry`. In the native format a 401
or 403 is about the client's own credential."""


class ClientFormat(NamedTuple):
    """One dialect towards clients, for the HTTP side."""

    name: str
    """Its value of `?format=`."""
    path: str
    """The path that starts generations; paths below it belong to the dialect too."""
    letter: str
    """The letter in frame ids; "" for the native dialect, whose frames are the events."""
    parse_request: Callable[[bytes], ParsedRequest]
    """Raises RequestError: `invalid_request`."""
    renderer: Callable[[str], Renderer]
    """Builds the renderer of a stream, by its id."""
    render_result: Callable[[str, Sequence[Event]], Any]
    """Renders the complete answer as one JSON object, from a stream's id and all its events."""
    render_failure: Callable[[RelayError, str], Failure]
    """Renders an error, from it and the request's id."""
    request_type: Any = dict
    """The type of a request body, for `GET /openapi.json`."""
    replays: bool = False
    """Whether its clients need all frames again when they reconnect."""
    lingers: bool = True
    """Whether its clients can reconnect, so that their streams continue for a while."""
    client_retries: bool = False
    """Whether its clients retry after a retryable error: the official ones twice, Claude Code ten
    times."""
    breaks_off: re.Pattern[str] | None = None
    """Matches the user agents for which the body of an incomplete answer ends uncleanly: they
    ignore the error, and treat a clean end as the end of the answer."""
    headers: Mapping[str, str] = {}
    rate_limit_header: str = "x-ratelimit-{field}-{kind}"
    """The names of the headers with rate limits: OpenAI's."""
    resets_are_times: bool = False
    """Whether limits reset at times, as at Anthropic, instead of after durations."""
    name_of: Callable[[str], str] | None = None
    """Derives a stream's public name from its id."""
    request_headers: Sequence[str] = ()
    """Request headers that are part of the request's meaning."""
    numbered_writer: type[NumberedWriter] = NumberedWriter
    post_writer: type[NumberedWriter] | None = None
    """The writer for the answer to a POST, if it is another."""
    fast_writer: Callable[..., FrameWriter] | None = None
    """A faster writer than that, with the same bytes."""

    def writer(self, stream: str, *, after: int, retry_ms: int, post: bool = False) -> FrameWriter:
        """Write the frames of a stream after a cursor, or as the answer to a `post`."""
        if self.fast_writer is not None:
            return self.fast_writer(stream, after=after, retry_ms=retry_ms)
        new = (self.post_writer if post else None) or self.numbered_writer
        return new(
            self.renderer(stream), stream, letter=self.letter, after=after, retry_ms=retry_ms
        )


def frame_id(stream: str, letter: str, number: int) -> str:
    """Return the id of a frame."""
    return f"{stream}.{letter}{number}"


def parse_frame_id(text: str, *, letter: str) -> tuple[str | None, int]:
    """Read the id of a frame, or its bare number, as the stream and the number.

    Raises:
        RequestError: `invalid_request`, it is not an id of this dialect.
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
