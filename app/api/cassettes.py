"""`POST /v1/streams/{id}/cassette`: a stream as a text file that can be replayed."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..cassettes.cassette import (
    MAX_BYTES,
    CassetteHead,
    file_name_of,
    make_head,
    render_event,
    render_head,
    render_tape,
)
from ..errors import RelayError
from ..eventlog import LogState
from ..events import Event, StreamStart
from ..generation.admission import address_of
from ..generation.cassette_recorder import READ_S, follow, spread_events, too_large
from ..generation.hub import Hub
from ..generation.readers import Reader
from ..requests import Body
from .body import read_options
from .client_connection import connection_of
from .http_settings import HttpSettings
from .request import streams_of

EXAMPLE: Final = '{"follow": true}'
MEDIA_TYPE: Final = "application/jsonl"


class CassetteOptions(Body, frozen=True):
    """The options of a cassette."""

    follow: bool | None = None
    """Whether to wait for the end of a running stream, and to measure its times."""


log = structlog.get_logger("seseragi.cassettes")

_options = msgspec.json.Decoder(CassetteOptions)


class CassetteDownload:
    """The endpoint that returns cassettes."""

    def __init__(self, hub: Hub, http_settings: HttpSettings) -> None:
        self._hub = hub
        self._http_settings = http_settings

    async def post(self, request: Request) -> Response:
        """Return a stream of the caller's as a cassette."""
        streams = streams_of(self._hub, request)
        stream = await streams.get(request.path_params["stream"], after=0)
        record = await stream.info()
        options = await read_options(
            request, self._hub, http_settings=self._http_settings, decoder=_options, example=EXAMPLE
        )
        state = stream.state
        events = await stream.events()
        model = next((one.model for one in events if isinstance(one, StreamStart)), record.route)
        make = partial(make_head, model, request_digest=record.request_digest)
        headers = _headers(model)
        if options.follow and not state.ended:
            head = make(measured_from=len(events) + 1)
            address = address_of(request.scope.get("client"))
            return _Following(
                stream.attach(address).reader, head, events=events, state=state, headers=headers
            )
        seconds = (state.ended_at or time.time()) - state.started_at
        data = render_tape(make(measured_from=None), spread_events(events, seconds=seconds))
        if len(data) > MAX_BYTES:
            raise too_large()
        return Response(data, headers=headers, media_type=MEDIA_TYPE)


class _Following(StreamingResponse):
    """A cassette sent while its stream runs; it counts as a reader, and its size is bounded.

    A body that ends before the `stream.end` is a recording that was cut short.
    """

    def __init__(
        self,
        reader: Reader,
        head: CassetteHead,
        events: Sequence[Event],
        state: LogState,
        headers: Mapping[str, str],
    ) -> None:
        self._reader = reader
        super().__init__(
            self._lines(head, events, state.started_at), headers=headers, media_type=MEDIA_TYPE
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except RelayError as error:  # it is too large, or the log has failed
            log.info("cassette cut off", code=error.code, reason=error.message)
            connection = connection_of(scope)
            if connection is None:
                raise
            connection.abort()
            await asyncio.sleep(0.01)  # let the server see the loss before the app returns
        finally:
            self._reader.leave()

    async def _lines(
        self, head: CassetteHead, events: Sequence[Event], started_at: float
    ) -> AsyncIterator[bytes]:
        async def read(after: int) -> Sequence[Event]:
            return await self._reader.read(after, timeout_s=READ_S)

        yield render_head(head)
        size = 0
        async for batch in follow(read, events, started_at=started_at):
            lines = b"".join(render_event(event, at) for at, event in batch)
            size += len(lines)
            if size > MAX_BYTES:
                raise too_large()
            yield lines


def _headers(model: str) -> dict[str, str]:
    name = f"{file_name_of(model)}.jsonl"
    return {"cache-control": "no-store", "content-disposition": f'attachment; filename="{name}"'}


def routes(hub: Hub, http_settings: HttpSettings) -> list[Route]:
    return [
        Route(
            "/v1/streams/{stream}/cassette",
            CassetteDownload(hub, http_settings).post,
            methods=["POST"],
        )
    ]
