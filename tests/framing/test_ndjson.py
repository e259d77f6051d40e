"""Newline-delimited JSON, and what stands in its place, in every chunking."""

import json
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.framing.ndjson import NdjsonDecoder
from app.framing.sse import BOM, FramingError, Message
from tests.framing.feeding import (
    Result,
    assert_read,
    chunkings,
    decode_until_failure,
    in_bytes,
    in_pieces,
)
from tests.framing.feeding import decode as decode_by

pytestmark = pytest.mark.pure


def decode(pieces: Iterable[bytes]) -> Result:
    return decode_by(NdjsonDecoder, pieces)


def m(data: str) -> Message:
    return Message("message", data)


PRETTY = json.dumps({"a": {"b": ['}\\"', {}], "c": []}, "done": True}, indent=2)

CASES: list[tuple[str, bytes, list[Message], Message | None]] = [
    ("nothing", b"", [], None),
    ("line-ends-alone", b"\n\r\n \t\n", [], None),
    ("white-space-alone", b" \t", [], None),
    ("a-line", b'{"a":1}\n', [m('{"a":1}')], None),
    ("lines", b'{"a":1}\n{"b":2}\n', [m('{"a":1}'), m('{"b":2}')], None),
    ("crlf", b'{"a":1}\r\n{"b":2}\r\n', [m('{"a":1}'), m('{"b":2}')], None),
    ("blank-lines", b'\n{"a":1}\n\n \r\n{"b":2}\n\n', [m('{"a":1}'), m('{"b":2}')], None),
    ("space-around", b'  {"a":1} \t\n', [m('  {"a":1}')], None),
    ("cr-inside", b'{"a":\r1}\n', [m('{"a":\r1}')], None),
    ("unterminated", b'{"a":1}\n{"b":2}', [m('{"a":1}')], m('{"b":2}')),
    ("unterminated-before-lf", b'{"a":1}\r', [], m('{"a":1}')),
    ("cut", b'{"a":1}\n{"b', [m('{"a":1}')], m('{"b')),
    ("cut-in-a-character", b'{"a":"\xe3\x81', [], m('{"a":"\ufffd')),
    ("bad-utf-8", b'{"a":"\xff"}\n', [m('{"a":"\ufffd"}')], None),
    ("bom", BOM + b'{"a":1}\n', [m('{"a":1}')], None),
    ("bom-then-blank-line", BOM + b'\n{"a":1}\n', [m('{"a":1}')], None),
    ("bom-only-one", BOM + BOM + b"1\n", [m("\ufeff1")], None),
    ("bom-later", b"1\n" + BOM + b"2\n", [m("1"), m("\ufeff2")], None),
    ("bom-alone", BOM, [], None),
    ("half-a-bom", BOM[:2], [], m("\ufffd")),
    ("half-a-bom-and-a-line", BOM[:2] + b"\n1\n", [m("\ufffd"), m("1")], None),
    ("separators", '{"a":"x\u2028y\u2029z"}\n'.encode(), [m('{"a":"x\u2028y\u2029z"}')], None),
    ("next-line", '{"a":"x\x85y\x0bz"}\n'.encode(), [m('{"a":"x\x85y\x0bz"}')], None),
    ("scalars", b'1\n"a"\nnull\n', [m("1"), m('"a"'), m("null")], None),
    ("html", b"<html>\n<p>{}</p>", [m("<html>")], m("<p>{}</p>")),
    ("brackets-in-strings", b'{"a":"{[\\"{"}\n1\n', [m('{"a":"{[\\"{"}'), m("1")], None),
    ("half-a-surrogate-pair", b'{"a":"\\ud83d"}\n1\n', [m('{"a":"\\ud83d"}'), m("1")], None),
    ("not-quite-json", b"{'a':1,}\nNaN\n", [m("{'a':1,}"), m("NaN")], None),
    ("ends-inside-a-string", b'{"a":"b\n{"c":1}\n', [m('{"a":"b'), m('{"c":1}')], None),
    ("ends-after-a-backslash", b'{"a":"b\\\n{"c":1}\n', [m('{"a":"b\\'), m('{"c":1}')], None),
    ("closes-too-much", b"}]\n1\n", [m("}]"), m("1")], None),
    ("pretty", PRETTY.encode(), [], m(PRETTY)),
    ("pretty-terminated", PRETTY.encode() + b"\n", [m(PRETTY)], None),
    ("pretty-crlf", PRETTY.replace("\n", "\r\n").encode() + b"\r\n", [m(PRETTY)], None),
    ("pretty-twice", f"{PRETTY}\n{PRETTY}\n".encode(), [m(PRETTY), m(PRETTY)], None),
    ("pretty-then-a-line", f"{PRETTY}\n1\n".encode(), [m(PRETTY), m("1")], None),
    ("pretty-with-blank-lines", b'{\n\n"a":\n \n1}\n', [m('{\n"a":\n1}')], None),
    ("pretty-cut", b'{\n  "a": 1,\n  "b', [], m('{\n  "a": 1,\n  "b')),
    ("pretty-cut-after-a-line", b'{\n  "a": 1,\n', [], m('{\n  "a": 1,')),
    ("a-list-over-lines", b'[{"a":1},\n{"b":2}]\n', [m('[{"a":1},\n{"b":2}]')], None),
]


@pytest.mark.parametrize(
    ("wire", "messages", "rest"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_body_reads_the_same_however_it_is_cut(
    wire: bytes, messages: list[Message], rest: Message | None
) -> None:
    assert_read(NdjsonDecoder, wire, messages, rest)


def test_no_line_is_held_back() -> None:
    decoder = NdjsonDecoder()

    assert decoder.feed(b'{"a":1}\n{"b"') == [m('{"a":1}')]
    assert decoder.feed(b":2}\r") == []
    assert decoder.feed(b"\n") == [m('{"b":2}')]


def test_close_gives_the_same_again() -> None:
    decoder = NdjsonDecoder()
    decoder.feed(b"{\n1")

    assert m("{\n1") == decoder.close() == decoder.close()


junk: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(
    st.lists(st.tuples(junk, st.booleans(), st.sampled_from((None, 1, "\t"))), max_size=4),
    st.lists(st.integers(0, 400), max_size=8),
    st.sampled_from(("\n", "\r\n")),
)
def test_whatever_is_encoded_is_decoded(
    sent: list[tuple[Any, bool, Any]], cuts: list[int], end: str
) -> None:
    texts = [json.dumps(v, ensure_ascii=escape, indent=indent) for v, escape, indent in sent]
    wire = "".join(text.replace("\n", end) + end for text in texts).encode(errors="replace")
    found, rest = decode(in_pieces(wire, cuts))

    assert [json.loads(message.data) for message in found] == [value for value, _, _ in sent]
    assert rest is None


soups = st.lists(
    st.sampled_from([*in_bytes(b'\n\r {}[]":,1\\'), b'{"a":1}', b"\r\n", b"\xe2\x80\xa8", BOM]),
    max_size=40,
).map(b"".join)


@given(soups | st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_any_bytes_read_the_same_however_they_are_cut(wire: bytes, cuts: list[int]) -> None:
    whole = decode([wire])

    assert whole == decode(in_bytes(wire)) == decode(in_pieces(wire, cuts))
    for message in whole[0]:
        assert message.data.strip(" \t\r")


# Limits


def decode_within(pieces: Iterable[bytes], **limits: int) -> tuple[list[Message], str]:
    return decode_until_failure(partial(NdjsonDecoder, **limits), pieces)


@pytest.mark.parametrize("end", [b"\n", b"\n1\n", b""], ids=repr)
@pytest.mark.parametrize("before", [b"", b"1\n", b"1\r\n\n"], ids=repr)
def test_a_line_may_be_as_long_as_its_limit_and_no_longer(before: bytes, end: bytes) -> None:
    complete = [m("1")] if before else []
    for pieces in chunkings(before + b'"0123456"' + end):
        messages, failure = decode_within(pieces, max_line=9)
        assert (complete, "") == (messages[: len(complete)], failure)
        assert m('"0123456"') in messages
    for pieces in chunkings(before + b'"01234567"' + end):
        assert (complete, "a line is longer than the limit of 9 bytes") == decode_within(
            pieces, max_line=9
        )


@pytest.mark.parametrize("wire", [b'"012345678"', b"[\n1,\n2\n]  ", b"[\n1,\n2,\n3"], ids=repr)
@pytest.mark.parametrize("end", [b"\n", b""], ids=repr)
def test_a_message_may_be_as_long_as_its_limit_and_no_longer(wire: bytes, end: bytes) -> None:
    size = len(wire.rstrip())
    for pieces in chunkings(b"1\n" + wire + end):
        whole = [m("1"), m(wire.decode().rstrip())]
        assert (whole, "") == decode_within(pieces, max_event=size)
        too_long = f"a message is longer than the limit of {size - 1} bytes"
        assert ([m("1")], too_long) == decode_within(pieces, max_event=size - 1)


def test_a_line_without_end_is_refused_as_soon_as_it_is_too_long() -> None:
    decoder = NdjsonDecoder(max_line=5)
    assert decoder.feed(b"12345") == []

    with pytest.raises(FramingError, match=r"\Aa line is longer than the limit of 5 bytes\Z"):
        decoder.feed(b"6")


def test_every_message_has_the_whole_limit() -> None:
    assert decode_within([b"[\n1]\n" * 50], max_event=4) == ([m("[\n1]")] * 50, "")


def test_nesting_without_end_is_read() -> None:
    line = b"[" * 100_000 + b"]" * 100_000

    assert decode([line + b"\n"]) == ([m(line.decode())], None)
