"""Responses over WebSocket: each `response.create` is a `POST /v1/responses`, in its own right.

Its events are the messages of the connection instead of frames of SSE
(developers.openai.com/api/docs/guides/websocket-mode). So each response has an owner, limits and a
record, and can be read and resumed by `GET`, also after the connection is lost.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..dialects.openai_responses.client.stored import join_items, list_items
from ..errors import RelayError
from ..framing import sse
from ..generation.admission import Admission, RequestMemory, address_of
from .event_stream import ReaderDropped

LONGEST_S: Final = 3600
"""How long OpenAI keeps a connection open."""

MAX_LANES: Final = 8
"""The responses at once on one connection, by their `stream_id`."""

LEAVING_S: Final = 5.0
"""How long responses have to notice that their client has left."""

_OWN: Final = (b"idempotency-key", b"last-event-id", b"prefer", b"x-request-id", b"accept")
"""Headers of the handshake that would mean each of its responses."""

_HANDSHAKE: Final = (b"connection", b"upgrade", b"content-length", b"transfer-encoding")

_ENDS: Final = ("response.completed", "response.incomplete")

log = structlog.get_logger("seseragi.api")

_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.encode


class _Ended(msgspec.Struct):
    id: str
    output: list[msgspec.Raw] = []


class _LastEvent(msgspec.Struct):
    response: _Ended


class _Invalid(Exception):
    """A message that is no request, with its reason."""


class _Lane:
    """The responses with one `stream_id`, one after another."""

    def __init__(self) -> None:
        self.free = asyncio.Lock()
        self.last: str | None = None
        """The last response that is not stored: the next may continue it."""
        self.items: Sequence[msgspec.Raw] = ()
        """Its conversation."""

    @property
    def size(self) -> int:
        return sum(map(len, map(bytes, self.items)))

    def remember(self, response: str, items: Sequence[msgspec.Raw]) -> None:
        self.last, self.items = response, items

    def forget(self) -> None:
        self.last, self.items = None, ()


class ResponsesSocket:
    """The connections of one relay."""

    def __init__(self, admission: Admission, *, send_timeout_s: float) -> None:
        self._admission = admission
        self._send_timeout_s = send_timeout_s

    async def __call__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection whose handshake has been checked; `app` answers its requests."""
        await receive()  # websocket.connect
        with self._admission.receive(address_of(scope["client"])) as memory:
            memory.expect(b"")
            await send({"type": "websocket.accept"})
            connection = _Connection(app, scope, send, memory, self._send_timeout_s)
            deadline = asyncio.timeout(LONGEST_S)
            try:
                async with deadline:
                    while (message := await receive())["type"] == "websocket.receive":
                        await connection.take(message.get("text") or message.get("bytes") or b"")
            except TimeoutError:  # or the client takes nothing
                if deadline.expired():
                    await connection.end()
            finally:
                await connection.leave()


class _Connection:
    def __init__(
        self, app: ASGIApp, scope: Scope, send: Send, memory: RequestMemory, send_timeout_s: float
    ) -> None:
        self._app = app
        self._scope = scope
        self._send = send
        self._memory = memory
        self._send_timeout_s = send_timeout_s
        self._lanes: dict[str, _Lane] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._left = asyncio.Event()

    async def take(self, message: str | bytes) -> None:
        """Begin the response that a message asks for, once the one before it has ended."""
        stream_id = ""
        try:
            fields = _parse(message)
            stream_id = _string(fields.pop("stream_id", None), "stream_id")
            lane = self._lanes.get(stream_id)
            if lane is None:
                if len(self._lanes) >= MAX_LANES:
                    raise _Invalid(f"stream_id: a connection has at most {MAX_LANES}")
                lane = self._lanes[stream_id] = _Lane()
            await lane.free.acquire()
        except _Invalid as error:
            await self.refuse(400, "invalid_request_error", str(error), stream_id=stream_id)
            return
        running = asyncio.create_task(self._respond(lane, stream_id, fields))
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    async def end(self) -> None:
        """Close a connection that has been open for the longest time."""
        message = "the connection has been open for an hour; open a new one"
        await self.refuse(400, "websocket_connection_limit_reached", message)
        await self._send({"type": "websocket.close", "code": 1000})

    async def leave(self) -> None:
        """Let the responses go on without this reader, as their requests say."""
        self._left.set()
        if self._running:
            await asyncio.wait(self._running, timeout=LEAVING_S)
        for running in self._running:
            running.cancel()

    async def refuse(self, status: int, code: str, message: str, *, stream_id: str = "") -> None:
        error = {"type": "invalid_request_error", "code": code, "message": message, "param": None}
        await self.write(_encode({"type": "error", "status": status, "error": error}), stream_id)

    async def write(self, event: bytes, stream_id: str) -> None:
        """Send an event, in the name of its lane."""
        if stream_id:
            event = b'{"stream_id":%b,%b' % (_encode(stream_id), event[1:])
        async with asyncio.timeout(self._send_timeout_s):
            await self._send({"type": "websocket.send", "text": event.decode()})

    async def _respond(self, lane: _Lane, stream_id: str, fields: dict[str, msgspec.Raw]) -> None:
        try:
            await self._answer(lane, stream_id, fields)
        except OSError:  # the client has left, or takes nothing (TimeoutError)
            self._left.set()
        except Exception as error:
            if not isinstance(error, ReaderDropped):
                log.exception("a response over WebSocket failed")
            with contextlib.suppress(OSError):
                await self._send({"type": "websocket.close", "code": 1011})
        finally:
            lane.free.release()

    async def _answer(self, lane: _Lane, stream_id: str, fields: dict[str, msgspec.Raw]) -> None:
        kept = fields.get("store") == msgspec.Raw(b"false")
        try:
            items = _continue(self._lanes.values(), fields)
        except msgspec.MsgspecError:
            items, kept = [], False  # the relay's own parser says what is wrong
        if fields.pop("generate", None) == msgspec.Raw(b"false"):
            await self._warm_up(lane, stream_id, items)
            return
        answer = _Answer(self, stream_id, keeps=kept)
        body = _encode(fields | {"stream": True})
        await self._app(self._request_scope(len(body)), _Request(body, self._left), answer.send)
        await answer.close()
        if answer.ended is not None:
            self._remember(lane, answer.ended.id, [*items, *answer.ended.output])

    async def _warm_up(self, lane: _Lane, stream_id: str, items: Sequence[msgspec.Raw]) -> None:
        """Answer a request that is not to generate: the next continues it."""
        response = f"resp_{secrets.token_urlsafe(16)}"
        self._remember(lane, response, items)
        state: dict[str, Any] = {"id": response, "object": "response", "output": []}
        for number, kind in enumerate(("created", "completed")):
            status = "in_progress" if kind == "created" else kind
            event = {"type": f"response.{kind}", "sequence_number": number}
            await self.write(_encode(event | {"response": state | {"status": status}}), stream_id)

    def _remember(self, lane: _Lane, response: str, items: Sequence[msgspec.Raw]) -> None:
        """Keep a conversation for the next response, if there is memory for it."""
        lane.remember(response, items)
        try:
            self._memory.resize(sum(each.size for each in self._lanes.values()))
        except RelayError:
            lane.forget()

    def _request_scope(self, size: int) -> Scope:
        scope = self._scope
        names = ("asgi", "path", "raw_path", "query_string", "root_path", "client", "server")
        left_out = (*_OWN, *_HANDSHAKE)
        headers = [
            (name, value)
            for name, value in scope["headers"]
            if name not in left_out and not name.startswith(b"sec-websocket-")
        ]
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % size)]
        return {name: scope[name] for name in names if name in scope} | {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "scheme": "https" if scope.get("scheme") in ("wss", "https") else "http",
            "headers": headers,
            "state": {**(scope.get("state") or {})},
        }


class _Request:
    """The `receive` of one request."""

    def __init__(self, body: bytes, left: asyncio.Event) -> None:
        self._body: bytes | None = body
        self._left = left

    async def __call__(self) -> Message:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}


class _Answer:
    """The `send` of one request: its events become messages."""

    def __init__(self, connection: _Connection, stream_id: str, *, keeps: bool) -> None:
        self._connection = connection
        self._stream_id = stream_id
        self._keeps = keeps
        self._status = 0
        self._retry_after = b""
        self._decoder: sse.Decoder | None = None
        self._body = b""
        self.ended: _Ended | None = None
        """The response as of its end, if it `keeps` it."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            self._status = message["status"]
            self._retry_after = headers.get(b"retry-after", b"")
            if headers.get(b"content-type", b"").startswith(b"text/event-stream"):
                self._decoder = sse.Decoder()
            return
        if self._decoder is None:
            self._body += message.get("body", b"")
            return
        for event in self._decoder.feed(message.get("body", b"")):
            data = event.data.encode()
            if self._keeps and event.event in _ENDS:
                self.ended = msgspec.json.decode(data, type=_LastEvent).response
            await self._connection.write(data, self._stream_id)

    async def close(self) -> None:
        """Send the error of a request that has no stream."""
        if self._decoder is not None or not self._body:  # without one, the client has left
            return
        error: dict[str, Any] = msgspec.json.decode(self._body)["error"]
        if self._retry_after:
            error["headers"] = {"retry-after": self._retry_after.decode()}
        event = {"type": "error", "status": self._status, "error": error}
        await self._connection.write(_encode(event), self._stream_id)


def _parse(message: str | bytes) -> dict[str, msgspec.Raw]:
    try:
        fields = _decode_fields(message)
    except msgspec.MsgspecError as error:
        raise _Invalid(f"the message is not a JSON object: {error}") from None
    kind = _string(fields.pop("type", None), "type")
    if kind != "response.create":
        raise _Invalid(f"type: {kind[:80]!r} is not supported; send 'response.create'")
    if fields.pop("background", None) == msgspec.Raw(b"true"):
        raise _Invalid("background: not over WebSocket; send a POST")
    return fields


def _string(value: msgspec.Raw | None, name: str) -> str:
    if value is None:
        return ""
    try:
        return msgspec.json.decode(value, type=str)
    except msgspec.MsgspecError:
        raise _Invalid(f"{name}: not a string") from None


def _continue(lanes: Iterable[_Lane], fields: dict[str, msgspec.Raw]) -> Sequence[msgspec.Raw]:
    """Complete a request that continues the last response of a lane; return its items."""
    items = list_items(fields.get("input", msgspec.Raw(b"[]")))
    previous = fields.get("previous_response_id")
    for lane in lanes:
        if lane.last is not None and previous == msgspec.Raw(_encode(lane.last)):
            items = [*lane.items, *items]
            fields["input"] = join_items(items)
            del fields["previous_response_id"]
            break
    return items
