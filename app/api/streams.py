"""`/v1/streams/{id}`: read, show, stop and delete a stream."""

from hashlib import sha256
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.client_format import ClientFormat, parse_frame_id
from ..dialects.client_formats import CLIENT_FORMATS
from ..dialects.native.client.renderer import Timings, render_result
from ..errors import RequestError, ServiceError
from ..events import StreamEnd
from ..generation.admission import address_of
from ..generation.hub import Hub
from ..generation.owned_streams import OwnedStream
from .event_stream import first_read, read_from
from .http_settings import HttpSettings
from .request import check_admin, last_event_id, read_query, streams_of

CURSORS: Final = (
    "after",
    "lastEventId",
    "lastEventID",
    "last-event-id",
    "Last-Event-ID",
    "evs_last_event_id",
)
"""Names of the cursor in a query: ours, and those of libraries that set no header."""

NO_STORE: Final = {"cache-control": "no-store"}
"""No cache may store an answer; clients may store it with its tag themselves."""


class Streams:
    """The endpoints of streams."""

    def __init__(self, hub: Hub, http_settings: HttpSettings) -> None:
        self._hub = hub
        self._http_settings = http_settings

    async def events(self, request: Request) -> Response:
        """Send the events after the cursor: replayed, live, or both."""
        stream = request.path_params["stream"]
        name = read_query(request, "format", "native")
        client_format = CLIENT_FORMATS.get(name)
        if client_format is None:
            known = ", ".join(map(repr, CLIENT_FORMATS))
            raise RequestError("invalid_request", f"unknown format {name[:40]!r}; use {known}")
        start = read_query(request, "from")
        if start not in (None, "snapshot"):
            raise RequestError("invalid_request", f"from: use 'snapshot', not {start[:40]!r}")
        suffix = read_query(request, "suffix")
        uncounted = read_query(request, "uncounted") is not None
        if uncounted:
            check_admin(request, "uncounted: requires")
        given = [last_event_id(request), *(read_query(request, name) for name in CURSORS)]
        # The newest: a client that reconnects may still have its first cursor in the URL.
        after = max((_cursor(text, client_format, stream) for text in given if text), default=None)
        if start is not None and client_format.letter:
            raise RequestError("invalid_request", "from=snapshot is for the native format only")
        try:
            address = address_of(request.scope.get("client"))
            read_after = first_read(client_format, after or 0)
            found = await streams_of(self._hub, request).get(stream, after=read_after)
            reader = found.attach(address, counted=not uncounted).reader
            # A reader with a cursor has received its snapshot.
            return await read_from(
                reader,
                client_format,
                after or 0,
                http_settings=self._http_settings,
                retry_ms=self._http_settings.retry(spread=self._hub.shutdown.draining),
                snapshot=start is not None and after is None,
                suffix=suffix is not None,
            )
        except ServiceError as error:
            # EventSource stops reconnecting at any status but 200.
            if "text/event-stream" not in request.headers.get("accept", ""):
                raise
            retry_ms = self._http_settings.retry(spread=True, least_s=error.retry_after_s or 0)
            return Response(f"retry: {retry_ms}\n\n", media_type="text/event-stream")

    async def show(self, request: Request) -> Response:
        """Return the stream so far as one JSON object, with a tag once it has ended."""
        body, ended = await _show(await self._find(request, after=0))
        if not ended:
            return _json(body)
        # Of the bytes: another version of the relay may render the same stream differently.
        tag = f'"{sha256(body).hexdigest()[:32]}"'
        if {tag, "*"} & _tags(request):
            return Response(status_code=304, headers={**NO_STORE, "etag": tag})
        return _json(body, etag=tag)

    async def cancel(self, request: Request) -> Response:
        """Stop the generation; idempotent."""
        as_operator = read_query(request, "operator") is not None
        if as_operator:
            check_admin(request, "operator: requires")
        stream = await self._find(request)
        await stream.cancel(as_operator=as_operator)
        if not stream.readable:
            return _json(msgspec.json.encode({"id": stream.id}), status_code=202)
        body, _ = await _show(await self._find(request, after=0))
        return _json(body, status_code=202)

    async def delete(self, request: Request) -> Response:
        """Stop the generation and delete the stream."""
        await (await self._find(request)).delete()
        return Response(status_code=204, headers=NO_STORE)

    async def _find(self, request: Request, *, after: int | None = None) -> OwnedStream:
        streams = streams_of(self._hub, request)
        return await streams.get(request.path_params["stream"], after=after)


async def _show(stream: OwnedStream) -> tuple[bytes, bool]:
    """Return the stream so far as JSON, and whether it has ended."""
    state = stream.state
    events = await stream.events()
    if not state.ended and events and isinstance(events[-1], StreamEnd):
        state = await stream.look()
    timings = Timings(round(state.started_at, 3), state.ended_at and round(state.ended_at, 3))
    last = state.last if state.kept is not None and len(events) > state.kept else None
    result = render_result(stream.id, events, timings=timings, last=last)
    return msgspec.json.encode(result), state.ended


def _json(body: bytes, *, status_code: int = 200, **headers: str) -> Response:
    return Response(body, status_code, {**NO_STORE, **headers}, media_type="application/json")


def _tags(request: Request) -> set[str]:
    """Return the tags of `If-None-Match`, by the weak comparison of RFC 9110, 13.1.2."""
    given = ",".join(request.headers.getlist("if-none-match"))
    return {tag.strip(" \t").removeprefix("W/") for tag in given.split(",")}


def _cursor(text: str, client_format: ClientFormat, stream: str) -> int:
    named, number = parse_frame_id(text, letter=client_format.letter)
    if named not in (None, stream):
        raise RequestError("invalid_request", f"{text[:80]!r} is the id of another stream's event")
    return number


def routes(hub: Hub, http_settings: HttpSettings) -> list[Route]:
    streams = Streams(hub, http_settings)
    return [
        Route("/v1/streams/{stream}/events", streams.events, methods=["GET"]),
        Route("/v1/streams/{stream}", streams.show, methods=["GET"]),
        Route("/v1/streams/{stream}", streams.delete, methods=["DELETE"]),
        Route("/v1/streams/{stream}/cancel", streams.cancel, methods=["POST"]),
    ]
