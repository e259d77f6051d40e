"""The parts that endpoints share, and their common steps: bounded JSON bodies, and readers."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..dialects.client_format import ClientFormat
from ..errors import RequestError, shutting_down
from ..framing.content_coding import CODINGS, ContentDecoder, name_coding
from ..framing.sse import FramingError
from ..generation.hub import Hub
from ..generation.owned_streams import OwnedStream, OwnedStreams
from ..identity.tokens import Tokens
from ..policies.admission import RequestMemory, address_of
from ..requests import parse_body
from .checkpoints import Checkpoints
from .deliveries import Deliveries, OnWhole
from .event_stream import read_from
from .http_settings import HttpSettings
from .problems import UnsupportedCoding
from .request import NO_VALUE, PRINCIPAL, REQUEST_HEADERS, client_of, principal_of

MAX_OPTIONS: Final = 16_384
"""The most bytes of a body of options."""

UPLOAD_BYTES: Final = 26 * 2**20
"""The most bytes of a form, unless `max_request_bytes` is more: OpenAI takes files of 25 MB."""

TIMED_BYTES: Final = 4 * 2**20
"""Bytes that come within `body_timeout_s`: 1.1 Mbit/s, the uplink of a phone."""

JSON: Final = "application/json"
FORM: Final = "multipart/form-data"

T = TypeVar("T")


class HttpParts(NamedTuple):
    """The parts of all endpoints."""

    hub: Hub
    settings: HttpSettings
    tokens: Tokens | None
    deliveries: Deliveries
    checkpoints: Checkpoints


class Endpoints:
    """The endpoints of one subject."""

    def __init__(self, parts: HttpParts) -> None:
        self._hub, self._http_settings, self._tokens = parts[:3]
        self._deliveries, self._checkpoints = parts[3:]

    def _streams_of(self, request: Request) -> OwnedStreams:
        """Return the streams of the caller: the only way from a route to a stream."""
        scope = request.scope
        return self._hub.streams_of(scope[PRINCIPAL], request_id=scope.get("request_id", ""))

    async def _read_body(
        self,
        request: Request,
        memory: RequestMemory,
        *,
        max_bytes: int | None = None,
        may_be_empty: bool = False,
        form: bool = False,
    ) -> bytes:
        """Read a JSON body of at most `max_request_bytes`, and reserve its size in the memory.

        With `may_be_empty`, an empty body needs no content type. A `form` may have `UPLOAD_BYTES`.

        Raises:
            RequestError: `unsupported_media_type`, `request_too_large`, or `invalid_request`
                after `body_timeout_s`.
            ServiceError: `overloaded`, the relay stops or has no memory for it; `rate_limited`,
                the client has used its share of the memory.
            ClientDisconnect: the client disconnected before the end.
        """
        setting = "" if max_bytes else " (max_request_bytes)"
        if max_bytes is None:
            max_bytes = self._http_settings.max_request_bytes
        if form:
            max_bytes = max(max_bytes, UPLOAD_BYTES)
        headers = request.scope[REQUEST_HEADERS]
        content_type = headers.get(b"content-type", NO_VALUE)[0].decode("latin-1")
        media_type = content_type.partition(";")[0].strip().lower()
        too_large = partial(_too_large, max_bytes, setting)
        wanted = FORM if form else JSON
        if media_type != wanted and (form or not media_type.endswith("+json")):
            if not may_be_empty:
                raise _unsupported(media_type, wanted)
            max_bytes, too_large = 0, partial(_unsupported, media_type, wanted)
        coding = "identity"
        if b"content-encoding" in headers:
            coding = name_coding(b",".join(headers[b"content-encoding"]).decode("latin-1"))
        if coding != "identity" and coding not in CODINGS:
            raise UnsupportedCoding(
                "unsupported_media_type",
                f"the content coding {coding!r} is not supported; send the body as it is, or in "
                f"{', '.join(CODINGS)}",
            )
        length = headers.get(b"content-length", NO_VALUE)[0]
        if length.isdigit() and int(length[:15]) > max_bytes:
            raise too_large(int(length[:15]))
        body = client_of(request).take_body()  # nearly every body comes with its head
        if body is not None:
            if len(body) > max_bytes:
                raise too_large(len(body))
        else:
            body = await _wait(
                _read(request, memory, max_bytes, too_large, self._http_settings.body_timeout_s),
                stopping=self._hub.shutdown.stopping,
            )
        if coding == "identity":
            return body
        return await _decode(body, coding, memory, max_bytes, too_large)

    async def _read_options(
        self, request: Request, decoder: msgspec.json.Decoder[T], *, example: str
    ) -> T:
        """Read a small body in which every field is optional; it may be empty.

        Raises:
            RequestError, ServiceError, ClientDisconnect: as `_read_body` and `parse_body` do.
        """
        principal = principal_of(request)
        address = address_of(request.scope.get("client"), principal.share)
        with self._hub.admission.receive(address, principal.owner) as memory:
            body = await self._read_body(request, memory, max_bytes=MAX_OPTIONS, may_be_empty=True)
            return parse_body(body.strip() or b"{}", decoder, example=example)

    def _on_whole(self, request: Request, stream: str) -> OnWhole:
        """Return what follows a whole answer in a format that resumes by a name."""
        return partial(self._deliveries.confirm, stream, self._streams_of(request))

    def _retry_ms(self) -> int:
        """Return the reconnection time for a client, in milliseconds."""
        return self._http_settings.retry(spread=self._hub.shutdown.draining)

    def _first_read(self, stream: str, client_format: ClientFormat, after: int) -> int:
        """Return the cursor to look a stream up with, before `_read_stream`."""
        if not client_format.letter:
            return after
        checkpoint = self._checkpoints.find(stream, client_format.letter, after)
        return 0 if checkpoint is None else checkpoint.events

    async def _read_stream(
        self,
        request: Request,
        stream: OwnedStream,
        client_format: ClientFormat,
        *,
        after: int,
        counted: bool = True,
        **delivery: Any,
    ) -> Response:
        """Return a response of the frames of a stream after a cursor, as `read_from` does."""
        principal = principal_of(request)
        address = address_of(request.scope.get("client"), principal.share)
        own = principal.owner == stream.state.owner and principal.may != "watch"
        if client_format.replays and counted and own:
            delivery["on_whole"] = self._on_whole(request, stream.id)
        return await read_from(
            stream.attach(address, counted=counted).reader,
            client_format,
            after,
            http_settings=self._http_settings,
            retry_ms=self._retry_ms(),
            checkpoints=self._checkpoints,
            **delivery,
        )


async def _read(
    request: Request,
    memory: RequestMemory,
    max_bytes: int,
    too_large: Callable[..., RequestError],
    timeout_s: float,
) -> bytes:
    body, began_at = bytearray(), asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(timeout_s) as deadline:
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise too_large()
                if chunk:
                    memory.resize(len(body))
                    deadline.reschedule(began_at + timeout_s * (1 + len(body) / TIMED_BYTES))
    except TimeoutError:
        raise RequestError(
            "invalid_request",
            f"the body came too slowly: {len(body)} bytes; send it within {timeout_s:g} s, and "
            f"{timeout_s:g} s more for each {TIMED_BYTES // 2**20} MiB",
        ) from None
    return bytes(body)


async def _decode(
    body: bytes,
    coding: str,
    memory: RequestMemory,
    max_bytes: int,
    too_large: Callable[..., RequestError],
) -> bytes:
    decoder, decoded = ContentDecoder(coding), bytearray()
    try:
        for piece in decoder.feed(body):
            decoded += piece
            if len(decoded) > max_bytes:
                raise too_large()
            memory.resize(len(body) + len(decoded))
            await asyncio.sleep(0)  # a piece takes 0.1 ms, and a body has a thousand
        decoder.close()
    except FramingError as error:
        raise RequestError("invalid_request", f"the body cannot be decoded: {error}") from None
    return bytes(decoded)


async def _wait(reading: Coroutine[Any, Any, bytes], *, stopping: asyncio.Event) -> bytes:
    """Wait for a body until the relay stops."""
    task = asyncio.ensure_future(reading)
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
    finally:
        task.cancel()
        stopped.cancel()
    raise shutting_down()


def _too_large(max_bytes: int, setting: str, size: int | None = None) -> RequestError:
    shown = f"more than {max_bytes}" if size is None else size
    return RequestError(
        "request_too_large",
        f"the body of {shown} bytes is larger than the limit of {max_bytes} bytes{setting}",
    )


def _unsupported(media_type: str, wanted: str, _: int | None = None) -> RequestError:
    return RequestError(
        "unsupported_media_type",
        f"the content type is {repr(media_type) if media_type else 'missing'}; send "
        f"the header 'content-type: {wanted}'",
    )


def document(
    body: object, *, headers: Mapping[str, str] | None = None, status_code: int = 200
) -> Response:
    """Return a JSON response that must not be stored."""
    return Response(
        msgspec.json.encode(body),
        status_code,
        headers={"cache-control": "no-store", **(headers or {})},
        media_type="application/json",
    )
