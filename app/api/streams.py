"""`/v1/streams`: list streams; read, show, stop and delete one, download its cassette, share it."""

import time
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..cassettes.cassette import MAX_BYTES, make_head, name_of_recording, render_cassette
from ..dialects.client_format import ClientFormat, parse_frame_id
from ..dialects.client_formats import CLIENT_FORMATS
from ..dialects.native.client.format import CLIENT_FORMAT as NATIVE
from ..dialects.native.client.format import JSON_LINES, WITH_PINGS
from ..dialects.native.client.renderer import Result, Timings, event_id, render_result
from ..errors import RequestError, ServiceError
from ..eventlog import LogState
from ..eventlog.listing import ListedStream, ListPosition, parse_position
from ..events import Status, StreamEnd, StreamStart
from ..generation.cassette_recorder import spread_events, too_large
from ..generation.owned_streams import OwnedStream
from ..requests import Body
from .endpoints import Endpoints, HttpParts, document
from .http_settings import HttpSettings
from .request import (
    check_admin,
    last_event_id,
    prefers_json_lines,
    principal_of,
    read_limit,
    read_query,
    root_of,
)

CURSORS: Final = (
    "after",
    "lastEventId",
    "lastEventID",
    "last-event-id",
    "Last-Event-ID",
    "evs_last_event_id",
)
"""Names of the cursor in a query: ours, and those of libraries that set no header."""


class StreamSummary(msgspec.Struct, omit_defaults=True):
    """One stream in a list, with the fields of the stream as one object."""

    stream: str
    status: Status | Literal["running"]
    model: str
    created: int
    timings: Timings
    metadata: dict[str, str] = {}
    """The request's `metadata`, and the `chat` or `thread_id` and `run_id` of other formats."""
    last_event_id: str | None = None
    """The id of its `stream.end`."""


Summary = TypeVar("Summary", bound=StreamSummary)


class StreamList(msgspec.Struct, omit_defaults=True):
    """Streams of the caller: running ones, then ended ones; the newest first."""

    data: list[StreamSummary]
    next: str | None = None
    """The `after` of the next page; absent on the last."""


class Streams(Endpoints):
    """The endpoints of streams."""

    async def list_own(self, request: Request) -> Response:
        """List the caller's streams."""
        limit, status = read_limit(request), read_query(request, "status")
        if status not in (None, "running", "ended"):
            raise RequestError(
                "invalid_request", f"status: use 'running' or 'ended', not {status[:40]!r}"
            )
        metadata = read_metadata(request)
        after, start = read_query(request, "after", ""), ListPosition(ended=status == "ended")
        position = parse_position(after) if after else start
        if position is None or (status and position.ended != start.ended):
            raise RequestError(
                "invalid_request",
                f"after: {after[:80]!r} is not the `next` of a page of this list",
            )
        listed, position = await self._streams_of(request).list(
            position,
            limit=limit,
            running_only=status == "running",
            metadata=metadata,
        )
        entries = [summarize(one, StreamSummary) for one in listed]
        page = StreamList(entries, position and str(position))
        return document(page)

    async def events(self, request: Request) -> Response:
        """Send the events after the cursor: replayed, live, or both."""
        stream = request.path_params["stream"]
        name = read_query(request, "format", NATIVE.name)
        client_format = CLIENT_FORMATS.get(name)
        if client_format is None:
            known = ", ".join(map(repr, CLIENT_FORMATS))
            raise RequestError("invalid_request", f"unknown format {name[:40]!r}; use {known}")
        if prefers_json_lines(request):
            if client_format is not NATIVE:
                raise RequestError(
                    "invalid_request", f"accept: {name} has no NDJSON; accept text/event-stream"
                )
            client_format = JSON_LINES
        if read_query(request, "ping") is not None:
            if client_format is not NATIVE:
                raise RequestError("invalid_request", "ping: is for the native event stream only")
            client_format = WITH_PINGS
        start = read_query(request, "from")
        if start not in (None, "snapshot"):
            raise RequestError("invalid_request", f"from: use 'snapshot', not {start[:40]!r}")
        suffix = read_query(request, "suffix")
        uncounted = read_query(request, "uncounted") is not None
        if uncounted:
            check_admin(request, "uncounted: requires")
        # The newest: a client that reconnects may still have its first cursor in the URL.
        given = given_cursors(request)
        after = max((_cursor(text, client_format, stream) for text in given if text), default=None)
        if start is not None and client_format.letter:
            raise RequestError("invalid_request", "from=snapshot is for the native format only")
        try:
            return await self._read_stream(
                request,
                await self._find(
                    request, after=self._first_read(stream, client_format, after or 0)
                ),
                client_format,
                after=after or 0,
                counted=not uncounted,
                # A reader with a cursor has received its snapshot.
                snapshot=start is not None and after is None,
                suffix=suffix is not None,
            )
        except ServiceError as error:
            return try_again(request, error, self._http_settings)

    async def show(self, request: Request) -> Response:
        """Return the stream so far as one JSON object."""
        return document(await _show(await self._find(request, after=0)))

    async def cancel(self, request: Request) -> Response:
        """Stop the generation; idempotent."""
        as_operator = read_query(request, "operator") is not None
        if as_operator:
            check_admin(request, "operator: requires")
        stream = await self._find(request)
        await stream.cancel(as_operator=as_operator)
        if not stream.readable:
            return document({"id": stream.id}, status_code=202)
        return document(await _show(await self._find(request, after=0)), status_code=202)

    async def delete(self, request: Request) -> Response:
        """Stop the generation and delete the stream."""
        await (stream := await self._find(request)).delete()
        self._checkpoints.forget(stream.id)
        return Response(status_code=204, headers={"cache-control": "no-store"})

    async def cassette(self, request: Request) -> Response:
        """Return the stream, as far as it is, as a file that can be replayed."""
        stream = await self._find(request, after=0)
        info, state, events = await stream.info(), stream.state, await stream.events()
        model = next((one.model for one in events if isinstance(one, StreamStart)), info.route)
        head = make_head(model, request_digest=info.request_digest, measured_from=None)
        seconds = (state.ended_at or time.time()) - state.started_at
        data = render_cassette(head, spread_events(events, seconds=seconds))
        if len(data) > MAX_BYTES:
            raise too_large()
        name = f"{name_of_recording(model, info.request_digest)}.jsonl"
        headers = {
            "cache-control": "no-store",
            "content-disposition": f'attachment; filename="{name}"',
        }
        return Response(data, headers=headers, media_type="application/jsonl")

    async def _find(self, request: Request, *, after: int | None = None) -> OwnedStream:
        streams = self._streams_of(request)
        return await streams.get(request.path_params["stream"], after=after)


def read_metadata(request: Request) -> tuple[str, str] | None:
    """Return the key and value of metadata that a query asks for, if any.

    Raises:
        RequestError: `invalid_request`.
    """
    wanted = read_query(request, "metadata")
    key, colon, value = (wanted or "").partition(":")
    if wanted is not None and not (key and colon):
        raise RequestError("invalid_request", f"metadata: use 'key:value', not {wanted[:40]!r}")
    return None if wanted is None else (key, value)


def given_cursors(request: Request) -> list[str | None]:
    """Return the cursors that a request may have."""
    given = [read_query(request, name) for name in CURSORS if name in request.query_params]
    return [last_event_id(request), *given]


def try_again(request: Request, error: ServiceError, http_settings: HttpSettings) -> Response:
    """Return an answer after which an EventSource tries again, which it does after 200 only.

    Raises:
        ServiceError: the client is none.
    """
    sse = "text/event-stream" in request.headers.get("accept", "")
    if prefers_json_lines(request) or not sse:
        raise error
    retry_ms = http_settings.retry(spread=True, least_s=error.retry_after_s or 0)
    return Response(f"retry: {retry_ms}\n\n", media_type="text/event-stream")


def summarize(listed: ListedStream, kind: type[Summary]) -> Summary:
    """Return an entry of a list."""
    stream, ended_at = listed.stream, listed.ended_at
    return kind(
        stream,
        listed.status or "running",
        model=listed.model,
        created=int(listed.started_at),
        timings=Timings(round(listed.started_at, 3), ended_at and round(ended_at, 3)),
        metadata=listed.metadata,
        last_event_id=event_id(stream, listed.last) if listed.last else None,
    )


async def _show(stream: OwnedStream) -> Result:
    """Return the stream so far."""
    state = stream.state
    events = await stream.events()
    if not state.ended and events and isinstance(events[-1], StreamEnd):
        state = await stream.look()
    timings = Timings(round(state.started_at, 3), state.ended_at and round(state.ended_at, 3))
    last = state.last if state.kept is not None and len(events) > state.kept else None
    return render_result(stream.id, events, timings=timings, last=last)


def _cursor(text: str, client_format: ClientFormat, stream: str) -> int:
    named, number = parse_frame_id(text, letter=client_format.letter)
    if named not in (None, stream):
        raise RequestError("invalid_request", f"{text[:80]!r} is the id of another stream's event")
    return number


DEFAULT_S: Final = 86_400
"""The default lifetime of a link, unless its stream is deleted before."""

EXAMPLE: Final = '{"expires_in_s": 3600}'


class ShareOptions(Body, frozen=True):
    """The options of a link."""

    expires_in_s: Annotated[float, Meta(ge=1, le=31_536_000)] | None = None
    format: str | None = None


class ShareLink(msgspec.Struct):
    """A link by which others can read a stream."""

    url: str
    page_url: str
    token: str | None
    expires_at: int
    limited_by: str


_options = msgspec.json.Decoder(ShareOptions)


class ShareLinks(Endpoints):
    """The endpoint that makes share links."""

    async def post(self, request: Request) -> Response:
        """Make a link to a stream of the caller's."""
        principal = principal_of(request)
        if principal.stream is not None:
            raise RequestError(
                "forbidden",
                "share links cannot create share links; use the credential that started the stream",
            )
        stream = await self._streams_of(request).get(request.path_params["stream"])
        if stream.state.owner != principal.owner:  # an admin, whose link would not reach it
            raise RequestError("forbidden", "only the owner of a stream can share it")
        options = await self._read_options(request, _options, example=EXAMPLE)
        if options.format is not None and options.format not in CLIENT_FORMATS:
            known = ", ".join(map(repr, CLIENT_FORMATS))
            raise RequestError(
                "invalid_request", f"format: unknown format {options.format[:40]!r}; use {known}"
            )
        now = self._hub.clock.wall()
        expires_at, limited_by = now + (options.expires_in_s or DEFAULT_S), "expires_in_s"
        readable_until = self._readable_until(stream.state, now)
        if readable_until < expires_at:
            expires_at, limited_by = readable_until, "retention_s"
        token = None
        if principal.owner and self._tokens is not None:
            latest = self._tokens.latest(principal, expires_at)
            if latest < expires_at:
                expires_at, limited_by = latest, "key"
            token = self._tokens.make_stream_token(
                principal, stream.id, may="watch", expires_at=expires_at
            )
        query = {"format": options.format, "token": token}
        parameters = "&".join(f"{name}={value}" for name, value in query.items() if value)
        root = root_of(request.scope)
        link = ShareLink(
            url=f"{root}/v1/streams/{stream.id}/events" + (f"?{parameters}" if parameters else ""),
            # Browsers do not send a fragment, so it is in no log.
            page_url=f"{root}/#watch={stream.id}" + (f"&token={token}" if token else ""),
            token=token,
            expires_at=int(expires_at),
            limited_by=limited_by,
        )
        return document(link)

    def _readable_until(self, state: LogState, now: float) -> float:
        """Return the latest time at which a stream can be read."""
        ends_at = state.started_at + self._http_settings.longest_s
        if state.ended:
            ends_at = state.ended_at or now
        return ends_at + self._http_settings.retention_s


def routes(parts: HttpParts) -> list[Route]:
    streams, links = Streams(parts), ShareLinks(parts)
    return [
        Route("/v1/streams", streams.list_own, methods=["GET"]),
        Route("/v1/streams/{stream}/events", streams.events, methods=["GET"]),
        Route("/v1/streams/{stream}", streams.show, methods=["GET"]),
        Route("/v1/streams/{stream}", streams.delete, methods=["DELETE"]),
        Route("/v1/streams/{stream}/cancel", streams.cancel, methods=["POST"]),
        Route("/v1/streams/{stream}/cassette", streams.cassette, methods=["POST"]),
        Route("/v1/streams/{stream}/share", links.post, methods=["POST"]),
    ]
