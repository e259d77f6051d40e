"""The parser of responses: the same however it is split, and its bounds."""

from collections.abc import Iterable

import pytest

from app.upstreams.response_parser import MAX_FIELDS, MAX_HEAD, ResponseParser

pytestmark = pytest.mark.pure

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
OF_CHUNKS = {"transfer-encoding": "chunked"}
NOT_HTTP = ("NotHttp",)
RESPONSES = {
    "chunks": (CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", (200, OF_CHUNKS, b"abcde", "kept")),
    "chunk extensions and trailers": (
        CHUNKED + b"3;a=b\r\nabc\r\n0\r\nx: y\r\n\r\n",
        (200, OF_CHUNKS, b"abc", "kept"),
    ),
    "spaces after a chunk's size": (
        CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n",
        (200, OF_CHUNKS, b"abc", "kept"),
    ),
    "chunks without end": (
        CHUNKED + b"3\r\nabc\r\n2\r\nd",
        (200, OF_CHUNKS, b"abcd", "RemoteProtocolError"),
    ),
    "bad chunk size": (
        CHUNKED + b"3\r\nabc\r\nxyz\r\n",
        (200, OF_CHUNKS, b"abc", "RemoteProtocolError"),
    ),
    "length": (
        HEAD + b"Content-Length: 5\r\n\r\nabcde",
        (200, {"content-length": "5"}, b"abcde", "kept"),
    ),
    "length 0": (
        HEAD + b"Content-Length: 0\r\n\r\n",
        (200, {"content-length": "0"}, b"", "kept"),
    ),
    "too short": (
        HEAD + b"Content-Length: 9\r\n\r\nabcde",
        (200, {"content-length": "9"}, b"abcde", "RemoteProtocolError"),
    ),
    "two lengths": (
        HEAD + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde",
        NOT_HTTP,
    ),
    "bad length": (HEAD + b"Content-Length: 5x\r\n\r\nabcde", NOT_HTTP),
    "length and chunks": (
        HEAD + b"Content-Length: 5\r\n" + CHUNKED[len(HEAD) :] + b"0\r\n\r\n",
        NOT_HTTP,
    ),
    "until the close": (HEAD + b"\r\nabcde", (200, {}, b"abcde", "closed")),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nabcde", (200, {}, b"abcde", "closed")),
    "asked to close": (
        HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nab",
        (200, {"connection": "close", "content-length": "2"}, b"ab", "closed"),
    ),
    "interim": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n"
        + CHUNKED
        + b"3\r\nabc\r\n0\r\n\r\n",
        (200, OF_CHUNKS, b"abc", "kept"),
    ),
    "no content": (b"HTTP/1.1 204 No Content\r\nx: y\r\n\r\n", (204, {"x": "y"}, b"", "kept")),
    "fields": (
        HEAD + b"A: \xe9\r\na: b \t\r\nEmpty:\r\nB:\tc \t\r\nContent-Length: 0\r\n\r\n",
        (200, {"a": "\udce9", "empty": "", "b": "c", "content-length": "0"}, b"", "kept"),
    ),
    "NUL": (HEAD + b"A: b\0c\r\nContent-Length: 0\r\n\r\n", NOT_HTTP),
    "lines end with LF": (
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nab",
        (200, {"content-length": "2"}, b"ab", "kept"),
    ),
    "unfinished head": (HEAD + b"Content-Le", ("RemoteProtocolError",)),
    "no coding": (
        HEAD + b"Transfer-Encoding: identity\r\n\r\nabc",
        (200, {"transfer-encoding": "identity"}, b"abc", "closed"),
    ),
    "another coding": (HEAD + b"Transfer-Encoding: gzip\r\n\r\nabc", NOT_HTTP),
    "another coding in chunks": (
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        NOT_HTTP,
    ),
    "chunks before another coding": (
        HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        NOT_HTTP,
    ),
    "a coding that ends like chunks": (
        HEAD + b"Transfer-Encoding: xchunked\r\n\r\nabc",
        NOT_HTTP,
    ),
    "two codings": (
        HEAD + b"Transfer-Encoding: identity\r\n" + CHUNKED[len(HEAD) :] + b"3\r\nabc\r\n0\r\n\r\n",
        (200, {"transfer-encoding": "identity"}, b"abc", "kept"),
    ),
    "two codings without end": (
        HEAD + b"Transfer-Encoding: identity\r\n" + CHUNKED[len(HEAD) :] + b"3\r\nab",
        (200, {"transfer-encoding": "identity"}, b"ab", "RemoteProtocolError"),
    ),
    "another coding before chunks without end": (
        HEAD + b"Transfer-Encoding: gzip\r\n" + CHUNKED[len(HEAD) :] + b"3\r\nab",
        NOT_HTTP,
    ),
    "a space before the colon, without end": (
        HEAD + b"Transfer-Encoding : chunked\r\n\r\n3\r\nab",
        (200, OF_CHUNKS, b"ab", "RemoteProtocolError"),
    ),
    "a space before the colon, too short": (
        HEAD + b"Content-Length : 9\r\n\r\nabcde",
        (200, {"content-length": "9"}, b"abcde", "RemoteProtocolError"),
    ),
    "status 000": (b"HTTP/1.1 000 No\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    "status 099": (b"HTTP/1.1 099 No\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    "status 600": (b"HTTP/1.1 600 No\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    "status 999": (b"HTTP/1.1 999 No\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    "status 599": (
        b"HTTP/1.1 599 No\r\nContent-Length: 2\r\n\r\nab",
        (599, {"content-length": "2"}, b"ab", "kept"),
    ),
    "interim with a body": (
        b"HTTP/1.1 199 Hints\r\nContent-Length: 3\r\n\r\nxyz" + CHUNKED + b"3\r\nabc\r\n0\r\n\r\n",
        NOT_HTTP,
    ),
    "interim in chunks": (
        b"HTTP/1.1 199" + CHUNKED[12:] + b"1\r\nx\r\n0\r\n\r\n" + CHUNKED + b"0\r\n\r\n",
        NOT_HTTP,
    ),
    "interim of length 0": (
        b"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n" + CHUNKED + b"0\r\n\r\n",
        (200, OF_CHUNKS, b"", "kept"),
    ),
    "switch": (
        b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc",
        NOT_HTTP,
    ),
    "switch to nothing": (b"HTTP/1.1 101 Go\r\n\r\n", NOT_HTTP),
    "not HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", NOT_HTTP),
    "TLS": (b"\x15\x03\x03\x00\x02\x02\x28", NOT_HTTP),
    "nothing": (b"", ("RemoteProtocolError",)),
}


def run(pieces: Iterable[bytes]) -> tuple[object, ...]:
    """Return what the parser made of the pieces: the head, the body, and how it ended."""
    parser = ResponseParser()
    body = b""
    for piece in pieces:
        body += parser.feed(piece)
        if parser.failure is not None or parser.complete:
            break
    parser.close()
    end = "kept" if parser.keeps_alive else "closed"
    if parser.failure is not None:
        end = type(parser.failure).__name__
    head = parser.head
    return (end,) if head is None else (head.status, head.headers, body, end)


@pytest.mark.parametrize("name", RESPONSES)
def test_response_is_read_the_same_however_it_is_split(name: str) -> None:
    raw, expected = RESPONSES[name]
    splits = [[raw[:at], raw[at:]] for at in range(len(raw))]
    splits += [[raw], [raw[at : at + 1] for at in range(len(raw))]]

    for pieces in splits:
        assert expected == run(pieces)


def test_connection_parses_one_response_after_the_other() -> None:
    parser = ResponseParser()
    for _ in range(3):
        parser.begin()
        assert not parser.complete
        assert b"abcde" == parser.feed(RESPONSES["chunks"][0])
        assert (True, False) == (parser.complete, parser.excess)


@pytest.mark.parametrize("name", ["chunks", "length", "asked to close", "no content"])
@pytest.mark.parametrize("after", ["length", "chunks", "not HTTP"])
def test_bytes_after_a_response_are_noted_and_are_not_of_its_body(name: str, after: str) -> None:
    parser = ResponseParser()
    raw, expected = RESPONSES[name]

    body = parser.feed(raw + RESPONSES[after][0])

    assert (expected[2], True, True) == (body, parser.complete, parser.excess)


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
def test_input_without_a_body_is_bounded(begun: bytes, piece: bytes) -> None:
    parser = ResponseParser()
    parser.feed(begun)

    taken = 0
    while parser.failure is None and taken < 2 * MAX_HEAD:
        parser.feed(piece)
        taken += len(piece)

    assert taken <= max(MAX_HEAD, MAX_FIELDS * len(piece)) + len(piece)


@pytest.mark.parametrize("fold", [b"\r\n ", b"\n\t", b"\r\n a"])
def test_a_field_continued_over_many_lines_is_not_parsed_to_its_end(fold: bytes) -> None:
    parser = ResponseParser()
    parser.feed(HEAD + b"a: b" + fold * (2**18 // len(fold)) + b"\r\n\r\nbody")

    assert parser.head is None
    assert "without a body" in str(parser.failure)


def test_a_long_read_with_a_short_head_is_parsed_at_once() -> None:
    parser, body = ResponseParser(), b"x" * 200_000
    head = HEAD + b"a: b\r\n c\r\ncontent-length: 200000\r\n\r\n"

    assert body == parser.feed(head + body)
    assert parser.complete
    assert parser.head is not None
    assert "bc" == parser.head.headers["a"].replace(" ", "")
