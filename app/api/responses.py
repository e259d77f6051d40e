"""OpenAI's endpoints for responses: `/v1/responses`, and each response by its id."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.client_format import ClientFormat, MessageWriter, ParsedRequest
from ..dialects.openai_responses.client.compaction import (
    parse_compaction,
    read_compaction,
    render_compaction,
)
from ..dialects.openai_responses.client.format import CLIENT_FORMAT
from ..dialects.openai_responses.client.renderer import MessageRenderer
from ..dialects.openai_responses.client.result import (
    BACKGROUND,
    ECHO,
    is_response_id,
    name_of,
    render_result,
)
from ..dialects.openai_responses.client.stored import (
    Item,
    name_of_items,
    show_item,
)
from ..errors import RequestError
from ..events import Event, StreamStart
from ..generation.owned_streams import OwnedStream, OwnedStreams
from ..generation.runs import Opened
from ..policies.admission import RequestMemory
from .endpoints import Endpoints, HttpParts, document
from .generation import Generation, StoredRequest
from .request import AS_MESSAGES, read_limit, read_query
from .stored_responses import StoredResponses

_MESSAGES = CLIENT_FORMAT._replace(numbered_writer=MessageWriter, renderer=MessageRenderer)


class Create(Generation):
    """The endpoint that starts responses; it does not wait for one in the background."""

    def __init__(self, parts: HttpParts) -> None:
        super().__init__(parts, CLIENT_FORMAT)
        self._stored = StoredResponses(parts.settings, wall=parts.hub.clock.wall)

    async def _parse(
        self, streams: OwnedStreams, body: bytes, *, memory: RequestMemory
    ) -> tuple[ParsedRequest, StoredRequest | None]:
        resolved = await self._stored.resolve(streams, body, memory=memory)
        parsed = CLIENT_FORMAT.parse_request(resolved.body)
        if resolved.previous is not None:
            parsed = _echo_previous(parsed, resolved.previous)
        return parsed, StoredRequest(resolved.stored, name_of_items) if resolved.stored else None

    def _accepted_format(self, request: Request) -> ClientFormat:
        return _MESSAGES if AS_MESSAGES in request.scope else self._client_format

    def _answers_at_once(self, parsed: ParsedRequest) -> bool:
        return BACKGROUND in parsed.labels and not parsed.chat.streams

    async def _result(
        self, request: Request, opened: Opened, *, linger_s: float | None
    ) -> Response:
        reader = opened.reader
        begun = await reader.read(0, timeout_s=self._http_settings.body_timeout_s)
        if not _is_background(begun):
            return await super()._result(request, opened, linger_s=linger_s)
        reader.leave()
        response = _show(reader.stream, begun)
        response.headers.update(self._stream_headers(opened))
        return response


class Compact(Create):
    """One request to compact a conversation: a response that is not stored, in another form."""

    async def _parse(
        self, streams: OwnedStreams, body: bytes, *, memory: RequestMemory
    ) -> tuple[ParsedRequest, StoredRequest | None]:
        resolved = await self._stored.resolve(streams, read_compaction(body), memory=memory)
        parsed, kept_items = parse_compaction(resolved.body)
        self._client_format = CLIENT_FORMAT._replace(
            render_result=partial(render_compaction, kept_items)
        )
        return parsed, None

    def _digest(self, request: Request, body: bytes) -> str:
        return super()._digest(request, b"compact\0" + body)


class Responses(Endpoints):
    """The endpoints of one response."""

    def __init__(self, parts: HttpParts) -> None:
        super().__init__(parts)
        self._stored = StoredResponses(parts.settings, wall=parts.hub.clock.wall)

    async def retrieve(self, request: Request) -> Response:
        """Return a response, or stream it from its beginning or after a sequence number."""
        last = read_query(request, "starting_after")
        if read_query(request, "stream", "").lower() == "true":
            after = _cursor(last)
            # A resume needs the first events only if it has no checkpoint.
            found = await self._find(request, after=None if after else 0)
            return await self._events(request, found, after)
        stream = await self._find(request, after=0)
        result = render_result(stream.id, await stream.events())
        if result["store"] is False and not result["background"]:
            raise _not_found(request)
        return _json(result, stream=stream.id)

    async def list_input(self, request: Request) -> Response:
        """List the input items of a response, those of earlier turns first."""
        streams = self._streams_of(request)
        items = await self._stored.list_input(streams, await self._find(request))
        if items is None:
            raise _not_found(request)
        return _json(_page(items, request))

    async def cancel(self, request: Request) -> Response:
        """Stop a response; idempotent."""
        stream = await self._find(request)
        await stream.cancel()
        return _show(stream.id, await stream.events())

    async def delete(self, request: Request) -> Response:
        """Stop a response and delete it."""
        await (stream := await self._find(request)).delete()
        self._checkpoints.forget(stream.id)
        body = {"id": request.path_params["response_id"], "object": "response", "deleted": True}
        return _json(body)

    async def _find(self, request: Request, *, after: int | None = None) -> OwnedStream:
        """Find the stream that was started as the response of the path.

        Raises:
            RequestError: `not_found`, there is none, or it is deleted.
        """
        response = request.path_params["response_id"]
        streams = self._streams_of(request)
        name = name_of(response)
        stream = await streams.find(name, after=after) if is_response_id(response) else None
        if stream is None:
            raise _not_found(request)
        return stream

    async def _events(self, request: Request, stream: OwnedStream, after: int) -> Response:
        response = await self._read_stream(request, stream, CLIENT_FORMAT, after=after)
        if response.status_code == 204:
            # The official clients do not accept a 204 for a stream.
            return Response(media_type="text/event-stream", headers=dict(response.headers))
        return response


def _echo_previous(parsed: ParsedRequest, response: str) -> ParsedRequest:
    """Add `previous_response_id` to the fields that the response echoes."""
    echo = msgspec.json.decode(parsed.labels.get(ECHO, "{}")) | {"previous_response_id": response}
    labels = {**parsed.labels, ECHO: msgspec.json.encode(echo).decode()}
    return msgspec.structs.replace(parsed, labels=labels)


def _not_found(request: Request) -> RequestError:
    response = request.path_params["response_id"]
    return RequestError("not_found", f"Response with id {response[:80]!r} not found.")


def _page(items: list[Item], request: Request) -> dict[str, Any]:
    """Return the page of items that the query asks for, by default the last items first.

    Raises:
        RequestError: `invalid_request`, a parameter is not valid.
    """
    limit = read_limit(request)
    order = read_query(request, "order", "desc")
    if order not in ("asc", "desc"):
        raise RequestError("invalid_request", f"order: {order[:20]!r} is neither 'asc' nor 'desc'")
    listed = items if order == "asc" else items[::-1]
    begin, after = 0, read_query(request, "after")
    if after:
        indexes = {item.id: index for index, item in enumerate(listed)}
        if after not in indexes:
            raise RequestError("invalid_request", f"after: there is no item {after[:80]!r}")
        begin = indexes[after] + 1
    end = begin + limit
    data = [show_item(item) for item in listed[begin:end]]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": end < len(listed),
    }


def _cursor(sequence_number: str | None) -> int:
    """Return the number of the last frame seen; sequence numbers start at 0."""
    if sequence_number is None:
        return 0
    if not sequence_number.isdecimal() or len(sequence_number) > 15:
        raise RequestError(
            "invalid_request", f"starting_after: {sequence_number[:40]!r} is no sequence number"
        )
    return int(sequence_number) + 1


def _is_background(events: Sequence[Event]) -> bool:
    start = events[0] if events else None
    return isinstance(start, StreamStart) and BACKGROUND in (start.labels or {})


def _show(stream: str, events: Sequence[Event]) -> Response:
    return _json(render_result(stream, events), stream=stream)


def _json(body: object, *, stream: str | None = None) -> Response:
    return document(body, headers={"stream-id": stream} if stream else {})


def routes(parts: HttpParts) -> list[Route]:
    responses = Responses(parts)

    async def compact(request: Request) -> Response:
        return await Compact(parts).post(request)

    path = "/v1/responses/{response_id}"
    return [
        Route("/v1/responses", Create(parts).post, methods=["POST"]),
        Route("/v1/responses/compact", compact, methods=["POST"]),
        Route(path, responses.retrieve, methods=["GET"]),
        Route(path, responses.delete, methods=["DELETE"]),
        Route(f"{path}/input_items", responses.list_input, methods=["GET"]),
        Route(f"{path}/cancel", responses.cancel, methods=["POST"]),
    ]
