"""`/v1/ui/chat/{chat_id}`: a chat's running stream, for clients without its id."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.ui.client.format import CLIENT_FORMAT
from ..dialects.ui.client.request import name_of
from ..events import StreamStart
from ..generation.admission import address_of
from ..generation.hub import Hub
from ..generation.owned_streams import OwnedStream
from .event_stream import read_from
from .http_settings import HttpSettings
from .request import streams_of


class Chats:
    """The endpoints of a chat of the AI SDK."""

    def __init__(self, hub: Hub, http_settings: HttpSettings) -> None:
        self._hub = hub
        self._http_settings = http_settings

    async def resume(self, request: Request) -> Response:
        """Send the chat's last stream from its beginning, then live."""
        stream = await self._find(request, after=0)
        if stream is None:
            return _nothing()
        if stream.state.ended and await _continues(stream):
            return _nothing()
        reader = stream.attach(address_of(request.scope.get("client"))).reader
        retry_ms = self._http_settings.retry(spread=self._hub.shutdown.draining)
        return await read_from(
            reader, CLIENT_FORMAT, 0, http_settings=self._http_settings, retry_ms=retry_ms
        )

    async def stop(self, request: Request) -> Response:
        """Stop the chat's stream; idempotent."""
        stream = await self._find(request)
        if stream is not None:
            await stream.cancel()
        return _nothing()

    async def _find(self, request: Request, *, after: int | None = None) -> OwnedStream | None:
        name = name_of(request.path_params["chat"])
        return await streams_of(self._hub, request).find(name, after=after)


async def _continues(stream: OwnedStream) -> bool:
    """Return whether the stream continues a message that the page had already.

    A replay would make the client drop the earlier part of that message.
    """
    events = await stream.read_start()
    start = events[0] if events else None
    return isinstance(start, StreamStart) and bool((start.labels or {}).get("message_id"))


def _nothing() -> Response:
    return Response(status_code=204, headers={"cache-control": "no-store"})


def routes(hub: Hub, http_settings: HttpSettings) -> list[Route]:
    chats = Chats(hub, http_settings)
    # A chat's id may have any characters, an escaped slash too.
    return [
        Route("/v1/ui/chat/{chat:path}/stream", chats.resume, methods=["GET"]),
        Route("/v1/ui/chat/{chat:path}/stop", chats.stop, methods=["POST"]),
    ]
