"""The one response that streams: a cursor over the log, rendered frame by frame."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from itertools import starmap

import structlog
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.policy import Policy
from app.dialects.front import Front, Writer, frame_id
from app.dialects.native import Writer as NativeWriter
from app.dialects.native import compact
from app.errors import RelayError, RequestError
from app.events import StreamEnd
from app.hub import Reader

HEARTBEAT = b": hb\n"
"""One comment line and no blank line after it: at a blank line, clients that have seen an
id would dispatch an empty event, and official SDKs fail on it."""

PIECE_BYTES = 64 * 1024
"""About how much is sent at once."""

CATCHING_UP = 100
"""More events than that at once are no live reading."""

ABORT = "seseragi.abort"
"""The ASGI extension by which `app.server` lets a response cut its connection."""

log = structlog.get_logger("seseragi.api")


class EventStream(EventSourceResponse):
    """Sends a stream's events after the cursor, live, and ends after its `stream.end`.

    The reader leaves when the response is over, however that came about. What ends before
    the `stream.end` is cut off rather than ended cleanly, since a clean end would look like
    a complete answer: a client that accepts nothing for `send_timeout_s`, a stream that is
    removed under its reader, a server that will wait no longer.
    """

    def __init__(
        self,
        reader: Reader,
        writer: Writer,
        *,
        policy: Policy,
        headers: Mapping[str, str],
        snapshot: bool = False,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._policy = policy
        self._snapshot = snapshot
        self._complete = False
        super().__init__(
            self._frames(),
            headers={
                "cache-control": "no-store, no-transform",
                "content-location": f"/v1/streams/{reader.stream}/events",
                "stream-id": reader.stream,
                **headers,
            },
            ping=0,  # the heartbeat is ours
            sep="\n",
            # Streams are ended by the hub before the server stops; this is the backstop.
            shutdown_grace_period=1,
        )
        del self.headers["connection"]  # the server knows better

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        abort: Callable[[], None] = scope["extensions"][ABORT]
        try:
            await super().__call__(scope, receive, send)
        except RelayError as error:
            log.info("reader dropped", stream=self._reader.stream, code=error.code)
        finally:
            self._reader.leave()
        if not self._complete and scope["method"] != "HEAD":
            abort()
            await asyncio.sleep(0.01)  # let the server see the loss before the app returns

    async def _frames(self) -> AsyncIterator[bytes]:
        writer = self._writer
        after = writer.begin
        if self._snapshot and isinstance(writer, NativeWriter):
            events = await self._reader.read_all()
            for piece in in_pieces(starmap(writer.frame, compact(events))):
                yield piece
                await asyncio.sleep(0)
            after = len(events)
            self._complete = bool(events) and isinstance(events[-1], StreamEnd)
        while not self._complete:
            events = await self._reader.read(after, timeout_s=self._policy.heartbeat_s)
            if not events:
                yield HEARTBEAT
            for piece in in_pieces(map(writer.feed, events)):
                yield piece
            if len(events) > CATCHING_UP:
                # Sending to a client that is gone never waits: without this, a long
                # catch-up would hold the event loop to its end.
                await asyncio.sleep(0)
            after += len(events)
            self._complete = bool(events) and isinstance(events[-1], StreamEnd)


def in_pieces(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Join frames into pieces of about `PIECE_BYTES`: a client that accepts none costs one."""
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


def last_event_id(request: Request) -> str | None:
    """Give the header `Last-Event-ID`, None if empty; the server leaves white space after it in."""
    return request.headers.get("last-event-id", "").strip(" \t") or None


async def read_from(
    reader: Reader,
    front: Front,
    after: int,
    *,
    policy: Policy,
    retry_ms: int,
    snapshot: bool = False,
    suffix: bool = False,
) -> Response:
    """Answer with the frames after a cursor; 204 when there are and will be none.

    A dialect whose clients need everything again gets it, unless `suffix`.

    Raises:
        RequestError: `conflict`, the cursor is beyond the log.
    """
    try:
        state = await reader.state()
        last = state.last
        if after and front.letter:
            last = await count_frames(front, reader)
        if after > last:
            seen = frame_id(reader.stream, front.letter, after)
            raise RequestError(
                "conflict",
                f"the stream has no event {seen!r} yet; "
                f"its last is {frame_id(reader.stream, front.letter, last)!r}",
            )
    except BaseException:
        reader.leave()
        raise
    if state.ended and after == last:
        reader.leave()
        return Response(status_code=204, headers={"cache-control": "no-store"})
    after = 0 if front.replays and not suffix else after
    writer = front.writer(reader.stream, after=after, retry_ms=retry_ms)
    return EventStream(reader, writer, policy=policy, headers=front.headers, snapshot=snapshot)


async def count_frames(front: Front, reader: Reader) -> int:
    """Count the frames so far, giving way to others: it takes seconds at a million events."""
    renderer = front.renderer(reader.stream)
    count = 0
    for number, event in enumerate(await reader.read_all()):
        count += sum(1 for _ in renderer.feed(event))
        if number % CATCHING_UP == 0:
            await asyncio.sleep(0)
    return count
