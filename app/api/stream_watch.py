"""`GET /v1/streams/watch`: starts, ends and events of the caller's streams as they happen."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..dialects.client_format import JSON_LINES, BodyForm
from ..dialects.native.client.renderer import PingWriter, Writer
from ..errors import RequestError, ServiceError
from ..eventlog.listing import ListedStream
from ..events import encode, type_of
from ..framing.ndjson import escape_line_ends
from ..generation.watching import (
    EventsLost,
    Item,
    Output,
    StreamRemoved,
    WatchCursor,
    Watcher,
    WatchReady,
    parse_cursor,
)
from ..policies.admission import address_of
from .endpoints import Endpoints, HttpParts
from .event_stream import HEADERS, in_pieces
from .http_settings import HttpSettings
from .request import connection_of, prefers_json_lines, principal_of, read_query
from .streams import StreamSummary, given_cursors, read_metadata, summarize, try_again

if TYPE_CHECKING:
    import anyio

LONGEST_S: Final = 900.0
"""After which a watch ends and its client comes back: a credential may be revoked meanwhile."""


class StartedStream(StreamSummary, tag_field="type", tag="stream.started"):
    """A stream has started, or ran when the watch began."""


class EndedStream(StreamSummary, tag_field="type", tag="stream.ended"):
    """A stream has ended."""


WatchEvent = StartedStream | EndedStream | StreamRemoved | EventsLost | WatchReady


def _frames(item: Item, cursor: WatchCursor, form: BodyForm) -> Iterator[bytes]:
    """Yield the frames of an item, each with the cursor behind it as its id."""
    for name, data, cursor_id in _messages(item, str(cursor)):
        line = escape_line_ends(data)
        if form is JSON_LINES:
            yield b'{"event_id":"%b",%b\n' % (cursor_id.encode(), line[1:])
        else:
            yield b"event: %b\ndata: %b\nid: %b\n\n" % (name.encode(), line, cursor_id.encode())


def _messages(item: Item, cursor: str) -> Iterator[tuple[str, bytes, str]]:
    """Yield the type, data and id of each event of an item."""
    if isinstance(item, Output):
        before = cursor.rpartition(".")[0]  # the item's stream is the last there
        for number, event in enumerate(item.events, item.after + 1):
            data, name = encode(event), type_of(event)
            if name != "stream.start":  # which has it
                data = b'{"stream":"%b",%b' % (item.stream.encode(), data[1:])
            yield name, data, f"{before}.{number}"
        return
    change: WatchEvent
    if not isinstance(item, ListedStream):
        change = item
    elif item.position.ended:
        change = summarize(item, EndedStream)
    else:
        change = summarize(item, StartedStream)
    yield str(change.__struct_config__.tag), msgspec.json.encode(change), cursor


class WatchStream(Response):
    """A response that sends what a watcher is told, until the watch is over.

    It ends whole then, since nothing is cut: the client comes back with the last id.
    """

    def __init__(
        self, watcher: Watcher, form: BodyForm, *, http_settings: HttpSettings, lasts_s: float
    ) -> None:
        self.status_code = 200
        self.background = None
        self.raw_headers = [(b"content-type", form.media_type), *HEADERS]
        self._watcher = watcher
        self._form = form
        self._http_settings = http_settings
        self._lasts_s = lasts_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Imported here, since the command does not need them and starts faster without.
        import anyio
        from starlette.responses import StreamingResponse

        stopping = anyio.Event()
        beats_s = self._http_settings.heartbeat_s
        response: Response = StreamingResponse(self._pieces(beats_s))
        response.raw_headers = self.raw_headers
        if connection_of(scope) is None:  # no other server tells `Hub.drain` that it stops
            from .asgi_stream import respond

            response = respond(
                self._pieces(None),  # sse-starlette sends heartbeats
                self.raw_headers,
                heartbeat=self._form.heartbeat,
                http_settings=self._http_settings,
                stopping=stopping,
            )
        closing = asyncio.ensure_future(self._close_at(stopping))
        try:
            await response(scope, receive, send)
        finally:
            closing.cancel()
            self._watcher.leave()

    async def _close_at(self, stopping: "anyio.Event") -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._lasts_s):
                await stopping.wait()
        self._watcher.close()

    async def _pieces(self, beats_s: float | None) -> AsyncIterator[bytes]:
        first = self._retry(spread=False)
        while True:
            try:
                async with asyncio.timeout(beats_s):
                    item = await self._watcher.next()
            except TimeoutError:
                yield self._form.heartbeat
                continue
            if item is None:
                yield self._retry(spread=True)
                return
            for piece in in_pieces(_frames(item, self._watcher.cursor, self._form)):
                yield first + piece
                first = b""

    def _retry(self, *, spread: bool) -> bytes:
        retry_ms = self._http_settings.retry(spread=spread)
        return b" " if self._form is JSON_LINES else b"retry: %d\n" % retry_ms


class StreamWatch(Endpoints):
    """The endpoint that watches."""

    async def get(self, request: Request) -> Response:
        """Send what happens to the caller's streams after the cursor, or from now on."""
        metadata, events = read_metadata(request), read_query(request, "events")
        if events not in (None, "true"):
            raise RequestError("invalid_request", f"events: use 'true', not {events[:40]!r}")
        form = PingWriter.form if read_query(request, "ping") is not None else Writer.form
        cursors = [_cursor(text) for text in given_cursors(request) if text]
        principal, lasts_s = principal_of(request), LONGEST_S
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
            JSON_LINES if prefers_json_lines(request) else form,
            http_settings=self._http_settings,
            lasts_s=lasts_s,
        )


def _cursor(text: str) -> WatchCursor:
    if (cursor := parse_cursor(text)) is None:
        raise RequestError("invalid_request", f"{text[:80]!r} is not the id of an event of a watch")
    return cursor


def routes(parts: HttpParts) -> list[Route]:
    return [Route("/v1/streams/watch", StreamWatch(parts).get, methods=["GET"])]
