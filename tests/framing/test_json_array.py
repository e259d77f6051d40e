"""A JSON array that grows: its elements are messages as soon as they are whole."""

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.framing.json_array import ELEMENT, END, JsonArrayDecoder
from app.framing.lenient import LenientDecoder
from app.framing.sse import BOM, FramingError, Message
from tests.framing import test_lenient
from tests.framing.feeding import assert_read, decode, decode_until_failure, in_bytes, in_pieces

pytestmark = pytest.mark.pure


def e(*elements: str) -> list[Message]:
    return [Message(ELEMENT, element) for element in elements]


OVER = Message(END, "")

CASES: list[tuple[str, bytes, list[Message], Message | None]] = [
    ("empty", b"[]", [OVER], None),
    ("empty-with-space", b" \r\n[ \n]\n", [OVER], None),
    ("one", b'[{"a": 1}]', [*e('{"a": 1}'), OVER], None),
    ("after-a-bom", BOM + b"[{}]", [*e("{}"), OVER], None),
    ("geminis-commas", b'[{\r\n"a":1}\r\n,\r\n{}\r\n]\r\n', [*e('{\r\n"a":1}', "{}"), OVER], None),
    ("nested", b'[{"a":[{"b":[]}]},[[]]]', [*e('{"a":[{"b":[]}]}', "[[]]"), OVER], None),
    ("brackets-in-strings", b'[{"a":"}]{["},{}]', [*e('{"a":"}]{["}', "{}"), OVER], None),
    ("escapes", rb'[{"a":"\"}\\"},{"\\":1}]', [*e(r'{"a":"\"}\\"}', r'{"\\":1}'), OVER], None),
    ("escaped-unicode", rb'[{"a":"\u005d\\\""}]', [*e(r'{"a":"\u005d\\\""}'), OVER], None),
    ("non-ascii", '[{"a":"あ😀"}]'.encode(), [*e('{"a":"あ😀"}'), OVER], None),
    ("bytes-that-are-no-text", b'[{"a":"\xff"}]', [*e('{"a":"�"}'), OVER], None),
    ("not-closed", b'[{"a":1}', e('{"a":1}'), Message(ELEMENT, "[")),
    ("not-closed-after-a-comma", b'[{"a":1},\n', e('{"a":1}'), Message(ELEMENT, "[")),
    ("a-torn-element", b'[{},{"a":"]', e("{}"), Message(ELEMENT, '[{"a":"]')),
    ("a-torn-escape", b'[{"a":"\\', [], Message(ELEMENT, '[{"a":"\\')),
    ("a-bracket-alone", b"[", [], Message(ELEMENT, "[")),
    ("a-scalar", b"[1]", [*e("1"), OVER], None),
    ("a-string-alone", b'["]"]', [*e('"]"'), OVER], None),
    ("scalars-and-an-object", b"[1, 2, {}]", [*e("1, 2, {}"), OVER], None),
    ("a-brace-too-many", b"[{}}, {}]", [*e("{}", "}, {}"), OVER], None),
    ("what-follows-is-ignored", b'[{}]\n[{}]{"error":1}', [*e("{}"), OVER], None),
    ("an-error", b'[{"error": {"code": 400}}\n]', [*e('{"error": {"code": 400}}'), OVER], None),
]


@pytest.mark.parametrize(
    ("wire", "messages", "rest"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_an_array_is_read_element_by_element(
    wire: bytes, messages: list[Message], rest: Message | None
) -> None:
    assert_read(JsonArrayDecoder, wire, messages, rest)


def test_any_other_body_is_read_as_it_always_is() -> None:
    for name, wire, messages, rest in test_lenient.CASES:
        if name != "a-list":
            assert_read(JsonArrayDecoder, wire, messages, rest)


def test_an_element_does_not_wait_for_what_follows_it() -> None:
    decoder = JsonArrayDecoder()

    assert decoder.feed(b'[{"a": 1') == []
    assert decoder.feed(b"}") == e('{"a": 1}')
    assert decoder.feed(b",") == []
    assert decoder.feed(b"{}") == e("{}")
    assert decoder.feed(b"]") == [OVER]
    assert decoder.feed(b"{}") == []
    assert decoder.close() is None


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('[]{}",\\ aé', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('}"a'), inner, max_size=3),
    max_leaves=6,
)
elements = st.dictionaries(st.text(max_size=3), values, max_size=3)


@given(
    st.lists(elements, max_size=4),
    st.sampled_from((None, 2)),
    st.booleans(),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_any_array_gives_its_elements(
    sent: list[Any], indent: int | None, ascii: bool, cuts: list[int]
) -> None:
    wire = json.dumps(sent, indent=indent, ensure_ascii=ascii).encode()
    messages, rest = decode(JsonArrayDecoder, in_pieces(wire, cuts))

    assert [json.loads(m.data) for m in messages if m.event == ELEMENT] == sent
    assert (messages[-1], rest) == (OVER, None)


@given(
    st.lists(st.sampled_from((*b'[]{}",\\ \na1', 0xE3, 0x81)), max_size=40).map(bytes),
    st.lists(st.integers(0, 40), max_size=6),
    st.integers(0, 12),
)
def test_any_bytes_read_the_same_however_they_are_cut(
    body: bytes, cuts: list[int], limit: int
) -> None:
    wire = b"[" + body
    whole = within([wire], limit)

    assert whole == within(in_pieces(wire, cuts), limit) == within(in_bytes(wire), limit)


def within(pieces: list[bytes], limit: int) -> tuple[list[Message], str]:
    return decode_until_failure(partial(JsonArrayDecoder, max_event=limit), pieces)


def test_an_element_may_be_as_long_as_its_limit_and_no_longer() -> None:
    too_long = "an element of the array is longer than the limit of 8 bytes"

    assert within([b'[{"a":12},{"a":34}]'], 8) == ([*e('{"a":12}', '{"a":34}'), OVER], "")
    assert within([b'[{"a":12},{"a":345}]'], 8) == (e('{"a":12}'), too_long)
    assert within([b'[{"a":12'], 8)[1] != too_long
    assert within([b'[{"a":1234'], 8) == ([], too_long)


def test_white_space_between_elements_never_adds_up() -> None:
    wire = b"[" + b" \r\n" * 1000 + b"{}" + b"\n" * 1000 + b"]"

    assert within([wire], 2) == ([*e("{}"), OVER], "")


def test_the_limit_of_one_document_is_that_of_an_event() -> None:
    for decoder in (JsonArrayDecoder(max_event=10), LenientDecoder(max_event=10)):
        assert decoder.feed(b'{"a": "bcd') == []
        with pytest.raises(FramingError, match="the body is JSON longer than the limit of 10"):
            decoder.feed(b'"')
