"""Newline-delimited JSON: nothing of a body is lost, and every whole line is a message."""

import json

from app.framing.ndjson import NdjsonDecoder, escape_line_ends
from tests.fuzz.target import (
    CUTS,
    Target,
    check_cuts,
    check_linear,
    check_memory,
    decode,
    in_pieces,
    split,
)

LIMIT = 40


def check(data: bytes) -> None:
    choice, body = split(data)
    found, rest, failure = check_cuts(NdjsonDecoder, body, choice)
    assert not failure
    whole = [line.rstrip(b" \t\r") for line in body.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    lines = [line.decode(errors="replace") for line in whole if line]
    joined = "\n".join(one.data for one in (*found, *([rest] if rest else [])))
    last = lines[-1:] if not joined.endswith(lines[-1] if lines else "") else []
    assert not last or not last[0].strip(), "only a last line of white space is no message"
    assert lines[: len(lines) - len(last)] == (joined.split("\n") if joined else [])
    assert all(one.event == "message" and one.data for one in found)
    if lines and lines[0][0] in "[{" and is_json("\n".join(lines)):
        assert len(found) + (rest is not None) == 1, "one document over several lines"
    if all(map(is_json, lines)):
        assert lines == [one.data for one in (*found, *([rest] if rest else []))]
    match choice >> 6:
        case 0:
            check_escapes(body)
        case 1 | 2:
            check_cuts(limited, body, choice)
            check_memory(limited(), body, limit=3 * LIMIT, choice=choice)
        case _:
            size = CUTS[choice >> 3 & 7]
            check_linear(lambda grown: decode(NdjsonDecoder(), in_pieces(grown, size)), body)


def limited() -> NdjsonDecoder:
    return NdjsonDecoder(max_line=LIMIT, max_event=LIMIT)


def is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def check_escapes(body: bytes) -> None:
    """Assert that a text's line ends cannot forge a line, and that the text stays the same."""
    text = body.decode(errors="replace")
    escaped = escape_line_ends(json.dumps(text, ensure_ascii=False).encode())
    assert len(escaped.decode().splitlines()) == 1
    assert text == json.loads(escaped)


TARGET = Target(
    check,
    seeds=(
        b'\x00{"a":1}\n{"b":[2]}\n',
        b'\x41\xef\xbb\xbf{\r\n "a": "}"\r\n}\r\n\r\n{"b":1}',
        b'\xff{"a": "\xe2\x80\xa8"}\nno json\n{"a": "\\"{"}\n',
        b"\x02[[\n],\n[]]",
        b'\x03"a\n"\n \n1\n',
    ),
    tokens=(
        *(b"{", b"}", b"[", b"]", b'"', b"\\", b"\n", b"\r\n", b" ", b"\t", b"\xef\xbb\xbf"),
        *(b'{"a":1}', b'"}"', b"\xe2\x80\xa8", b"\xc2\x85", b"null", b"1e9", b"\xff"),
    ),
)
