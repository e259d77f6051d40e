"""The endpoints that start a generation in any dialect, and answer with a stream or JSON."""

import asyncio
import hashlib
import math
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.anthropic import BETA, VERSION
from ..dialects.anthropic.client.format import CLIENT_FORMAT as ANTHROPIC
from ..dialects.anthropic.client.request import parse_request as parse_messages
from ..dialects.client_format import ClientFormat, ParsedRequest, name_of_chat, parse_frame_id
from ..dialects.client_formats import CLIENT_FORMATS
from ..dialects.native.client.format import CLIENT_FORMAT as NATIVE
from ..dialects.native.client.format import JSON_LINES
from ..dialects.openai_responses.client.format import CLIENT_FORMAT as RESPONSES
from ..errors import RelayError, RequestError
from ..eventlog import cursor_after
from ..events import Event, StreamEnd, StreamTarget
from ..generation.owned_streams import OwnedStreams
from ..generation.readers import Reader
from ..generation.runs import Opened
from ..generation.start_options import StartOptions
from ..generation.via import RequestSource, source_of
from ..policies.admission import RequestMemory
from ..requests import Body, ChatId, ChatRequest, Overlap, convert_body
from ..upstreams.client_headers import REQUEST_NAMES, read_request_headers
from .endpoints import Endpoints, HttpParts, document
from .event_stream import EventStream
from .problems import failure, rate_limit_headers
from .request import (
    REQUEST_HEADERS,
    Headers,
    client_of,
    last_event_id,
    prefers_json_lines,
    principal_of,
    root_of,
)
from .single_call import while_connected
from .slow_result import SlowResult

OWN: Final = (RESPONSES, ANTHROPIC)
"""Dialects whose endpoint does more than `Generation`."""

ALWAYS_HOSTED: Final = re.compile(r"codex[ _-]|claude-cli/", re.IGNORECASE)
"""The first words of user agents of clients that send hosted tools with every request.

Codex: `web_search` and `image_generation` beside its own tools, under several names such as
`codex_cli_rs` and `Codex Desktop` (CommandCodeAI/command-code issue 885, 2026-09).
Claude Code: `advisor_20260301` beside its own tools (SaladDay/cc-switch-cli issue 468, 2026-09).
"""

MODEL: Final = "seseragi.model"
"""The key in the scope of the model that a request names, once its body was read."""


class ChatOptions(Body, frozen=True):
    """The chat of a request, as fields or as headers with the prefix `seseragi-`."""

    chat: ChatId | None = None
    overlap: Overlap | None = None


class Accepted(msgspec.Struct):
    """The URLs of a stream, for `Prefer: respond-async`."""

    id: str
    url: str
    events_url: str
    cancel_url: str


class DeliveryMode(msgspec.Struct, frozen=True):
    """The delivery of an answer that a request asks for."""

    streams: bool
    respond_async: bool
    seconds: float
    """How long it may run without a reader, if the request says so in seconds."""
    early_linger_s: float | None
    """The same if the client leaves before it knows the stream's id, and so can return only by
    its idempotency key; None for the value that the stream was started with."""


class StoredRequest(NamedTuple):
    """The part of a request that is stored with its stream."""

    request: bytes
    name_of: Callable[[str], str]
    """Returns a second name for the stream, from its id."""


class Generation(Endpoints):
    """An endpoint that starts generations in one dialect."""

    def __init__(self, parts: HttpParts, client_format: ClientFormat) -> None:
        super().__init__(parts)
        self._client_format = client_format

    async def post(self, request: Request) -> Response:
        """Start a generation, or resume reading the one that `Last-Event-ID` names."""
        cursor, key = last_event_id(request), _idempotency_key(request)
        headers, share = request.scope[REQUEST_HEADERS], principal_of(request).share
        origin = source_of(request.scope.get("client"), headers, share=share)
        streams = self._streams_of(request)
        if cursor is not None:
            with self._hub.admission.receive(origin.address, principal_of(request).owner) as memory:
                await self._read_body(request, memory)
            return await self._read_on(request, streams, cursor)
        await streams.admit(origin, key=key)
        opened, mode = await self._open(request, streams, origin=origin, key=key)
        return await self._answer(request, opened, mode)

    async def _answer(self, request: Request, opened: Opened, mode: DeliveryMode) -> Response:
        """Answer with the stream, its result, or its URLs."""
        reader = opened.reader
        if mode.respond_async:
            # At least `linger_s`, since the first reader needs time to come.
            reader.leave(linger_s=max(mode.seconds, self._http_settings.linger_s))
            return self._accepted(request, opened)
        try:
            if mode.streams:
                return await self._stream(request, opened)
            return await self._result(request, opened, linger_s=mode.early_linger_s)
        except BaseException:
            reader.leave(linger_s=mode.early_linger_s)
            raise

    async def _open(
        self, request: Request, streams: OwnedStreams, *, origin: RequestSource, key: str | None
    ) -> tuple[Opened, DeliveryMode]:
        """Parse the body and start its stream; nothing here refers to the body while that runs."""
        with self._hub.admission.receive(origin.address, principal_of(request).owner) as memory:
            body = await self._read_body(request, memory)
            memory.expect(body)
            parsed, stored = await self._parse(streams, body, memory=memory)
            if parsed.chat.tools:
                parsed = _mark_hosted(parsed, request)
            request.scope[MODEL] = parsed.chat.model
            mode = _delivery_mode(request, parsed.chat, key)
            sent = request.scope[REQUEST_HEADERS]
            chat = parsed.chat
            if chat.chat or chat.overlap or b"seseragi-chat" in sent or b"seseragi-overlap" in sent:
                parsed = _with_chat(parsed, sent)
            leaves = mode.respond_async or self._answers_at_once(parsed)
            can_return = mode.streams or mode.respond_async
            names_of = (self._client_format.name_of, stored and stored.name_of)
            options = StartOptions(
                self._linger_s(parsed, key, can_return=can_return),
                labels=parsed.labels,
                metadata=parsed.metadata,
                name=parsed.name,
                names_of=tuple(filter(None, names_of)),
                request=stored.request if stored else b"",
                client_format=self._client_format.name,
                headers={} if REQUEST_NAMES.isdisjoint(sent) else read_request_headers(sent),
                leaves=leaves,
                client_retries_s=0 if leaves else self._client_retries_s(mode),
                origin=origin,
                memory=memory,
            )
            digest = self._digest(request, body) if key else ""
            return await streams.start(parsed.chat, options, key=key, digest=digest), mode

    async def _parse(
        self, streams: OwnedStreams, body: bytes, *, memory: RequestMemory
    ) -> tuple[ParsedRequest, StoredRequest | None]:
        """Parse a body, which may reserve memory for requests."""
        return self._client_format.parse_request(body), None

    def _digest(self, request: Request, body: bytes) -> str:
        """Hash the parts of a request that determine its answer: dialect, its headers, body."""
        values = [
            ",".join(request.headers.getlist(name)) for name in self._client_format.request_headers
        ]
        digest = hashlib.sha256("\0".join([self._client_format.name, *values, ""]).encode())
        digest.update(body)  # no header has a zero in it
        return digest.hexdigest()

    def _answers_at_once(self, parsed: ParsedRequest) -> bool:
        """Return whether the answer names the stream instead of waiting for it."""
        return False

    def _client_retries_s(self, mode: DeliveryMode) -> float:
        if not self._client_format.client_retries:
            return 0
        return self._http_settings.status_wait_s if mode.streams else math.inf

    def _linger_s(
        self, parsed: ParsedRequest, key: str | None, *, can_return: bool
    ) -> float | None:
        match parsed.chat.on_disconnect:
            case "continue":
                return None
            case "cancel":
                return 0
            case None:
                lingers = self._client_format.lingers if parsed.lingers is None else parsed.lingers
                return self._http_settings.linger_s if key or (can_return and lingers) else 0
            case seconds:
                return seconds

    async def _stream(self, request: Request, opened: Opened) -> Response:
        """Wait for the outcome for at most `status_wait_s` before sending the status."""
        reader, outcome = opened.reader, opened.outcome
        if outcome is not None:
            error = await _wait_for(request, outcome, self._http_settings.status_wait_s)
        else:
            error = await _failed_start(reader)
        if error is not None:
            reader.leave()
            return self._failed(error, request, opened)
        client_format = self._accepted_format(request)
        return EventStream(
            reader,
            client_format.writer(reader.stream, after=0, retry_ms=self._retry_ms(), post=True),
            http_settings=self._http_settings,
            headers={**self._client_format.headers, **self._stream_headers(opened)},
            checkpoints=self._checkpoints,
            breaks_off=self._client_format.breaks_off,
            events=() if outcome is None else await reader.read(0, timeout_s=0),
            on_whole=self._on_whole(request, reader.stream) if client_format.replays else None,
        )

    async def _read_on(self, request: Request, streams: OwnedStreams, cursor: str) -> Response:
        """Answer a POST that a client repeats with a cursor after a lost connection."""
        stream, after = parse_frame_id(cursor, letter=self._client_format.letter)
        if stream is None:
            raise RequestError("invalid_request", f"Last-Event-ID: {cursor[:80]!r} names no stream")
        client_format = self._accepted_format(request)
        found = await streams.get(stream, after=self._first_read(stream, client_format, after))
        return await self._read_stream(request, found, client_format, after=after)

    def _accepted_format(self, request: Request) -> ClientFormat:
        """Return the format, as JSON lines if the native one is to be in these."""
        if self._client_format is NATIVE and prefers_json_lines(request):
            return JSON_LINES
        return self._client_format

    async def _result(
        self, request: Request, opened: Opened, *, linger_s: float | None
    ) -> Response:
        """Return the whole answer, or what sends white space until it comes."""
        reader, events = opened.reader, list[Event]()
        wait = partial(self._wait_for_result, request, opened, events)
        response = await wait()
        leave = partial(reader.leave, linger_s=linger_s)
        if response is None:
            failed = partial(self._failed, request=request, opened=opened)
            return SlowResult(wait, failed, leave, self._stream_headers(opened))
        leave()
        return response

    async def _wait_for_result(
        self, request: Request, opened: Opened, events: list[Event]
    ) -> Response | None:
        """Add to the events for `heartbeat_s`; return the whole answer, None before its end."""
        reader, seconds = opened.reader, self._http_settings.heartbeat_s
        try:
            ended = await while_connected(request, _read_on(reader, events, seconds=seconds))
        except RequestError:  # a stream that could not be begun has been removed
            error = None if opened.outcome is None else await opened.outcome
            if error is None:
                raise
            return self._failed(error, request, opened)
        if not ended:
            return None
        end = events[-1]
        if isinstance(end, StreamEnd) and end.error is not None:
            return self._failed(RelayError.of(end.error), request, opened)
        result = self._client_format.render_result(reader.stream, events)
        return document(result, headers=self._stream_headers(opened))

    def _accepted(self, request: Request, opened: Opened) -> Response:
        """Return the URLs of the stream; with an owner, they have tokens."""
        stream = opened.reader.stream
        url = f"{root_of(request.scope)}/v1/streams/{stream}"
        accepted = Accepted(stream, url, events_url=f"{url}/events", cancel_url=f"{url}/cancel")
        principal = principal_of(request)
        if principal.owner and self._tokens is not None:
            ends_at = time.time() + self._http_settings.longest_s + self._http_settings.retention_s
            make = partial(self._tokens.make_stream_token, principal, stream, expires_at=ends_at)
            accepted.events_url += f"?token={make(may='read')}"
            accepted.cancel_url += f"?token={make(may='stop')}"
        headers = {"location": url, "preference-applied": "respond-async"}
        return document(accepted, headers=headers | self._stream_headers(opened), status_code=202)

    def _failed(self, error: RelayError, request: Request, opened: Opened) -> Response:
        headers = self._stream_headers(opened)
        return failure(self._client_format, error, request, headers=headers)

    def _stream_headers(self, opened: Opened) -> dict[str, str]:
        """Return the headers on a stream that the request has started."""
        grant = opened.grant
        headers = {"stream-id": opened.reader.stream, **opened.reply_headers()}
        if opened.cassette:
            headers["seseragi-cassette"] = opened.cassette
        if grant is None or (grant.requests is None and grant.tokens is None):
            return headers
        rate_limits = rate_limit_headers(self._client_format, grant.requests, grant.tokens)
        return {**headers, **rate_limits}


def _mark_hosted(parsed: ParsedRequest, request: Request) -> ParsedRequest:
    """Mark a request of a client that sends hosted tools with every request."""
    body = parsed.chat.client_body
    if body is None or not ALWAYS_HOSTED.match(request.headers.get("user-agent", "")):
        return parsed
    body = msgspec.structs.replace(body, always_hosted=True)
    chat = msgspec.structs.replace(parsed.chat, client_body=body)
    return msgspec.structs.replace(parsed, chat=chat)


def _with_chat(parsed: ParsedRequest, headers: Headers) -> ParsedRequest:
    """Return a request with the name of its chat.

    Raises:
        RequestError: `invalid_request`, a value is not valid, or the request has no or two chats.
    """
    found = {field: getattr(parsed.chat, field) for field in ChatOptions.__struct_fields__}
    for field in found:
        if value := headers.get(f"seseragi-{field}".encode()):
            found[field] = value[0].decode("latin-1")
    options = convert_body(found, ChatOptions, path="")
    name = parsed.name if options.chat is None else name_of_chat(options.chat)
    if name is None:
        raise RequestError("invalid_request", "overlap: the request names no `chat`; send one")
    if parsed.name not in (None, name):
        raise RequestError(
            "invalid_request", "chat: the request names another in its own format; send one of them"
        )
    tags = parsed.tags if parsed.name or options.chat is None else {"chat": options.chat}
    chat = msgspec.structs.replace(parsed.chat, overlap=options.overlap)
    return msgspec.structs.replace(parsed, chat=chat, name=name, tags=tags)


async def _wait_for(
    request: Request, outcome: "asyncio.Future[RelayError | None]", timeout_s: float
) -> RelayError | None:
    """Return this request's outcome; after the timeout None, as if it had begun.

    Raises:
        ClientDisconnect: the client has disconnected.
    """

    def go_on() -> None:
        if not outcome.done():
            outcome.set_result(None)

    def leave() -> None:
        if not outcome.done():
            outcome.set_exception(ClientDisconnect())

    timer = asyncio.get_running_loop().call_later(timeout_s, go_on)
    try:
        with client_of(request).watch(leave):
            return await outcome
    finally:
        timer.cancel()


async def _failed_start(reader: Reader) -> RelayError | None:
    """Return the error of an ended stream that never reached a target; None if it did."""
    after = 0
    while events := await reader.read(after, timeout_s=0):
        if after == 0:
            reader.put_back(0, events)  # they are to be sent
        if any(isinstance(event, StreamTarget) for event in events):
            return None
        end = events[-1]
        if isinstance(end, StreamEnd):
            return RelayError.of(end.error) if end.error else None
        after = cursor_after(after, events)
    return None


async def _read_on(reader: Reader, events: list[Event], *, seconds: float) -> bool:
    """Add what comes within these seconds to the events; return whether the stream has ended."""
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    while not events or not isinstance(events[-1], StreamEnd):
        if (left := until - clock()) <= 0:
            return False
        events += await reader.read(len(events), timeout_s=left)
    return True


def _delivery_mode(request: Request, chat: ChatRequest, key: str | None) -> DeliveryMode:
    """Return the delivery that the head and the body of a request ask for."""
    on_disconnect = chat.on_disconnect
    return DeliveryMode(
        streams=chat.streams,
        respond_async=_prefers_async(request),
        seconds=on_disconnect if isinstance(on_disconnect, float | int) else 0,
        early_linger_s=None if key or on_disconnect is not None else 0,
    )


def _prefers_async(request: Request) -> bool:
    """Return whether there is `Prefer: respond-async` (RFC 7240), alone or in a list."""
    values = request.scope[REQUEST_HEADERS].get(b"prefer")
    if values is None:
        return False
    preferences = b",".join(values).decode("latin-1").split(",")
    return any(item.partition(";")[0].strip().lower() == "respond-async" for item in preferences)


def _idempotency_key(request: Request) -> str | None:
    """Return `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header)."""
    values = request.scope[REQUEST_HEADERS].get(b"idempotency-key")
    if values is None:
        return None
    key: str = values[0].decode("latin-1")
    if not re.fullmatch(r"[!-~]{1,255}", key):
        raise RequestError(
            "invalid_request", "Idempotency-Key: send 1 to 255 visible ASCII characters"
        )
    return key


def routes(parts: HttpParts) -> list[Route]:
    """Return the routes that start generations, one for each dialect."""

    async def messages(request: Request) -> Response:
        """Start a generation; the betas and the version in the headers are part of the request."""
        betas, version = ",".join(request.headers.getlist(BETA)), request.headers.get(VERSION, "")
        parse = partial(parse_messages, betas=betas, version=version)
        client_format = ANTHROPIC._replace(parse_request=parse)
        return await Generation(parts, client_format).post(request)

    return [
        *(
            Route(client_format.path, Generation(parts, client_format).post, methods=["POST"])
            for client_format in CLIENT_FORMATS.values()
            if client_format not in OWN
        ),
        Route(ANTHROPIC.path, messages, methods=["POST"]),
    ]
