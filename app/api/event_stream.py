"""The response that streams: a cursor over the log, rendered frame by frame."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

import structlog
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from ..dialects.client_format import ClientFormat, FrameWriter, NumberedWriter, frame_id
from ..dialects.native.client.renderer import Writer as NativeWriter
from ..dialects.native.client.renderer import compact
from ..errors import RelayError, RequestError, ServiceError
from ..eventlog import STRIDE, Ending, LogState
from ..eventlog.contract import PAGE
from ..events import Event, StreamEnd
from ..generation.readers import BATCH, Reader
from .checkpoints import EVERY, NEVER, Checkpoint, Checkpoints
from .deliveries import OnWhole
from .http_settings import HttpSettings
from .request import ClientConnection, connection_of, root_of

if TYPE_CHECKING:
    import anyio

PIECE_BYTES = 64 * 1024
"""The approximate size of one write."""

CATCHING_UP = 100
"""More events than this at once mean that the reader is catching up."""

HEADERS = (
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
)

log = structlog.get_logger("seseragi.api")


GIVE_WAY = 100
"""Events after which other tasks have their turn: a million take seconds."""


class CaughtUp(NamedTuple):
    """A writer that was fed the events up to its cursor, and maybe some after it."""

    after: int
    """The number of the last event fed."""
    frames: Sequence[bytes] = ()
    """The first frames after the cursor; empty if there are none yet."""
    end: StreamEnd | None = None
    """The last event fed, if it is a `stream.end`."""


async def catch_up(
    writer: NumberedWriter,
    reader: Reader,
    *,
    last: int,
    checkpoints: Checkpoints,
    begin: Checkpoint | None = None,
) -> CaughtUp:
    """Feed a new writer until it writes a frame, or was fed the event `last`.

    Later events that are read in the same batch are fed too. With a checkpoint it begins there.
    """
    after, due = 0, EVERY
    if begin is not None and begin.restore(writer):
        after, due = begin.events, begin.due
    begun = after
    end: StreamEnd | None = None
    frames: list[bytes] = []
    first: Sequence[Event] = ()
    while after < last and not frames and end is None:
        # In few round trips, but not far beyond the first missed frame.
        limit = max(BATCH, min(PAGE, writer.missing))
        events = await reader.read(after, timeout_s=0, limit=limit)
        if not events:
            break
        first = first or events
        if isinstance(events, Ending):
            writer.skip(events.after - after)
            after = events.after
        for number, event in enumerate(events):
            if frame := writer.catch_up(event):
                frames.append(frame)
            if number % GIVE_WAY == 0:
                await asyncio.sleep(0)
        after += len(events)
        if isinstance(events[-1], StreamEnd):
            end = events[-1]
        if after >= due:
            due = checkpoints.save(reader.stream, after, writer)
    if not begun:
        reader.put_back(0, first)  # for a dialect that replays everything
    return CaughtUp(after, frames, end)


class EventStream(Response):
    """A response that sends a stream's events after the cursor, up to its `stream.end`.

    Under our own server it reads until it has caught up; from there the log pushes each event,
    which is written within the append, so that no task wakes up for a token. If the client is too
    slow, or the log does not push, it reads again from the same cursor. Under any other server it
    only reads, and sse-starlette sends.

    The reader leaves when the response ends, in any way. A response that ends before the
    `stream.end` is cut off, since a clean end would look like a complete answer: the client
    accepts nothing for `send_timeout_s`, the stream is deleted, or the server waits no longer.
    An answer that did not complete is sent whole and then cut off too, for the user agents that
    `breaks_off` matches.
    """

    _connection: ClientConnection
    _caught_up: "asyncio.Future[None]"
    _timer: asyncio.TimerHandle

    def __init__(
        self,
        reader: Reader,
        writer: FrameWriter,
        *,
        http_settings: HttpSettings,
        headers: Mapping[str, str],
        checkpoints: Checkpoints,
        breaks_off: re.Pattern[str] | None = None,
        snapshot: bool = False,
        begun: CaughtUp | None = None,
        events: Sequence[Event] = (),
        on_whole: OnWhole | None = None,
    ) -> None:
        """Send `begun`, or the first `events`, together with the head."""
        self.status_code = 200
        self.background = None
        self.raw_headers = [
            (b"content-type", writer.form.media_type),
            *HEADERS,
            *((name.encode(), value.encode()) for name, value in headers.items()),
        ]
        self._reader = reader
        self._writer = writer
        self._after = writer.begin if begun is None else begun.after
        self._begun: Sequence[bytes] = () if begun is None else begun.frames
        self._http_settings = http_settings
        self._breaks_off = breaks_off
        self._on_whole = on_whole
        self._snapshot = snapshot
        self._end = None if begun is None else begun.end
        self._last = b""
        """The last frames, which the end of the body accompanies in one write."""
        self._sent_at = 0.0
        self._checkpoints = checkpoints
        self._due = EVERY if isinstance(writer, NumberedWriter) and writer.resumes else NEVER
        if events:
            self._begun = (writer.feed(*events),)
            self._note(events)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        location = f"{root_of(scope)}/v1/streams/{self._reader.stream}/events"
        self.raw_headers.insert(1 + len(HEADERS), (b"content-location", location.encode()))
        connection = connection_of(scope)
        if connection is None:
            await self._serve_reads(scope, receive, send)
        else:
            self._connection = connection
            await self._serve_pushes(scope, send)
        whole = self._end is not None and self._end.status in ("completed", "cancelled")
        if self._on_whole is not None and whole and scope["method"] != "HEAD":
            await self._on_whole(connection)

    # Under our own server

    async def _serve_pushes(self, scope: Scope, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        self._connection.on_lost = task.cancel
        try:
            headers, self.raw_headers = self.raw_headers, []  # 700 bytes while the stream lasts
            self._connection.joins_head = any(self._begun)
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            del headers
            if scope["method"] != "HEAD" and not self._connection.lost:
                await self._deliver()
                if self._is_cut(scope):
                    self._connection.write(self._last)
                    self._last = b""
                    self._connection.break_off()
            await send({"type": "http.response.body", "body": self._last})
            return
        except RelayError as error:
            self._note_dropped(error)
        except asyncio.CancelledError:
            pass  # the client has disconnected, or the server waits no longer
        finally:
            self._connection.on_lost = None
            self._reader.leave()
        self._connection.abort()
        await asyncio.sleep(0.01)  # let the server see the loss before the app returns

    async def _deliver(self) -> None:
        """Send everything up to the `stream.end`."""
        begun, self._begun = self._begun, ()
        if begun:
            await self._send(begun)
        if self._snapshot:
            await self._send(await self._read_snapshot(), gives_way=True)
        while self._end is None:
            if self._reader.follow(self._after, self._push):
                await self._live()
                continue
            events = await self._read()
            frames = map(self._writer.feed, events) if events else [self._writer.form.heartbeat]
            self._note(events)
            await self._send(frames)
            if self._after >= self._due:
                self._save()
            if len(events) > CATCHING_UP:
                # Sending to a client that is gone never waits: without this, a long
                # catch-up would hold the event loop to its end.
                await asyncio.sleep(0)

    async def _send(self, frames: Iterable[bytes], *, gives_way: bool = False) -> None:
        for piece in in_pieces(frames):
            if self._end is not None:
                piece, self._last = self._last, piece
            if not self._connection.write(piece):
                await self._connection.drain()
            elif gives_way:
                await asyncio.sleep(0)

    async def _live(self) -> None:
        """Let the log push until the stream ends or is deleted, or the client falls behind."""
        loop = asyncio.get_running_loop()
        self._caught_up = loop.create_future()
        self._sent_at = loop.time()
        self._timer = loop.call_later(self._http_settings.heartbeat_s, self._beat)
        try:
            await self._caught_up
        finally:
            self._timer.cancel()
            self._reader.unfollow(self._push)
        await self._connection.drain()

    def _push(self, events: Sequence[Event]) -> None:
        """Send appended events; no events mean that the stream is deleted."""
        if self._caught_up.done():
            return
        try:
            piece = self._writer.feed(*events)
            self._note(events)
            if self._end is not None:
                self._last = piece
            elif self._connection.write(piece) and events:
                self._sent_at = self._caught_up.get_loop().time()
                if self._after >= self._due:
                    self._save()
                return
        except Exception as failure:  # of this reader: the stream goes on
            self._caught_up.set_exception(failure)
            return
        self._caught_up.set_result(None)

    def _beat(self) -> None:
        """Send a heartbeat if nothing was sent for `heartbeat_s`, and schedule the next."""
        loop = self._caught_up.get_loop()
        due = self._sent_at + self._http_settings.heartbeat_s
        if due <= loop.time():
            self._connection.write(self._writer.form.heartbeat)
            due = loop.time() + self._http_settings.heartbeat_s
        self._timer = loop.call_at(due, self._beat)

    # Under any other server

    async def _serve_reads(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Imported here, since the command does not need it and starts faster without.
        import anyio

        from .asgi_stream import respond

        stopping = anyio.Event()
        # Servers close a connection of HTTP/1 whose response the app has not completed; a stream
        # of HTTP/2 hypercorn (0.18) leaves open.
        breaks_off = scope["http_version"].startswith("1")
        draining = asyncio.ensure_future(self._drain_at(stopping))
        response = respond(
            self._read_pieces(),
            self.raw_headers,
            heartbeat=self._writer.form.heartbeat,
            http_settings=self._http_settings,
            stopping=stopping,
        )

        async def send_uncut(message: Message) -> None:
            last = message["type"] == "http.response.body" and not message.get("more_body")
            if not (last and breaks_off and self._is_cut(scope)):
                await send(message)

        try:
            await response(scope, receive, send_uncut)
        finally:
            draining.cancel()
            self._reader.leave()

    async def _drain_at(self, stopping: "anyio.Event") -> None:
        await stopping.wait()
        await self._reader.drain(self._http_settings.drain_s)

    async def _read_pieces(self) -> AsyncIterator[bytes]:
        """Yield everything up to the `stream.end`."""
        for piece in in_pieces(self._begun):
            yield piece
        try:
            if self._snapshot:
                for piece in in_pieces(await self._read_snapshot()):
                    yield piece
                    await asyncio.sleep(0)
            while self._end is None:
                events = await self._read()
                for piece in in_pieces(map(self._writer.feed, events)):
                    yield piece
                self._note(events)
                if self._after >= self._due:
                    self._save()
                if len(events) > CATCHING_UP:
                    await asyncio.sleep(0)
        except RelayError as error:
            self._note_dropped(error)
            raise ReaderDropped(str(error)) from None

    # Both

    async def _read(self) -> Sequence[Event]:
        """Return the events after the cursor; none if none came within `heartbeat_s`."""
        events = await self._reader.read(self._after, timeout_s=self._http_settings.heartbeat_s)
        if isinstance(events, Ending):
            self._writer.skip(events.after - self._after)
            self._after = events.after
        return events

    async def _read_snapshot(self) -> Iterable[bytes]:
        """Return the frames of the stream so far, compacted, and advance the cursor."""
        assert isinstance(self._writer, NativeWriter)  # noqa: S101  (a request for another is refused)
        events = await self._reader.read_all(ending=False)  # whose ids do not follow
        self._note(events)
        return starmap(self._writer.frame, compact(events))

    def _note(self, events: Sequence[Event]) -> None:
        """Advance the cursor over sent events."""
        self._after += len(events)
        if events and type(last := events[-1]) is StreamEnd:
            self._end = last

    def _save(self) -> None:
        """Save the state of the renderer after the sent events, for readers that resume."""
        assert isinstance(self._writer, NumberedWriter)  # noqa: S101  (no other is due)
        self._due = self._checkpoints.save(self._reader.stream, self._after, self._writer)

    def _is_cut(self, scope: Scope) -> bool:
        """Return whether the body must end without its last chunk."""
        pattern, end = self._breaks_off, self._end
        if pattern is None or end is None or end.status == "completed":
            return False
        return pattern.match(Headers(scope=scope).get("user-agent", "")) is not None

    def _note_dropped(self, error: RelayError) -> None:
        log.info("reader dropped", stream=self._reader.stream, code=error.code, error=error.message)


class ReaderDropped(Exception):
    """A response that has begun cannot be completed: the server has to abort it."""


def in_pieces(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Join frames into pieces of about `PIECE_BYTES`, the most that a stalled client holds."""
    piece: list[bytes] = []
    size = 0
    for frame in frames:
        piece.append(frame)
        size += len(frame)
        if size >= PIECE_BYTES:
            yield b"".join(piece)
            piece.clear()
            size = 0
    if size:
        yield b"".join(piece)


async def read_from(
    reader: Reader,
    client_format: ClientFormat,
    after: int,
    *,
    http_settings: HttpSettings,
    retry_ms: int,
    checkpoints: Checkpoints,
    snapshot: bool = False,
    suffix: bool = False,
    on_whole: OnWhole | None = None,
) -> Response:
    """Return a response of the frames after a cursor; 204 if there are and will be none.

    Dialects whose clients need a full replay get it, unless `suffix`.

    Raises:
        RequestError: `conflict`, the cursor is beyond the log.
    """
    state = reader.found
    writer = client_format.writer(reader.stream, after=after, retry_ms=retry_ms)
    begun: CaughtUp | None = None
    ended = state.ended
    ended_elsewhere = state.kept is not None and after >= STRIDE
    last = state.last if state.kept is None or ended_elsewhere else state.kept
    try:
        if after and isinstance(writer, NumberedWriter):
            checkpoint = checkpoints.find(reader.stream, writer.letter, after)
            whole = state.last if state.kept is None else state.kept
            if checkpoint is not None and checkpoint.events > whole:
                checkpoint = None  # of events that were lost
            begun = await catch_up(
                writer, reader, last=last, checkpoints=checkpoints, begin=checkpoint
            )
            last = writer.last
            ended = ended or begun.end is not None
        if after > last or after // STRIDE != last // STRIDE:
            raise _beyond(reader.stream, client_format, after=after, last=last, state=state)
    except BaseException:
        reader.leave()
        raise
    at_end = after == last and (begun is None or not begun.frames)
    if ended and at_end and (state.kept is None or ended_elsewhere):
        reader.leave()
        return Response(status_code=204, headers={"cache-control": "no-store"})
    if after and client_format.replays and not suffix:
        begun = None
        writer = client_format.writer(reader.stream, after=0, retry_ms=retry_ms)
    return EventStream(
        reader,
        writer,
        http_settings=http_settings,
        headers={"stream-id": reader.stream, **client_format.headers},
        checkpoints=checkpoints,
        breaks_off=client_format.breaks_off,
        snapshot=snapshot,
        begun=begun,
        on_whole=on_whole,
    )


def _beyond(
    stream: str, client_format: ClientFormat, *, after: int, last: int, state: LogState
) -> RelayError:
    """Return the error for a cursor after the last known frame."""
    seen, latest = (frame_id(stream, client_format.letter, number) for number in (after, last))
    if state.kept is not None:
        return RequestError(
            "conflict",
            f"Last-Event-ID: the events after {latest!r} were lost; read the stream from its "
            "beginning",
        )
    if not state.settled:
        return ServiceError(
            "overloaded", "the event log is being restored; try again shortly", retry_after_s=2
        )
    return RequestError("conflict", f"the stream has no event {seen!r} yet; its last is {latest!r}")
