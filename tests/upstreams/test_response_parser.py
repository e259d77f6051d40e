"""Our parser of responses beside aiohttp's, and its bounds."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpResponseParser
from aiohttp.http_exceptions import HttpProcessingError

from app.upstreams.response_parser import MAX_FIELDS, MAX_HEAD, ResponseParser

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
RESPONSES = {
    "chunks": CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    "chunk extensions and trailers": CHUNKED + b"3;a=b\r\nabc\r\n0\r\nx: y\r\n\r\n",
    "spaces after a chunk's size": CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n",
    "chunks without end": CHUNKED + b"3\r\nabc\r\n2\r\nd",
    "bad chunk size": CHUNKED + b"3\r\nabc\r\nxyz\r\n",
    "length": HEAD + b"Content-Length: 5\r\n\r\nabcde",
    "length 0": HEAD + b"Content-Length: 0\r\n\r\n",
    "too short": HEAD + b"Content-Length: 9\r\n\r\nabcde",
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde",
    "bad length": HEAD + b"Content-Length: 5x\r\n\r\nabcde",
    "length and chunks": HEAD + b"Content-Length: 5\r\n" + CHUNKED[len(HEAD) :] + b"0\r\n\r\n",
    "until the close": HEAD + b"\r\nabcde",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\nabcde",
    "asked to close": HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nab",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n"
    + CHUNKED
    + b"3\r\nabc\r\n0\r\n\r\n",
    "no content": b"HTTP/1.1 204 No Content\r\nx: y\r\n\r\n",
    "fields": HEAD + b"A: \xe9\r\na: b \t\r\nEmpty:\r\nB:\tc\r\nContent-Length: 0\r\n\r\n",
    "NUL": HEAD + b"A: b\0c\r\nContent-Length: 0\r\n\r\n",
    "lines end with LF": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nab",
    "unfinished head": HEAD + b"Content-Le",
    "other encoding": HEAD + b"Transfer-Encoding: gzip\r\n\r\nabc",
    "switch": b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc",
    "not HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "TLS": b"\x15\x03\x03\x00\x02\x02\x28",
    "nothing": b"",
}


class Protocol(BaseProtocol):
    def __init__(self, parser: Any) -> None:
        super().__init__(asyncio.get_running_loop(), parser)


def ours() -> Any:
    parser = ResponseParser(Protocol(None), on_end=lambda: None)  # type: ignore[arg-type]
    parser.begin(limit=2**18)
    return parser


def theirs() -> Any:
    loop = asyncio.get_running_loop()
    return HttpResponseParser(
        Protocol(None), loop, 2**18, read_until_eof=True, auto_decompress=False
    )


def run(parser: Any, pieces: Iterable[bytes]) -> list[Any]:
    """Return what the parser made of the pieces: heads, bodies, and how it ended."""
    found: list[Any] = []
    payload: Any = None
    try:
        for piece in pieces:
            messages, upgraded, _ = parser.feed_data(piece)
            for message, body in messages:
                payload = body
                fields = [(name.lower(), value) for name, value in message.headers.items()]
                found.append((message.version, message.code, fields, message.should_close))
            if upgraded:
                return found
        parser.feed_eof()
    except HttpProcessingError:
        found.append("failed")
    if payload is not None:
        found.append((b"".join(getattr(payload, "_buffer", ())), payload.is_eof()))
    return found


@pytest.mark.parametrize("name", RESPONSES)
async def test_response_is_read_as_by_aiohttp_however_it_is_split(name: str) -> None:
    raw = RESPONSES[name]
    splits = [[raw[:at], raw[at:]] for at in range(len(raw))]
    splits += [[raw], [raw[at : at + 1] for at in range(len(raw))]]

    for pieces in splits:
        assert run(theirs(), pieces) == run(ours(), pieces)


async def test_connection_parses_one_response_after_the_other() -> None:
    parser = ours()
    for _ in range(3):
        parser.begin(limit=2**18)
        assert not parser.complete
        parser.feed_data(RESPONSES["chunks"])
        assert (True, False) == (parser.complete, parser.excess)

    parser.feed_data(b"HTTP/1.1 200")
    assert parser.excess


@pytest.mark.parametrize("name", ["chunks", "length", "asked to close", "no content"])
async def test_bytes_after_a_response_are_noted(name: str) -> None:
    parser = ours()
    parser.feed_data(RESPONSES[name] + RESPONSES["length"])

    assert (True, True) == (parser.complete, parser.excess)


@pytest.mark.parametrize(
    ("begun", "piece"),
    [
        (b"", b"\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 ", b"x" * 1000),
        (HEAD, b"a: b\r\n"),
        (HEAD + b"a: ", b"x" * 1000),
        (CHUNKED + b"0\r\n", b"a: b\r\n"),
        (CHUNKED + b"0\r\na: ", b"x" * 1000),
        (CHUNKED + b"3;a=", b"x" * 1000),
    ],
)
async def test_input_without_a_body_is_bounded(begun: bytes, piece: bytes) -> None:
    parser = ours()
    parser.feed_data(begun)

    def feed() -> int:
        for taken in range(0, 2 * MAX_HEAD, len(piece)):
            try:
                parser.feed_data(piece)
            except HttpProcessingError:
                return taken
        raise AssertionError

    assert feed() <= max(MAX_HEAD, MAX_FIELDS * len(piece))
