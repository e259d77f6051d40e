"""Work that is measured: parsing, rendering, reading and building, by the size of a shape."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from app import events as e
from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.native.client.renderer import compact
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import UpstreamError
from app.framing.sse import FramingError
from app.requests import ChatRequest
from tests.dialects.clients import HEAD, STREAM
from tests.dialects.cost import Make
from tests.dialects.request_shapes import BUILDERS, REQUESTS
from tests.dialects.request_shapes import Shape as RequestShape
from tests.dialects.shapes import ANSWERS, Shape

READ = 16 * 1024


def play(dialect: str, pieces: Iterable[bytes], *, limit: int = 2**24) -> list[e.Event]:
    """Return the events of a body as an attempt takes them, with all that it asks on the way."""
    spoken = UPSTREAM_FORMATS[dialect]
    decoder = spoken.decoder(max_line=limit, max_event=limit)
    parser = spoken.parser(upstream="u")
    found: list[e.Event] = []
    try:
        for piece in pieces:
            for message in decoder.feed(piece):
                found += parser.feed(message)
            if parser.ended:
                return found
            assert parser.finished in (True, False)
        found += parser.close(decoder.close())
    except FramingError as error:
        found += parser.cut(UpstreamError("upstream_invalid_response", str(error)))
    assert parser.ended
    return found


def pieces(body: bytes, size: int = READ) -> Iterator[bytes]:
    return (body[at : at + size] for at in range(0, len(body), size))


def parse(dialect: str, shape: Shape, *, read: int = READ) -> Make:
    def make(size: int) -> Callable[[], object]:
        body = shape(size)
        return lambda: play(dialect, pieces(body, read))

    return make


@functools.lru_cache(maxsize=4)
def answer(name: str, size: int) -> list[e.Event]:
    return HEAD + ANSWERS[name](size)


def write(client_format: str, name: str) -> Make:
    """Write the frames of an answer."""

    def make(size: int) -> Callable[[], object]:
        events = answer(name, size)

        def act() -> None:
            writer = CLIENT_FORMATS[client_format].writer(STREAM, after=0, retry_ms=2000)
            for event in events:
                writer.feed(event)

        return act

    return make


def render_result(client_format: str, name: str) -> Make:
    def make(size: int) -> Callable[[], object]:
        events = answer(name, size)
        return lambda: CLIENT_FORMATS[client_format].render_result(STREAM, events)

    return make


def snapshot(name: str) -> Make:
    def make(size: int) -> Callable[[], object]:
        events = answer(name, size)
        return lambda: compact(events)

    return make


def read(client_format: str, shape: Callable[[int], Any]) -> Make:
    """Read the request of a client."""

    def make(size: int) -> Callable[[], object]:
        body = msgspec.json.encode(shape(size))
        assert len(body) <= 8 * 2**20 + 2000
        return lambda: CLIENT_FORMATS[client_format].parse_request(body)

    return make


def refuse(client_format: str, piece: bytes) -> Make:
    """Read a body that is cut."""

    def make(size: int) -> Callable[[], object]:
        body = b'{"provider_options": {"a": [' + piece * (size // len(piece))
        return lambda: CLIENT_FORMATS[client_format].parse_request(body)

    return make


@functools.lru_cache(maxsize=2)
def request(name: str, size: int) -> ChatRequest:
    return REQUESTS[name][1](size)


def build(builder: str, name: str) -> Make:
    """Build the body for a provider."""
    dialect, quirks = BUILDERS[builder]
    render = UPSTREAM_FORMATS[dialect].render_request

    def make(size: int) -> Callable[[], object]:
        chat = request(name, size)
        return lambda: msgspec.json.encode(render(chat, model="claude-x", quirks=quirks).body)

    return make


def pass_on(shape: RequestShape) -> Make:
    """Read a request and pass it on to a provider of the client's own format."""
    (name,) = shape.client_formats
    row = UPSTREAM_FORMATS[name].passthrough[name]

    def make(size: int) -> Callable[[], object]:
        body = msgspec.json.encode(shape.body(size))

        def act() -> object:
            chat: Any = CLIENT_FORMATS[name].parse_request(body).chat
            return row.pass_on(chat.client_body)

        return act

    return make
