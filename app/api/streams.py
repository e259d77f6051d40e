"""`/v1/streams/{id}`: read a stream, look at it, stop it."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.api.response import EventStream
from app.api.wire import Wire
from app.dialects.native import event_id, parse_cursor, render_result
from app.errors import RequestError, ServiceError
from app.hub import Hub


class Streams:
    """The endpoints; they hold what all their requests share."""

    def __init__(self, hub: Hub, wire: Wire) -> None:
        self._hub = hub
        self._wire = wire

    async def events(self, request: Request) -> Response:
        """Send the events after the cursor: live, again, or both."""
        stream = request.path_params["stream"]
        dialect = request.query_params.get("format", "native")
        if dialect != "native":
            raise RequestError("invalid_request", f"unknown format {dialect[:40]!r}; use 'native'")
        try:
            reader = await self._hub.attach(stream)
        except ServiceError as error:
            # EventSource gives up for good at any status but 200.
            if "text/event-stream" not in request.headers.get("accept", ""):
                raise
            retry_ms = max(self._wire.retry_ms, int((error.retry_after_s or 0) * 1000))
            return Response(f"retry: {retry_ms}\n\n", media_type="text/event-stream")
        try:
            cursor = request.headers.get("last-event-id") or request.query_params.get("after")
            after = parse_cursor(cursor, stream=stream) if cursor else 0
            state = await reader.state()
            if after > state.last:
                raise RequestError(
                    "conflict",
                    f"the stream has no event {event_id(stream, after)!r} yet; "
                    f"its last is {event_id(stream, state.last)!r}",
                )
            if state.ended and after == state.last:
                reader.leave()
                return Response(status_code=204, headers={"cache-control": "no-store"})
        except BaseException:
            reader.leave()
            raise
        return EventStream(reader, after=after, wire=self._wire)

    async def show(self, request: Request) -> Response:
        """Tell of the stream so far in one JSON object."""
        return await self._state(request.path_params["stream"], status_code=200)

    async def cancel(self, request: Request) -> Response:
        """Stop the generation; doing it twice, or too late, changes nothing."""
        stream = request.path_params["stream"]
        await self._hub.cancel(stream)
        return await self._state(stream, status_code=202)

    async def _state(self, stream: str, *, status_code: int) -> Response:
        result = render_result(stream, await self._hub.events(stream))
        return Response(
            msgspec.json.encode(result),
            status_code=status_code,
            headers={"cache-control": "no-store"},
            media_type="application/json",
        )


def routes(hub: Hub, wire: Wire) -> list[Route]:
    streams = Streams(hub, wire)
    return [
        Route("/v1/streams/{stream}/events", streams.events, methods=["GET"]),
        Route("/v1/streams/{stream}", streams.show, methods=["GET"]),
        Route("/v1/streams/{stream}/cancel", streams.cancel, methods=["POST"]),
    ]
