"""HTTP responses: the same however they are cut, and as h11 reads what it accepts."""

import itertools
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import h11

from app.upstreams.response_parser import MAX_FIELDS, MAX_HEAD, NotHttp, ResponseParser
from tests.fuzz.target import CUTS, Target, check_linear, in_pieces, split


class Response(NamedTuple):
    """What a connection has brought."""

    status: int | None
    headers: dict[str, str]
    body: bytes
    complete: bool
    """Before the connection was closed."""
    failed: str
    excess: bool
    keeps_alive: bool


class Peer(NamedTuple):
    """A response as h11 reads it; `usable` unless it refuses it."""

    usable: bool
    status: int | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    complete: bool = False
    after: bytes = b""


def check(data: bytes) -> None:
    choice, wire = split(data)
    whole = read([wire])
    in_parts = read(in_pieces(wire, CUTS[choice % len(CUTS)]))
    assert whole == in_parts, f"in pieces of {CUTS[choice % len(CUTS)]}"
    check_peer(wire, whole)
    size = CUTS[choice >> 5]
    check_linear(lambda grown: read(in_pieces(wire[:200] + grown, size)), wire)


def read(pieces: Iterable[bytes]) -> Response:
    """Read one response as a connection does: bytes after it are only noticed."""
    parser, body = ResponseParser(), b""
    for piece in pieces:
        body += parser.feed(piece)
        head, failure = parser.head, parser.failure
        assert head is None or 200 <= head.status <= 599
        assert failure is None or head is not None or isinstance(failure, NotHttp)
        if parser.complete or failure is not None:
            break
    complete = parser.complete
    parser.close()
    assert complete <= parser.complete
    assert parser.complete or parser.failure is not None
    failed = type(parser.failure).__name__ if parser.failure is not None else ""
    assert len(str(parser.failure)) < 300
    head = parser.head
    assert not body or head is not None
    if failed == "NotHttp":
        return Response(None, {}, b"", complete, failed, False, False)
    return Response(
        None if head is None else head.status,
        {} if head is None else head.headers,
        body,
        complete,
        failed,
        False,
        parser.keeps_alive and complete,
    )


def read_with_h11(wire: bytes) -> Peer:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=2 * MAX_HEAD)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    connection.send(h11.EndOfMessage())
    status: int | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body = b""
    try:
        connection.receive_data(wire)
        for end in (False, True):
            if end and connection.trailing_data[1] is False:
                connection.receive_data(b"")
            while True:
                event: Any = connection.next_event()
                if isinstance(event, h11.Response):
                    status = event.status_code
                    headers = tuple(itertools.islice(event.headers, 1000))
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    after = connection.trailing_data[0]
                    return Peer(True, status, headers, body, not end, after)
                elif not isinstance(event, h11.InformationalResponse):
                    break
        return Peer(True, status, headers, body)
    except h11.RemoteProtocolError:
        return Peer(False)


def check_peer(wire: bytes, found: Response) -> None:
    """Assert that both read the same, where both take it: nobody can put a response into another."""
    expected = read_with_h11(wire)
    if not expected.usable or expected.status is None or found.failed:
        return  # either may refuse more: it is a failed call
    assert expected.status == found.status
    names = [name.decode("latin-1") for name, _ in expected.headers]
    assert [*dict.fromkeys(names)] == [*found.headers]
    first = dict(reversed(expected.headers))
    for name, value in first.items():
        read, text = found.headers[name.decode("latin-1")], value.decode("utf-8", "surrogateescape")
        if name == b"transfer-encoding":
            text, read = text.lower(), read.lower()
        if FOLD.search(wire):  # h11 writes a space for it, where here its white space stays
            text, read = " ".join(text.split()), " ".join(read.split())
        assert text == read
    assert len(names) <= MAX_FIELDS
    if expected.complete == found.complete:
        assert expected.body == found.body
    else:
        raise AssertionError(f"complete: {expected.complete} in h11, here {found.complete}")


FOLD = re.compile(rb"\n[ \t]")
"""Where the next line continues a field (RFC 9112, 5.2)."""

HEAD = b"HTTP/1.1 200 OK\r\n"
TARGET = Target(
    check,
    seeds=(
        b"\x00" + HEAD + b"Content-Type: text/event-stream\r\nContent-Length: 9\r\n\r\ndata: a\n\n",
        b"\x01" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\r\n",
        b"\x02HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"content-length: 2\r\n\r\nab",
        b"\x03HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nabc",
        b"\x3fHTTP/1.1 204 No Content\r\nA: \xe9\r\na:  b \r\n\r\n",
        b"\x04" + HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\nx: y\r\n\r\n" + HEAD,
        b"\x05HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"\x06" + HEAD + b"Content-Length : 3\nX:\n y\n\nabc",
    ),
    tokens=(
        *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 ", b"HTTP/1.0 ", b"\r\n", b"\n", b"\r", b"\r\n\r\n"),
        *(b"Content-Length: ", b"Transfer-Encoding: ", b"chunked", b"identity", b"gzip", b", "),
        *(
            b"Connection: close\r\n",
            b"0\r\n\r\n",
            b"5\r\nabcde\r\n",
            b"FFFFFFFF",
            b";a=b",
            b" ",
            b"\t",
        ),
        *(b"100", b"101", b"204", b"304", b"\x00", b"\xff", b":", b"a: b\r\n"),
    ),
)
