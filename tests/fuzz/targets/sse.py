"""Server-sent events: our decoder, beside the standard read plainly, and the lenient one."""

import re
from itertools import chain

from app.framing.lenient import MAX_RAW, LenientDecoder
from app.framing.sse import MAX_RETRY_MS, Decoder, Message, encode
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
    expected = reference(body)
    found, rest, failure = check_cuts(Decoder, body, choice)
    assert ("", expected) == (failure, (found, rest))
    match choice >> 6:
        case 0:
            check_extension(body, found, choice)
            check_round_trip(found)
        case 1:
            check_cuts(limited, body, choice)
            # A line, an event's data and what is beside it, each within the limit.
            check_memory(limited(), body, limit=5 * LIMIT, choice=choice)
        case 2:
            check_cuts(limited_lenient, body, choice)
            check_memory(limited_lenient(), body, limit=5 * LIMIT + MAX_RAW, choice=choice)
        case _:
            size = CUTS[choice >> 3 & 7]
            check_linear(lambda grown: decode(Decoder(), in_pieces(grown, size)), body)
            check_linear(lambda grown: decode(LenientDecoder(), in_pieces(grown, size)), body)


def limited() -> Decoder:
    return Decoder(max_line=LIMIT, max_event=LIMIT)


def limited_lenient() -> LenientDecoder:
    return LenientDecoder(max_line=LIMIT, max_event=LIMIT)


def check_extension(body: bytes, found: list[Message], choice: int) -> None:
    """Assert that leniency adds messages, and takes none of the standard's."""
    more = check_cuts(LenientDecoder, body, choice)[0]
    if body.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")[:1] in (b"{", b"["):
        return  # a document
    left = iter(more)
    assert all(any(one == other for other in left) for one in found)


def check_round_trip(found: list[Message]) -> None:
    events = [one for one in found if "\r" not in one.data and one.id]
    wire = b"".join(encode(one.data, event=one.event, id=one.id, retry=one.retry) for one in events)
    again = decode(Decoder(), [wire])[0]
    assert [(one.event, one.data, one.id) for one in events] == [
        (one.event, one.data, one.id) for one in again
    ]


def reference(wire: bytes) -> tuple[list[Message], Message | None]:
    """Read a stream as WHATWG HTML 9.2.6 says, all of it at hand and decoded first."""
    *lines, rest = re.split(r"\r\n|\r|\n", wire.decode(errors="replace").removeprefix("\ufeff"))
    found: list[Message] = []
    data, event, last_id, retry = list[str](), "", "", None
    for line in chain(lines, [rest] if rest else []):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                found.append(Message(event or "message", "\n".join(data), last_id, retry))
            data, event = [], ""
        elif field == "data":
            data.append(value)
        elif field == "event":
            event = value
        elif field == "id" and "\0" not in value:
            last_id = value
        elif field == "retry" and re.fullmatch("[0-9]+", value):
            retry = int(min(float(value), MAX_RETRY_MS))
    unfinished = Message(event or "message", "\n".join(data), last_id, retry) if data else None
    return found, unfinished


TARGET = Target(
    check,
    seeds=(
        b"\x00data: a\n\ndata: b\ndata: c\n\n",
        b"\x81\xef\xbb\xbfevent: x\rid: 1\rretry: 12\rdata\r\rdata:b",
        b"\x02: hb\ndata: \xe2\x80\xa8\xf0\x9f\x98\x80\r\n\r\ndata: [DONE]\n\n",
        b'\x03{"error": {\n"code": 1}}\n',
        b'\xffdata: {"a": 1}\n\n{"error":\n {"a": "}"}}\nerror: x\nid: a\n\n',
        b'\xbf\n [{"a": "]"},\n{"b": []}]',
        b"\x44id: \x00\nid: 7\nevent: \ndata: x\n\n: a\n\n",
        b"\x44data: \x00\x00\x00\x00id: %bx\n\n: a\n\n" % (b"\xee" * 11),
    ),
    tokens=(
        *(b"data:", b"data: ", b"event: ", b"id: ", b"retry: ", b": hb\n", b"error: ", b"[DONE]"),
        *(b"\n", b"\r", b"\r\n", b"\n\n", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x00", b"{", b"}"),
        *(b"[", b"]", b'"', b"\\", b'"\\"', b"9" * 300, b"\xff", b"\xf0\x9f"),
    ),
)
