"""A JSON array that grows: its elements are messages as soon as they are whole."""

import json
import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.framing.json_array import ELEMENT, END, JsonArray, JsonArrayDecoder
from app.framing.lenient import LenientDecoder
from app.framing.sse import BOM, FramingError, Message
from tests.framing import test_lenient

pytestmark = pytest.mark.pure


def decode(pieces: list[bytes], **limits: int) -> tuple[list[Message], Message | None]:
    decoder = JsonArrayDecoder(**limits)
    messages = [message for piece in pieces for message in decoder.feed(piece)]
    return messages, decoder.close()


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
    expected = (messages, rest)

    assert decode([wire]) == expected
    assert decode([wire[i : i + 1] for i in range(len(wire))]) == expected
    for cut in range(len(wire)):
        assert decode([wire[:cut], wire[cut:]]) == expected


NO_ARRAYS = {case[0]: case for case in test_lenient.CASES if case[0] != "a-list"}


@pytest.mark.parametrize("name", NO_ARRAYS)
def test_any_other_body_is_read_as_it_always_is(name: str) -> None:
    _, wire, messages, rest = NO_ARRAYS[name]

    assert decode([wire]) == (messages, rest)
    assert decode([wire[i : i + 1] for i in range(len(wire))]) == (messages, rest)


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
    at = sorted(cut for cut in cuts if cut <= len(wire))
    pieces = [wire[a:b] for a, b in zip([0, *at], [*at, len(wire)], strict=True)]
    messages, rest = decode(pieces)

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
    at = sorted(cut for cut in cuts if cut <= len(wire))
    pieces = [wire[a:b] for a, b in zip([0, *at], [*at, len(wire)], strict=True)]

    assert within(pieces, limit) == within([wire], limit)
    assert within([wire[i : i + 1] for i in range(len(wire))], limit) == within([wire], limit)


def within(pieces: list[bytes], limit: int) -> tuple[list[Message], str]:
    """Return the messages and how it ended; after an error every later call must raise too."""
    decoder = JsonArrayDecoder(max_event=limit)
    messages: list[Message] = []
    try:
        for piece in pieces:
            messages += decoder.feed(piece)
        rest = decoder.close()
    except FramingError as error:
        for call in (decoder.close, lambda: decoder.feed(b"{}"), lambda: decoder.feed(b"")):
            with pytest.raises(FramingError, match=str(error)):
                call()
        return messages, str(error)
    return messages, repr(rest)


def test_an_element_may_be_as_long_as_its_limit_and_no_longer() -> None:
    too_long = "an element of the array is longer than the limit of 8 bytes"

    assert within([b'[{"a":12},{"a":34}]'], 8) == ([*e('{"a":12}', '{"a":34}'), OVER], "None")
    assert within([b'[{"a":12},{"a":345}]'], 8) == (e('{"a":12}'), too_long)
    assert within([b'[{"a":12'], 8)[1] != too_long
    assert within([b'[{"a":1234'], 8) == ([], too_long)


def test_white_space_between_elements_never_adds_up() -> None:
    wire = b"[" + b" \r\n" * 1000 + b"{}" + b"\n" * 1000 + b"]"

    assert decode([wire], max_event=2) == ([*e("{}"), OVER], None)


def test_the_limit_of_one_document_is_that_of_an_event() -> None:
    for decoder in (JsonArrayDecoder(max_event=10), LenientDecoder(max_event=10)):
        assert decoder.feed(b'{"a": "bcd') == []
        with pytest.raises(FramingError, match="the body is JSON longer than the limit of 10"):
            decoder.feed(b'"')


def cpu_seconds(reads: list[bytes]) -> float:
    """Return the least of three runs, in time of the processor."""

    def run() -> float:
        array = JsonArray(max_size=2**24)
        start = time.process_time()
        for read in reads:
            array.feed(read)
        return time.process_time() - start

    return min(run() for _ in range(3))


@pytest.mark.parametrize(
    "element", [b'{"a":"%s"},' % (b"x" * 90_000), b'{"a":1},', b'{"a":"\\\\"},']
)
def test_time_grows_with_the_number_of_reads(element: bytes) -> None:
    """Linear is 4 times as long for 4 times as much, quadratic 16 times."""
    wire = element * (100_000 // len(element))
    some = [wire[i : i + 10] for i in range(0, len(wire), 10)]

    assert cpu_seconds([b"[", *some * 4]) < 9 * cpu_seconds([b"[", *some])


def test_one_element_of_megabytes_takes_about_as_long_as_short_ones() -> None:
    randomly = random.Random(1)
    long = b'[{"a":"' + randomly.randbytes(3_000_000).hex().encode() + b'"}'
    reads = [long[i : i + 16_384] for i in range(0, len(long), 16_384)]

    assert cpu_seconds(reads) < 0.5
