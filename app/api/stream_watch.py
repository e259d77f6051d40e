"""`GET /v1/streams/watch`: starts, ends and events of the caller's streams as they happen."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..dialects.client_format import JSON_LINES, BodyForm
from ..dialects.native.client.renderer import PingWriter, Writer
from ..errors import RequestError, ServiceError
from ..events import encode, type_of
from ..framing.ndjson import escape_line_ends
from ..generation.watching import (
    Ended,
    Item,
    Lost,
    Output,
    Ready,
    Removed,
    Started,
    WatchCursor,
    Watcher,
    parse_cursor,
)
from ..policies.admission import address_of
from .endpoints import Endpoints, HttpParts
from .event_stream import HEADERS, in_pieces
from .http_settings import HttpSettings
from .request import connection_of, prefers_json_lines, principal_of, read_query
from .streams import StreamSummary, given_cursors, read_metadata, summarize, try_again

LONGEST_S: Final = 900.0
"""After which a watch ends and its client comes back: a credential may be revoked meanwhile."""

MAX_RUNNING: Final = 1000
"""The most streams that a `watch.ready` names."""


class StartedStream(StreamSummary, tag_field="type", tag="stream.started"):
    """A stream has started, or ran when the watch began."""


class EndedStream(StreamSummary, tag_field="type", tag="stream.ended"):
    """A stream has ended."""


class RemovedStream(msgspec.Struct, tag_field="type", tag="stream.removed"):
    """A stream was deleted, or has expired while its watcher was away."""

    stream: str


class LostEvents(msgspec.Struct, tag_field="type", tag="events.lost"):
    """Events that the watcher has seen are lost: read the stream from its beginning."""

    stream: str


class WatchReady(msgspec.Struct, tag_field="type", tag="watch.ready", omit_defaults=True):
    """The watcher is up to date."""

    running: list[str] | None = None
    """All streams that run; None if they are too many."""
    complete: bool = True
    """False if more streams have ended meanwhile than a watch tells."""


WatchEvent = StartedStream | EndedStream | RemovedStream | LostEvents | WatchReady

_encode = msgspec.json.Encoder().encode


class Frames:
    """The frames of a watch, each with the cursor behind it as its id."""

    def __init__(self, form: BodyForm) -> None:
        self._as_lines = form is JSON_LINES

    def frames(self, item: Item, cursor: WatchCursor) -> Iterable[bytes]:
        """Yield the frames of an item; the cursor is behind it."""
        if not isinstance(item, Output):
            change = _event(item)
            name = str(change.__struct_config__.tag)
            yield self._frame(name, _encode(change), str(cursor))
            return
        before = str(cursor).rpartition(".")[0]  # the item's stream is the last there
        for number, event in enumerate(item.events, item.after + 1):
            data = encode(event)
            if b'"stream":' not in data[:60]:  # a `stream.start` has it
                data = b'{"stream":"%b",%b' % (item.stream.encode(), data[1:])
            yield self._frame(type_of(event), data, f"{before}.{number}")

    def _frame(self, name: str, data: bytes, cursor: str) -> bytes:
        data = escape_line_ends(data)
        if self._as_lines:
            return b'{"event_id":"%b",%b\n' % (cursor.encode(), data[1:])
        return b"event: %b\ndata: %b\nid: %b\n\n" % (name.encode(), data, cursor.encode())

    def retry(self, retry_ms: int) -> bytes:
        return b"" if self._as_lines else b"retry: %d\n" % retry_ms


def _event(item: Started | Ended | Removed | Lost | Ready) -> WatchEvent:
    match item:
        case Started(listed):
            return summarize(listed, StartedStream)
        case Ended(listed):
            return summarize(listed, EndedStream)
        case Removed(stream):
            return RemovedStream(stream)
        case Lost(stream):
            return LostEvents(stream)
        case Ready(running, _, complete):
            return WatchReady([*running] if len(running) <= MAX_RUNNING else None, complete)


class WatchStream(Response):
    """A response that sends what a watcher is told, until the watch is over.

    It ends whole then, since nothing is cut: the client comes back with the last id. Under our own
    server it writes to the connection; under any other, sse-starlette sends.
    """

    def __init__(
        self,
        watcher: Watcher,
        form: BodyForm,
        *,
        http_settings: HttpSettings,
        lasts_s: float,
        drain: Callable[[float], Awaitable[None]],
    ) -> None:
        self.status_code = 200
        self.background = None
        self.raw_headers = [(b"content-type", form.media_type), *HEADERS]
        self._watcher = watcher
        self._form = form
        self._frames = Frames(form)
        self._http_settings = http_settings
        self._lasts_s = lasts_s
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if connection_of(scope) is None:
                await self._serve_elsewhere(scope, receive, send)
            else:
                await self._serve(scope, send)
        finally:
            self._watcher.leave()

    async def _serve(self, scope: Scope, send: Send) -> None:
        connection, task = connection_of(scope), asyncio.current_task()
        assert connection is not None and task is not None  # noqa: S101, PT018
        connection.on_lost = task.cancel
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if scope["method"] != "HEAD" and not connection.lost:
                async with aclosing(self._pieces()) as pieces:
                    async for piece in pieces:
                        if not connection.write(piece):
                            await connection.drain()
            await send({"type": "http.response.body", "body": b""})
            return
        except asyncio.CancelledError:
            pass  # the client has disconnected, or the server waits no longer
        finally:
            connection.on_lost = None
        connection.abort()
        await asyncio.sleep(0.01)  # let the server see the loss before the app returns

    async def _serve_elsewhere(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Imported here, since the command does not need it and starts faster without.
        import anyio

        from .asgi_stream import respond

        stopping = anyio.Event()

        async def drain() -> None:
            await stopping.wait()
            await self._drain(self._http_settings.drain_s)

        draining = asyncio.ensure_future(drain())
        response = respond(
            self._pieces(),
            self.raw_headers,
            heartbeat=self._form.heartbeat,
            http_settings=self._http_settings,
            stopping=stopping,
        )
        try:
            await response(scope, receive, send)
        finally:
            draining.cancel()

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        loop, watcher = asyncio.get_running_loop(), self._watcher
        ends_at = loop.time() + self._lasts_s
        yield self._frames.retry(self._http_settings.retry(spread=False))
        while (left_s := ends_at - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(left_s, self._http_settings.heartbeat_s)):
                    item = await watcher.next()
            except TimeoutError:
                yield self._form.heartbeat
                continue
            if item is None:
                yield self._frames.retry(self._http_settings.retry(spread=True))
                return
            for piece in in_pieces(self._frames.frames(item, watcher.cursor)):
                yield piece


class StreamWatch(Endpoints):
    """The endpoint that watches."""

    async def get(self, request: Request) -> Response:
        """Send what happens to the caller's streams after the cursor, or from now on."""
        metadata, form = read_metadata(request), Writer.form
        events = read_query(request, "events")
        if events not in (None, "true"):
            raise RequestError("invalid_request", f"events: use 'true', not {events[:40]!r}")
        if read_query(request, "ping") is not None:
            form = PingWriter.form
        if prefers_json_lines(request):
            form = JSON_LINES
        cursors = [_cursor(text) for text in given_cursors(request) if text]
        principal = principal_of(request)
        lasts_s = LONGEST_S
        if principal.expires_at is not None:
            lasts_s = min(lasts_s, principal.expires_at - self._hub.clock.wall())
        try:
            watcher = await self._streams_of(request).watch(
                # The newest: a client that reconnects may still have its first one in the URL.
                max(cursors, key=lambda one: (one.running, one.ended), default=None),
                address_of(request.scope.get("client"), principal.share),
                events=events is not None,
                metadata=metadata,
            )
        except ServiceError as error:
            return try_again(request, error, self._http_settings)
        return WatchStream(
            watcher,
            form,
            http_settings=self._http_settings,
            lasts_s=lasts_s,
            drain=self._hub.drain_once,
        )


def _cursor(text: str) -> WatchCursor:
    cursor = parse_cursor(text)
    if cursor is None:
        raise RequestError("invalid_request", f"{text[:80]!r} is not the id of an event of a watch")
    return cursor


def routes(parts: HttpParts) -> list[Route]:
    return [Route("/v1/streams/watch", StreamWatch(parts).get, methods=["GET"])]
