"""`POST /v1/streams/{id}/cassette`: a stream as a text file that can be replayed."""

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..cassettes.cassette import MAX_BYTES, file_name_of, make_head, render_cassette
from ..events import StreamStart
from ..generation.cassette_recorder import spread_events, too_large
from .endpoints import Endpoints, HttpParts


class CassetteDownload(Endpoints):
    """The endpoint that returns cassettes."""

    async def post(self, request: Request) -> Response:
        """Return a stream of the caller's, as far as it is, as a cassette."""
        stream = await self._streams_of(request).get(request.path_params["stream"], after=0)
        info, state, events = await stream.info(), stream.state, await stream.events()
        model = next((one.model for one in events if isinstance(one, StreamStart)), info.route)
        head = make_head(model, request_digest=info.request_digest, measured_from=None)
        seconds = (state.ended_at or time.time()) - state.started_at
        data = render_cassette(head, spread_events(events, seconds=seconds))
        if len(data) > MAX_BYTES:
            raise too_large()
        name = f"{file_name_of(model)}.jsonl"
        headers = {
            "cache-control": "no-store",
            "content-disposition": f'attachment; filename="{name}"',
        }
        return Response(data, headers=headers, media_type="application/jsonl")


def routes(parts: HttpParts) -> list[Route]:
    return [
        Route("/v1/streams/{stream}/cassette", CassetteDownload(parts).post, methods=["POST"]),
    ]
