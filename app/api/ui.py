"""`/v1/ui/chat/{chat_id}`: a chat's running stream, for clients without its id."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.client_format import name_of_chat
from ..dialects.ui.client.format import CLIENT_FORMAT
from ..events import StreamStart
from ..generation.owned_streams import OwnedStream
from .endpoints import Endpoints, HttpParts


class Chats(Endpoints):
    """The endpoints of a chat of the AI SDK."""

    async def resume(self, request: Request) -> Response:
        """Send the chat's last stream from its beginning, then live, unless a client has it all."""
        stream = await self._find(request)
        if stream is not None and await self._deliveries.settle(stream.id):
            stream = await self._find(request)
        if stream is None:
            return _nothing()
        if stream.state.ended and await _continues(stream):
            return _nothing()
        return await self._read_stream(request, stream, CLIENT_FORMAT, after=0)

    async def stop(self, request: Request) -> Response:
        """Stop all running streams of the chat; idempotent."""
        name = name_of_chat(request.path_params["chat"])
        await self._streams_of(request).cancel_named(name)
        return _nothing()

    async def _find(self, request: Request) -> OwnedStream | None:
        name = name_of_chat(request.path_params["chat"])
        return await self._streams_of(request).find(name, after=0)


async def _continues(stream: OwnedStream) -> bool:
    """Return whether the stream continues a message that the page had already.

    A replay would make the client drop the earlier part of that message.
    """
    events = await stream.read_start()
    start = events[0] if events else None
    return isinstance(start, StreamStart) and bool((start.labels or {}).get("message_id"))


def _nothing() -> Response:
    return Response(status_code=204, headers={"cache-control": "no-store"})


def routes(parts: HttpParts) -> list[Route]:
    chats = Chats(parts)
    # A chat's id may have any characters, an escaped slash too.
    return [
        Route("/v1/ui/chat/{chat:path}/stream", chats.resume, methods=["GET"]),
        Route("/v1/ui/chat/{chat:path}/stop", chats.stop, methods=["POST"]),
    ]
