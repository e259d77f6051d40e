"""Bodies that break the rules of server-sent events, as providers send them."""

import random

import pytest

from app.framing.lenient import MAX_RAW, LenientDecoder
from app.framing.sse import BOM, FramingError, Message
from tests.framing.cases import GROUPS, Case
from tests.framing.feeding import assert_read, decode, in_pieces

pytestmark = pytest.mark.pure


def m(data: str, event: str = "message") -> Message:
    return Message(event, data)


PRETTY = '{\n  "error": {\n    "message": "a \\"}\\" b",\n    "list": [\n      {}\n    ]\n  }\n}'

CASES = [
    ("nothing", b"", [], None),
    ("white-space", b" \r\n\n\t", [], None),
    ("an-event", b"data: a\n\n", [m("a")], None),
    ("an-unterminated-event", b"data: a", [], m("a")),
    ("a-document", b'{"a": 1}\n', [], m('{"a": 1}\n')),
    ("a-document-of-several-lines", b'{"a":\n\n1}', [], m('{"a":\n\n1}')),
    ("a-list", b'[{"a": 1}]', [], m('[{"a": 1}]')),
    ("a-document-after-a-bom", BOM + b"{}", [], m("{}")),
    ("a-document-after-white-space", b"\n \r\n\t{}", [], m("{}")),
    ("a-document-after-both", BOM + b"\n{}", [], m("{}")),
    ("a-document-that-is-cut", b'{"a":', [], m('{"a":')),
    ("a-document-with-a-cut-character", b'{"\xe3\x81', [], m('{"�')),
    ("a-document-that-holds-events", b'{"a":\ndata: b\n\n}', [], m('{"a":\ndata: b\n\n}')),
    ("an-event-after-a-bom", BOM + b"data: a\n\n", [m("a")], None),
    ("half-a-bom", BOM[:2] + b"\ndata: a\n\n", [m("a")], None),
    ("two-boms-are-no-document", BOM + BOM + b"{}\ndata: a\n\n", [m("a")], None),
    ("a-bom-after-white-space-is-none", b"\n" + BOM + b"{}\n", [], None),
    ("html", b"<html>\n<body>{}</body>\n</html>", [], None),
    (
        "the-error-field-of-llama.cpp",
        b'data: a\n\nerror: {"code":500}\n\ndata: [DONE]\n\n',
        [m("a"), m('{"code":500}', "error"), m("[DONE]")],
        None,
    ),
    ("an-error-field-without-space", b"error:x\n", [m("x", "error")], None),
    ("an-error-field-at-the-end", b"error: x", [], m("x", "error")),
    ("an-error-field-inside-an-event", b"data: a\nerror: x\n\n", [m("x", "error"), m("a")], None),
    ("no-error-field", b"error\nerrors: x\n", [], None),
    ("json-on-a-line", b'data: a\n\n{"b": 1}\n\n', [m("a"), m('{"b": 1}')], None),
    ("a-list-on-a-line", b"data: a\n\n[1]\n\n", [m("a"), m("[1]")], None),
    ("json-at-the-end", b"data: a\n\n{}", [m("a")], m("{}")),
    ("json-before-an-event", b"data: a\n\n{}\ndata: b\n\n", [m("a"), m("{}"), m("b")], None),
    (
        "json-on-many-lines",
        b"data: a\n\n" + PRETTY.encode() + b"\ndata: b\n\n",
        [m("a"), m(PRETTY), m("b")],
        None,
    ),
    ("json-on-many-lines-at-the-end", b":\n" + PRETTY.encode(), [], m(PRETTY)),
    ("json-that-is-cut", b':\n{"a": "b}', [], m('{"a": "b}')),
    ("json-that-is-cut-after-a-line", b":\n{\n  1,\n", [], m("{\n  1,")),
    ("json-with-an-odd-escape", b':\n{"a": "\\\\"}\n', [m('{"a": "\\\\"}')], None),
    ("a-closing-bracket-alone", b":\n}\ndata: a\n\n", [m("a")], None),
    ("an-event-amid-json-that-goes-on", b":\n{\ndata: a\n\n}\n", [m("a"), m("{\n}")], None),
    ("an-event-is-cut-beside-json", b":\n{\ndata: a", [], m("a")),
]


@pytest.mark.parametrize(
    ("wire", "messages", "rest"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_what_providers_send_is_read(
    wire: bytes, messages: list[Message], rest: Message | None
) -> None:
    assert_read(LenientDecoder, wire, messages, rest)


@pytest.mark.parametrize("cases", GROUPS.values(), ids=GROUPS)
def test_what_the_standard_says_holds_here_too(cases: list[Case]) -> None:
    for case in cases:
        if b"error:" in case.wire:
            continue
        randomly = random.Random(case.name)
        cuts = randomly.choices(range(len(case.wire) + 1), k=5)
        for pieces in ([case.wire], in_pieces(case.wire, cuts)):
            found = decode(LenientDecoder, pieces)
            assert (case.name, case.messages, case.rest) == (case.name, *found)


def test_a_document_has_the_limit_of_an_event() -> None:
    decoder = LenientDecoder(max_event=10)
    assert decoder.feed(b'{"a": "bcd') == []

    with pytest.raises(FramingError, match="JSON longer than the limit of 10 bytes"):
        decoder.feed(b'"')
    with pytest.raises(FramingError, match="JSON longer"):
        decoder.feed(b"}")
    with pytest.raises(FramingError, match="JSON longer"):
        decoder.close()


def test_lines_and_events_keep_their_limits() -> None:
    with pytest.raises(FramingError, match="a line is longer"):
        LenientDecoder(max_line=5).feed(b"data: a\n\n")
    with pytest.raises(FramingError, match="an event is longer"):
        LenientDecoder(max_event=2).feed(b"data: abc\n\n")


def test_json_without_data_is_bounded() -> None:
    decoder = LenientDecoder()
    line = b'{"a": "' + b"x" * 1000 + b'",\n'
    assert decoder.feed(b":\n" + line) == []

    with pytest.raises(FramingError, match=f"longer than {MAX_RAW} bytes"):
        decoder.feed(line * 70)


def test_a_long_string_that_never_ends_takes_no_time() -> None:
    decoder = LenientDecoder()

    assert decoder.feed(b':\n{"' + b'\\"' * 30_000 + b"\n") == []


STRANGE = {
    b"": False,
    b" \r\n": False,
    b"\xef\xbb\xbf": False,
    b"It works!": True,
    b"It works!\n": True,
    b"<html>\n<p>a: b</p>\n</html>\n": True,
    b": hello\n\n": False,
    b": hello\n\noops\n": True,
    b"event: a\n\n": False,
    b"retry: 5\n": False,
    b"dat": False,
    b"data: a": False,
    b"data: a\n\n": False,
    b'{"a":': False,
    b"error: a\n": False,
}


@pytest.mark.parametrize("body", STRANGE)
def test_a_body_that_is_no_stream_is_known_however_it_is_cut(body: bytes) -> None:
    for at in range(len(body) + 1):
        decoder = LenientDecoder()
        for piece in (body[:at], body[at:]):
            decoder.feed(piece)
        decoder.close()
        assert decoder.malformed == STRANGE[body]
