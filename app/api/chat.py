"""`POST /v1/chat`: start a generation and answer in native events."""

import asyncio
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from app.api.body import disconnected, read_json
from app.api.problems import problem
from app.api.response import EventStream
from app.api.wire import Wire
from app.dialects.native import render_result
from app.errors import RelayError
from app.events import StreamEnd
from app.hub import Hub, Reader
from app.relay import Relay
from app.requests import ChatRequest, parse_chat_request


class Chat:
    """The endpoint; it holds what all its requests share."""

    def __init__(self, hub: Hub, wire: Wire) -> None:
        self._hub = hub
        self._wire = wire

    async def post(self, request: Request) -> Response:
        try:
            body = await read_json(
                request,
                max_bytes=self._wire.max_request_bytes,
                timeout_s=self._wire.body_timeout_s,
            )
        except ClientDisconnect:
            return _nobody()
        chat = parse_chat_request(body)
        respond_async = _prefers_async(request)
        relay, reader = await self._hub.start(
            chat, linger_s=self._linger_s(chat, respond_async=respond_async)
        )
        if respond_async:
            reader.leave()
            return _accepted(relay.stream)
        try:
            if chat.stream:
                return await self._stream(request, relay, reader)
            return await self._result(request, relay, reader)
        except BaseException:
            reader.leave()
            raise

    def _linger_s(self, chat: ChatRequest, *, respond_async: bool) -> float | None:
        match chat.on_disconnect:
            case "continue":
                return None
            case "cancel":
                return 0
            case None:
                return self._wire.linger_s if respond_async else 0
            case seconds:
                return seconds

    async def _stream(self, request: Request, relay: Relay, reader: Reader) -> Response:
        """Hold the status until the outcome is known, or the gate's time is over."""
        if not await _first(request, relay.committed, timeout_s=self._wire.gate_s):
            reader.leave()
            return _nobody()
        if relay.committed.done() and (error := relay.committed.result()) is not None:
            reader.leave()
            return _failed(error, request, relay)
        return EventStream(reader, after=0, wire=self._wire)

    async def _result(self, request: Request, relay: Relay, reader: Reader) -> Response:
        """Wait for the end and answer with the whole."""
        end = asyncio.ensure_future(_wait_end(reader))
        try:
            stayed = await _first(request, end, timeout_s=None)
        finally:
            end.cancel()
            reader.leave()
        if not stayed:
            return _nobody()
        result = render_result(relay.stream, await self._hub.events(relay.stream))
        if result.error is not None:
            return _failed(RelayError.of(result.error), request, relay)
        return Response(
            msgspec.json.encode(result),
            headers={"cache-control": "no-store", "stream-id": relay.stream},
            media_type="application/json",
        )


def routes(hub: Hub, wire: Wire) -> list[Route]:
    return [Route("/v1/chat", Chat(hub, wire).post, methods=["POST"])]


async def _first(
    request: Request, outcome: "asyncio.Future[Any]", *, timeout_s: float | None
) -> bool:
    """Wait for the outcome at most so long; tell whether the client is still there."""
    gone = asyncio.ensure_future(disconnected(request))
    try:
        await asyncio.wait({outcome, gone}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        return not gone.done()
    finally:
        gone.cancel()


async def _wait_end(reader: Reader) -> None:
    after = 0
    while not (events := await reader.read(after, timeout_s=60)) or not isinstance(
        events[-1], StreamEnd
    ):
        after += len(events)


def _prefers_async(request: Request) -> bool:
    """RFC 7240: `Prefer: respond-async`, alone or in a list."""
    preferences = ",".join(request.headers.getlist("prefer")).split(",")
    return any(item.partition(";")[0].strip().lower() == "respond-async" for item in preferences)


def _accepted(stream: str) -> Response:
    url = f"/v1/streams/{stream}"
    body = {"id": stream, "url": url, "events_url": f"{url}/events", "cancel_url": f"{url}/cancel"}
    return Response(
        msgspec.json.encode(body),
        status_code=202,
        headers={
            "location": url,
            "preference-applied": "respond-async",
            "cache-control": "no-store",
            "stream-id": stream,
        },
        media_type="application/json",
    )


def _failed(error: RelayError, request: Request, relay: Relay) -> Response:
    return problem(error, request, headers={"stream-id": relay.stream})


def _nobody() -> Response:
    """Answer a client that has gone; the status is nginx's for it, seen in logs only."""
    return Response(status_code=499)
