"""Responses over WebSocket: each `response.create` is a `POST /v1/responses`, in its own right.

Its events are the messages of the connection instead of frames of SSE
(developers.openai.com/api/docs/guides/websocket-mode): a `MessageWriter` writes them as lines, and
the `ClientConnection` of the request sends each line as a message. So each response has an owner,
limits and a record, and can be read and resumed by `GET`, also after the connection is lost.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..dialects.openai_responses.client.format import CLIENT_FORMAT
from ..errors import RelayError, RequestError
from ..generation.calls import CallContext
from ..generation.hub import Hub
from ..generation.via import source_of
from ..identity.principal import Principal
from ..policies.admission import RequestMemory, address_of
from ..requests import convert_body, parse_body, parse_part
from .problems import RETRY_NAMES, retry_headers
from .request import (
    AS_MESSAGES,
    CONNECTION,
    PRINCIPAL,
    REQUEST_HEADERS,
    SOCKET,
    ClientSocket,
    watch_connection,
)

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

_ENDS: Final = (msgspec.Raw(b'"response.completed"'), msgspec.Raw(b'"response.incomplete"'))

log = structlog.get_logger("seseragi.api")

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.encode


class _Lane:
    """The responses with one `stream_id`, one after another."""

    def __init__(self, stream_id: str, hub: Hub, names: tuple[str, ...]) -> None:
        self.stream_id = stream_id
        self.free = asyncio.Lock()
        self.answer: _Answer | None = None
        """The answer that is being sent."""
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


class ResponsesSocket(msgspec.Struct, frozen=True):
    """The connections of one relay."""

    hub: Hub
    send_timeout_s: float
    max_bytes: int
    """The limit of a request, also of one that continues."""

    async def __call__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection whose handshake has been checked; `app` answers its requests.

        Raises:
            ServiceError: `rate_limited`, the client has too many; nothing was received.
        """
        principal = scope[PRINCIPAL]
        address, owner = address_of(scope["client"], principal.share), principal.owner
        with self.hub.admission.receive(address, owner, socket=True) as memory:
            connection = _Connection(self, memory, app, scope, send)
            server: ClientSocket | None = (scope.get("extensions") or {}).get(SOCKET)
            if server is not None:
                server.reserve = connection.expect
                if send == server.send:  # no other app wraps this one
                    connection.push = server.push
            await receive()  # websocket.connect
            # Browsers that offered one fail without one in the answer.
            offered = scope.get("subprotocols") or [None]
            await send({"type": "websocket.accept", "subprotocol": offered[0]})
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
        self, bounds: ResponsesSocket, memory: RequestMemory, app: ASGIApp, scope: Scope, send: Send
    ) -> None:
        self._ends_at = asyncio.get_running_loop().time() + LONGEST_S
        self.deadline = asyncio.timeout(min(LONGEST_S, IDLE_S))
        self._hub = bounds.hub
        self._send_timeout_s, self._max_bytes = bounds.send_timeout_s, bounds.max_bytes
        self._app = app
        self._scope = scope
        self._send = send
        self.push: Callable[[bytes], bool] = lambda event: False
        """See `ClientSocket`."""
        self._memory = memory
        self._lanes: dict[str, _Lane] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._waiting = 0
        """Bytes of messages whose responses have not begun."""
        self._expected = 0
        """Bytes of a message that is not complete yet."""
        self.lost = False
        """Whether the client has left."""
        self._closed = False

    def extend(self, ended: "asyncio.Task[None] | None" = None) -> None:
        """Move the deadline after a message, or a response that has `ended`."""
        self._running -= {ended}
        if not (self.lost or self.deadline.expired()):
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
                lane = self._lanes[stream_id] = _Lane(name, self._hub, self._memory.names)
            if len(self._running) >= MAX_RUNNING:
                raise _invalid(f"{MAX_RUNNING} responses run or wait; send fewer at once")
            self._memory.add(len(body))
        except RelayError as error:
            await self.refuse(error, stream_id)
            return True
        self._waiting += len(body)
        running = asyncio.create_task(self._respond(lane, fields, len(body)))
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
            await self.write(_encode({"type": "error", "status": 400, "error": error}))
        await self._close(1000)

    async def leave(self) -> None:
        """Let the responses go on without this reader, as their requests say."""
        self._lose()
        if self._running:
            await asyncio.wait(self._running, timeout=LEAVING_S)
        for running in self._running:
            running.cancel()
        for lane in self._lanes.values():
            lane.memory.drop()

    async def refuse(self, error: RelayError, stream_id: str) -> None:
        status, body, _ = CLIENT_FORMAT.render_failure(error, "")
        await self.write(_error_event(status, body, retry_headers(error)), stream_id)

    async def write(self, event: bytes, stream_id: str = "") -> None:
        """Send an event, in the name of a lane."""
        if self._closed:
            raise ConnectionError("the relay has closed the connection")
        event = _begin(stream_id) + event[1:]
        async with asyncio.timeout(self._send_timeout_s):
            await self._send({"type": "websocket.send", "text": event.decode()})

    def _lose(self) -> None:
        self.lost = True
        for lane in self._lanes.values():
            if lane.answer is not None and lane.answer.on_lost is not None:
                lane.answer.on_lost()

    async def _close(self, code: int) -> None:
        if not self._closed:
            self._closed = True
            self._lose()
            with contextlib.suppress(OSError):
                await self._send({"type": "websocket.close", "code": code})

    async def _respond(self, lane: _Lane, fields: dict[str, msgspec.Raw], size: int) -> None:
        try:
            async with lane.free:
                if not self.lost:
                    await self._answer(lane, fields, size)
        except OSError:  # the client has left, or takes nothing (TimeoutError)
            self._lose()
        except Exception:
            log.exception("a response over WebSocket failed")
            await self._close(1011)

    async def _answer(self, lane: _Lane, fields: dict[str, msgspec.Raw], size: int) -> None:
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
                await self._warm_up(lane)
                return
            body = _encode(fields | {"stream": True})
            fields.clear()
            scope = self._request_scope(len(body))
            answer = lane.answer = scope["extensions"][CONNECTION] = _Answer(
                self, body, lane.stream_id
            )
            del body
            await self._app(scope, answer.receive, answer.send)
            last = _fields.decode(answer.last)
            if keeps and last.get("type") in _ENDS:
                response = _fields.decode(last["response"])
                lane.remember(msgspec.json.decode(response["id"]), bytes(response["output"]))
            if answer.aborted and not self.lost:
                await self._close(1011)
        except RelayError as error:
            await self.refuse(error, lane.stream_id)
        finally:
            lane.answer = None
            lane.ask(b"")

    async def _count_warm_up(self) -> None:
        """Count a request that is not to generate, as any other.

        Raises:
            ServiceError: a limit is reached.
        """

        async def count(context: CallContext) -> None:
            async with context.counted():
                pass

        principal: Principal = self._scope[PRINCIPAL]
        client, headers = self._scope["client"], self._scope[REQUEST_HEADERS]
        origin = source_of(client, headers, share=principal.share)
        await self._hub.streams_of(principal).admit(origin, key=None)
        await self._hub.calls.ask(count, principal, origin=origin, kind="warm_up")

    async def _warm_up(self, lane: _Lane) -> None:
        """Answer a request that is not to generate: the next continues it."""
        await self._count_warm_up()
        response = f"resp_{secrets.token_urlsafe(16)}"
        lane.remember(response, b"")
        state: dict[str, Any] = {"id": response, "object": "response", "output": []}
        for number, kind in enumerate(("created", "completed")):
            status = "in_progress" if kind == "created" else kind
            event: dict[str, Any] = {"type": f"response.{kind}", "sequence_number": number}
            event["response"] = state | {"status": status}
            await self.write(_encode(event), lane.stream_id)

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
                        f"the conversation of {len(items)} bytes is larger than the limit of "
                        f"{self._max_bytes} bytes (max_request_bytes)",
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
            "extensions": {},
            AS_MESSAGES: True,
        }


class _Answer:
    """The `ClientConnection` of one request: the lines of its answer become messages."""

    def __init__(self, connection: _Connection, body: bytes, stream_id: str) -> None:
        self._connection = connection
        self._request: bytes | None = body
        self._begin = _begin(stream_id)
        self._head: Message = {}
        self._waiting: list[bytes] = []
        self.last = b"{}"
        self.on_lost: Callable[[], object] | None = None
        self.sent = 0
        self.joins_head = False
        self.aborted = False

    @property
    def lost(self) -> bool:
        return self._connection.lost

    def take_body(self) -> bytes | None:
        body, self._request = self._request, None
        return body

    watch = watch_connection

    def begin(self, *_: object) -> bool:
        return False

    def write(self, piece: bytes) -> bool:
        self.sent += len(piece)
        for line in filter(bytes.strip, piece.splitlines()):  # heartbeats are white space
            self.last = event = self._begin + line[1:]
            if self._waiting or not self._connection.push(event):
                self._waiting.append(event)
        return not self._waiting

    async def drain(self) -> None:
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            await self._connection.write(event)

    def abort(self) -> None:
        self.aborted = True

    break_off = abort

    async def receive(self) -> Message:
        """Return the end of a request whose body is taken by `take_body`."""
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._head = message
        elif body := message.get("body"):
            if self._head["status"] != 200:  # no stream
                headers = {name.decode(): value.decode() for name, value in self._head["headers"]}
                body = _error_event(self._head["status"], body, headers)
            self.write(body)
            await self.drain()


def _begin(stream_id: str) -> bytes:
    """Return the begin of the events of a lane."""
    return b'{"stream_id":%b,' % _encode(stream_id) if stream_id else b"{"


def _error_event(status: int, body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return the event of an error that a POST would be answered with."""
    error: dict[str, Any] = msgspec.json.decode(body)["error"]
    if kept := {name: headers[name] for name in RETRY_NAMES if name in headers}:
        error["headers"] = kept
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
    text = bytes(data or b"[]")
    if text.startswith(b"["):
        return text
    if text.startswith(b'"'):
        return b'[{"type":"message","role":"user","content":%b}]' % text
    raise _invalid("input: send a string or a list")


def _join(*lists: bytes) -> bytes:
    """Join JSON lists to one."""
    return b"[" + b",".join(filter(None, (one[1:-1].strip() for one in lists))) + b"]"
