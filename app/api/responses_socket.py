"""Responses over WebSocket: each `response.create` is a `POST /v1/responses`, in its own right.

Its events are the messages of the connection instead of frames of SSE
(developers.openai.com/api/docs/guides/websocket-mode). So each response has an owner, limits and a
record, and can be read and resumed by `GET`, also after the connection is lost.
"""

import asyncio
import contextlib
import secrets
from typing import Any, Final

import msgspec
import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..dialects.client_formats import CLIENT_FORMATS
from ..errors import RelayError, RequestError
from ..framing import sse
from ..generation.hub import Hub
from ..generation.metered_call import CallContext, count_request
from ..generation.via import source_of
from ..identity.principal import Principal
from ..policies.admission import RequestMemory, address_of
from ..requests import convert_body, parse_body, parse_part
from .event_stream import ReaderDropped
from .request import PRINCIPAL, REQUEST_HEADERS, SOCKET, SocketMemory

LONGEST_S: Final = 3600
"""How long OpenAI keeps a connection open."""

IDLE_S: Final = 1800
"""How long a connection may be open without a message or a running response."""

MAX_MEMBERS: Final = 200
"""The members of a message: each takes 200 bytes while the message waits for its lane."""

MAX_LANES: Final = 8
"""The responses at once on one connection, by their `stream_id`."""

MAX_RUNNING: Final = 16
"""The responses of one connection that run, or wait for one of their lane."""

MAX_STREAM_ID: Final = 256
"""The characters of a `stream_id`, which each event repeats."""

LEAVING_S: Final = 5.0
"""How long responses have to notice that their client has left."""

_OWN: Final = (b"idempotency-key", b"last-event-id", b"prefer", b"x-request-id", b"accept")
"""Headers of the handshake that would mean each of its responses."""

_HANDSHAKE: Final = (b"connection", b"upgrade", b"content-length", b"transfer-encoding")

_ENDS: Final = ("response.completed", "response.incomplete")

log = structlog.get_logger("seseragi.api")

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.encode

_NOTHING: Final = b"[]"


class _Ended(msgspec.Struct):
    id: str
    output: msgspec.Raw = msgspec.Raw(_NOTHING)


class _LastEvent(msgspec.Struct):
    response: _Ended


class _Lane:
    """The responses with one `stream_id`, one after another."""

    def __init__(self, hub: Hub, names: tuple[str, ...]) -> None:
        self.free = asyncio.Lock()
        self.last: str | None = None
        """The last response that is not stored: the next may continue it."""
        self.items = b""
        """Its conversation, as a JSON list."""
        self._asked = b""
        """The conversation that the running response answers, if it is to be kept."""
        self.memory = RequestMemory(hub.admission, names, forget=self._forget)

    def ask(self, items: bytes) -> None:
        """Keep the conversation that a response will answer; b"" for none."""
        self._asked = items
        self.memory.keep(len(self.items) + len(items))

    def remember(self, response: str, output: bytes) -> None:
        """Keep the conversation for the next response, unless it has been dropped meanwhile."""
        if self._asked:
            self.last, self.items = response, _join(self._asked, output)

    def _forget(self) -> None:
        self.last, self.items, self._asked = None, b"", b""


class ResponsesSocket:
    """The connections of one relay."""

    def __init__(self, hub: Hub, *, send_timeout_s: float, max_bytes: int) -> None:
        """Prepare them; `max_bytes` is the limit of a request, also of one that continues."""
        self._hub = hub
        self._send_timeout_s = send_timeout_s
        self._max_bytes = max_bytes

    async def __call__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection whose handshake has been checked; `app` answers its requests.

        Raises:
            ServiceError: `rate_limited`, the client has too many; nothing was received.
        """
        address, owner = address_of(scope["client"]), scope[PRINCIPAL].owner
        with self._hub.admission.receive(address, owner, socket=True) as memory:
            connection = _Connection(
                app, scope, send, memory, self._hub, self._send_timeout_s, max_bytes=self._max_bytes
            )
            server: SocketMemory | None = (scope.get("extensions") or {}).get(SOCKET)
            if server is not None:
                server.reserve = connection.expect
            await receive()  # websocket.connect
            await send({"type": "websocket.accept"})
            try:
                async with connection.deadline:
                    while await connection.take(await receive()):
                        connection.extend()
            except TimeoutError:  # or the client takes nothing
                if connection.deadline.expired():
                    await connection.end()
            finally:
                if server is not None:
                    server.reserve = lambda size: None
                await connection.leave()


class _Connection:
    def __init__(
        self,
        app: ASGIApp,
        scope: Scope,
        send: Send,
        memory: RequestMemory,
        hub: Hub,
        send_timeout_s: float,
        *,
        max_bytes: int,
    ) -> None:
        self._ends_at = asyncio.get_running_loop().time() + LONGEST_S
        self.deadline = asyncio.timeout(min(LONGEST_S, IDLE_S))
        self._hub = hub
        self._app = app
        self._scope = scope
        self._send = send
        self._memory = memory
        self._send_timeout_s = send_timeout_s
        self._max_bytes = max_bytes
        self._lanes: dict[str, _Lane] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._waiting = 0
        """Bytes of messages whose responses have not begun."""
        self._expected = 0
        """Bytes of a message that is not complete yet."""
        self._left = asyncio.Event()
        self._closed = False

    def extend(self, ended: "asyncio.Task[None] | None" = None) -> None:
        """Move the deadline after a message, or a response that has `ended`."""
        self._running -= {ended}
        if not (self._left.is_set() or self.deadline.expired()):
            idle_at = asyncio.get_running_loop().time() + (LONGEST_S if self._running else IDLE_S)
            self.deadline.reschedule(min(idle_at, self._ends_at))

    def expect(self, size: int) -> None:
        """Reserve memory for a message that is not complete yet; see `RequestMemory.resize`."""
        self._memory.add(size - self._expected)
        self._expected = size

    async def take(self, message: Message) -> bool:
        """Begin the response that a message asks for; return False if it is the last one.

        It waits for those of its lane in a task: the next message may be that the client leaves.
        """
        if message["type"] != "websocket.receive":
            return False
        await asyncio.sleep(0)  # nothing else waits while messages are queued
        self.expect(0)
        data = message.get("text") or message.get("bytes") or b""
        body, stream_id = data.encode() if isinstance(data, str) else data, ""
        try:
            fields = _parse(body)
            name = _string(fields, "stream_id")
            if len(name) > MAX_STREAM_ID:
                raise _invalid(f"stream_id: longer than {MAX_STREAM_ID} characters")
            stream_id = name
            lane = self._lanes.get(stream_id)
            if lane is None:
                if len(self._lanes) >= MAX_LANES:
                    raise _invalid(f"stream_id: a connection has at most {MAX_LANES}")
                lane = self._lanes[stream_id] = _Lane(self._hub, self._memory.names)
            if len(self._running) >= MAX_RUNNING:
                raise _invalid(f"{MAX_RUNNING} responses run or wait; send fewer at once")
            self._memory.add(len(body))
        except RelayError as error:
            await self.refuse(error, stream_id)
            return True
        self._waiting += len(body)
        running = asyncio.create_task(self._respond(lane, stream_id, fields, len(body)))
        self._running.add(running)
        running.add_done_callback(self.extend)
        return True

    async def end(self) -> None:
        """Close a connection that has been open for the longest time, or is idle."""
        error = {
            "type": "invalid_request_error",
            "code": "websocket_connection_limit_reached",
            "message": "the connection has been open for an hour, or idle for half; open a new one",
            "param": None,
        }
        with contextlib.suppress(OSError):
            await self.write(_encode({"type": "error", "status": 400, "error": error}), "")
        await self._close(1000)

    async def leave(self) -> None:
        """Let the responses go on without this reader, as their requests say."""
        self._left.set()
        if self._running:
            await asyncio.wait(self._running, timeout=LEAVING_S)
        for running in self._running:
            running.cancel()
        for lane in self._lanes.values():
            lane.memory.drop()

    async def refuse(self, error: RelayError, stream_id: str) -> None:
        status, body, _ = CLIENT_FORMATS["openai_responses"].render_failure(error, "")
        retry_after = b"" if error.retry_after_s is None else b"%.0f" % error.retry_after_s
        await self.write(_error_event(status, body, retry_after=retry_after), stream_id)

    async def write(self, event: bytes, stream_id: str) -> None:
        """Send an event, in the name of its lane."""
        if self._closed:
            raise ConnectionError("the relay has closed the connection")
        if stream_id:
            event = b'{"stream_id":%b,%b' % (_encode(stream_id), event[1:])
        async with asyncio.timeout(self._send_timeout_s):
            await self._send({"type": "websocket.send", "text": event.decode()})

    async def _close(self, code: int) -> None:
        if not self._closed:
            self._closed = True
            self._left.set()
            with contextlib.suppress(OSError):
                await self._send({"type": "websocket.close", "code": code})

    async def _respond(
        self, lane: _Lane, stream_id: str, fields: dict[str, msgspec.Raw], size: int
    ) -> None:
        try:
            async with lane.free:
                if not self._left.is_set():
                    await self._answer(lane, stream_id, fields, size)
        except OSError:  # the client has left, or takes nothing (TimeoutError)
            self._left.set()
        except Exception as error:
            if not isinstance(error, ReaderDropped):
                log.exception("a response over WebSocket failed")
            await self._close(1011)

    async def _answer(
        self, lane: _Lane, stream_id: str, fields: dict[str, msgspec.Raw], size: int
    ) -> None:
        self._waiting -= size
        try:
            self._memory.resize(self._expected + self._waiting)
            asked = self._continue(fields)
            generates = fields.pop("generate", None) != msgspec.Raw(b"false")
            keeps = fields.get("store") == msgspec.Raw(b"false")
            lane.ask(asked if keeps or not generates else b"")
            del asked
            if not generates:
                fields.clear()
                await self._warm_up(lane, stream_id)
                return
            answer = _Answer(self, stream_id, keeps=keeps)
            request = _Request(_encode(fields | {"stream": True}), self._left)
            fields.clear()
            await self._app(self._request_scope(request.size), request, answer.send)
            await answer.close()
            if answer.ended is not None:
                lane.remember(answer.ended.id, bytes(answer.ended.output))
        except RelayError as error:
            await self.refuse(error, stream_id)
        finally:
            lane.ask(b"")

    async def _count_warm_up(self) -> None:
        """Count a request that is not to generate, as any other.

        Raises:
            ServiceError: a limit is reached.
        """

        async def count(context: CallContext) -> None:
            async with count_request(context):
                pass

        principal: Principal = self._scope[PRINCIPAL]
        origin = source_of(self._scope["client"], self._scope[REQUEST_HEADERS])
        await self._hub.streams_of(principal).admit(origin, key=None)
        await self._hub.calls.ask(count, principal, origin=origin, kind="warm_up")

    async def _warm_up(self, lane: _Lane, stream_id: str) -> None:
        """Answer a request that is not to generate: the next continues it."""
        await self._count_warm_up()
        response = f"resp_{secrets.token_urlsafe(16)}"
        lane.remember(response, b"")
        state: dict[str, Any] = {"id": response, "object": "response", "output": []}
        for number, kind in enumerate(("created", "completed")):
            status = "in_progress" if kind == "created" else kind
            event = {"type": f"response.{kind}", "sequence_number": number}
            await self.write(_encode(event | {"response": state | {"status": status}}), stream_id)

    def _continue(self, fields: dict[str, msgspec.Raw]) -> bytes:
        """Complete a request that continues the last response of a lane; return its input.

        Raises:
            RequestError: `invalid_request` or `request_too_large`.
        """
        items, previous = _list_input(fields.get("input")), fields.get("previous_response_id")
        for lane in self._lanes.values():
            if lane.last is not None and previous == msgspec.Raw(_encode(lane.last)):
                items = _join(lane.items, items)
                if len(items) > self._max_bytes:
                    raise RequestError(
                        "request_too_large",
                        f"the conversation is larger than the limit of {self._max_bytes} bytes",
                    )
                fields["input"] = msgspec.Raw(items)
                del fields["previous_response_id"]
                break
        return items

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
        self.size = len(body)
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
        self.keeps = keeps
        self._status = 0
        self._retry_after = b""
        self._decoder: sse.Decoder | None = None
        self._body = b""
        self.ended: _Ended | None = None
        """The response as of its end, if it `keeps` that."""

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
            if self.keeps and event.event in _ENDS:
                self.ended = msgspec.json.decode(data, type=_LastEvent).response
            await self._connection.write(data, self._stream_id)

    async def close(self) -> None:
        """Send the error of a request that has no stream."""
        if self._decoder is not None or not self._body:  # without one, the client has left
            return
        event = _error_event(self._status, self._body, retry_after=self._retry_after)
        await self._connection.write(event, self._stream_id)


def _error_event(status: int, body: bytes, *, retry_after: bytes = b"") -> bytes:
    """Return the event of an error that a POST would be answered with."""
    error: dict[str, Any] = msgspec.json.decode(body)["error"]
    if retry_after:
        error["headers"] = {"retry-after": retry_after.decode()}
    return _encode({"type": "error", "status": status, "error": error})


def _parse(body: bytes) -> dict[str, msgspec.Raw]:
    fields = parse_body(body, _fields, example='{"type": "response.create"}')
    if len(fields) > MAX_MEMBERS:
        raise _invalid(f"the message has more than {MAX_MEMBERS} members; send fewer")
    kind = _string(fields, "type")
    if kind != "response.create":
        raise _invalid(f"type: {kind[:80]!r} is not supported; send 'response.create'")
    if fields.pop("background", None) == msgspec.Raw(b"true"):
        raise _invalid("background: not over WebSocket; send a POST")
    return fields


def _string(fields: dict[str, msgspec.Raw], name: str) -> str:
    """Remove a field, and return it; "" if it is missing."""
    value = fields.pop(name, None)
    return "" if value is None else convert_body(parse_part(value, path=name), str, path=name)


def _invalid(message: str) -> RequestError:
    return RequestError("invalid_request", message)


def _list_input(data: msgspec.Raw | None) -> bytes:
    """Return an input, which may be a string, as a JSON list."""
    text = bytes(data or _NOTHING)
    if text.startswith(b"["):
        return text
    if text.startswith(b'"'):
        return b'[{"type":"message","role":"user","content":%b}]' % text
    raise _invalid("input: send a string or a list")


def _join(*lists: bytes) -> bytes:
    """Join JSON lists to one."""
    return b"[" + b",".join(filter(None, (one[1:-1].strip() for one in lists))) + b"]"
