"""The decoder against the standard, in every chunking, and the encoder against the decoder."""

import re
import tracemalloc
from collections.abc import Iterable
from functools import partial
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.framing.sse import MAX_RETRY_MS, Decoder, FramingError, Message, encode
from tests.framing.cases import BOM, CASES, Case, message
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
    return decode_by(Decoder, pieces)


def test_case_names_are_unique() -> None:
    assert len(CASES) == len({case.name for case in CASES})


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case_is_read_as_the_standard_says_at_once_and_however_it_is_cut(case: Case) -> None:
    assert (case.messages, case.rest) == reference(case.wire)
    assert_read(Decoder, case.wire, case.messages, case.rest)

    # After each byte, all that a stream of just these bytes holds has been returned.
    decoder = Decoder()
    messages: list[Message] = []
    step = 1 + len(case.wire) // 500  # the longest cases only need a look now and then
    for at in range(0, len(case.wire), step):
        messages += decoder.feed(case.wire[at : at + step])
        assert reference(case.wire[: at + step])[0] == messages


# The standard once more, as plainly as it can be put: all input at hand, decoded first.


def reference(wire: bytes) -> Result:
    text = wire.decode(errors="replace").removeprefix("\ufeff")
    *lines, unfinished = re.split(r"\r\n|\r|\n", text)
    messages: list[Message] = []
    data = event_type = last_event_id = ""
    reconnection_time: int | None = None

    def process(line: str) -> None:
        nonlocal data, event_type, last_event_id, reconnection_time
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            event_type = value
        elif field == "data":
            data += value + "\n"
        elif field == "id" and "\0" not in value:
            last_event_id = value
        elif field == "retry" and re.fullmatch("[0-9]+", value):
            # The cap is ours. int() refuses thousands of digits, a float does not.
            reconnection_time = int(min(float(value), MAX_RETRY_MS))

    def event() -> Message:
        return Message(event_type or "message", data[:-1], last_event_id, reconnection_time)

    for line in lines:
        if line:
            process(line)
            continue
        if data:
            messages.append(event())
        data = event_type = ""
    if unfinished:
        process(unfinished)
    return messages, event() if data else None


TOKENS = [
    *in_bytes(
        b"\r\n: \0\tdat90\x0b\xef\xbb\xbf\x80\x81\x8a\x8c\x9f\xa0\xc0\xc3\xe3\xed\xf0\xf4\xf5\xff"
    ),
    *(b"data", b"event", b"id", b"retry", b"data: ", b"event:", b"id:", b"retry: 1"),
    *(b"\r\n", b"\n\n", b"\r\r", b"\r\n\r", BOM, b"\xe2\x80\xa8", b"\xc2\x85"),
]
soups = st.lists(st.sampled_from(TOKENS), max_size=60).map(b"".join)
places = st.lists(st.integers(min_value=0, max_value=120), max_size=8)


@given(wire=soups | st.binary(), cuts=places)
def test_any_bytes_read_as_the_reference_reads_them(wire: bytes, cuts: list[int]) -> None:
    expected = reference(wire)

    assert expected == decode([wire])
    assert expected == decode(in_bytes(wire))
    assert expected == decode(in_pieces(wire, cuts))


@pytest.mark.parametrize(
    ("pieces", "counts"),
    [
        ([b"data: a\r\r", b"\n"], [1, 0]),
        ([b"data: a\r\n\r", b"\n"], [1, 0]),
        ([b"data: a\r", b"\r", b"data: b\r", b"\r"], [0, 1, 0, 1]),
        ([b"data: a\r\n\r", b"\ndata: b\r\n\r", b"\n"], [1, 1, 0]),
        ([b"data: a\r", b"\n", b"\n"], [0, 0, 1]),
        ([b"data: a\r", b"", b"\n", b"", b"\r", b"", b"\n"], [0, 0, 0, 0, 1, 0, 0]),
        ([b"data: a\n", b"\r", b"\n"], [0, 1, 0]),
    ],
)
def test_cr_ends_the_line_at_once(pieces: list[bytes], counts: list[int]) -> None:
    decoder = Decoder()

    assert counts == [len(decoder.feed(piece)) for piece in pieces]
    assert decoder.close() is None


def test_close_gives_the_same_again() -> None:
    decoder = Decoder()
    decoder.feed(b"id: 1\ndata: a")

    assert message("a", id="1") == decoder.close() == decoder.close()


def test_decoders_share_nothing() -> None:
    first, second = Decoder(), Decoder()
    first.feed(b"id: 1\nretry: 5\nevent: e\ndata: a\n")

    assert [message("b")] == second.feed(b"data: b\n\n")
    assert [message("a", event="e", id="1", retry=5)] == first.feed(b"\n")


# Limits


def decode_within(pieces: Iterable[bytes], **limits: int) -> tuple[list[Message], str]:
    return decode_until_failure(partial(Decoder, **limits), pieces)


ENDS = (b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r\n", b"")
BEFORE = (b"", BOM, b"data: a\n\n", b"data: a\r\n\r\n: c\r")


@pytest.mark.parametrize(
    "start", [b"data: ", b"data:", b":", b"id:", b"error: ", b"x", b"\xef\xbb"]
)
def test_line_may_be_as_long_as_its_limit_and_no_longer(start: bytes) -> None:
    for before, end in product(BEFORE, ENDS):
        complete = [message("a")] if b"data" in before else []
        for pieces in chunkings(before + start.ljust(12, b"x") + end):
            messages, failure = decode_within(pieces, max_line=12)
            assert (complete, "") == (messages[: len(complete)], failure)
        for pieces in chunkings(before + start.ljust(13, b"x") + end):
            assert (complete, "a line is longer than the limit of 12 bytes") == decode_within(
                pieces, max_line=12
            )


@pytest.mark.parametrize(
    "event",
    [
        b"data: 0123456789",
        b"data:01234\ndata:6789",
        b"data\n" * 10 + b"data",
        b"data: \xe3\x81\x82\xe3\x81\x82\r\ndata: \xff\xff\r\nid: 123456789012\r\ndata",
        b"event: 123456789012\rdata: 0123\rfoo\r: comment\rdata: 56789",
    ],
    ids=repr,
)
def test_event_may_be_as_long_as_its_limit_and_no_longer(event: bytes) -> None:
    before = b"data: a\n\nevent: e\n\ndata: b\r\r"
    complete = [message("a"), message("b")]
    too_long = event + (b"\ndata" if event.endswith(b"\ndata") else b"0")
    for end in (b"\n\n", b"\r\r", b"\r\n\r\n", b"\n", b""):
        for pieces in chunkings(before + event + end):
            messages, failure = decode_within(pieces, max_event=10)
            assert (complete, "") == (messages[:2], failure)
        for pieces in chunkings(before + too_long + end):
            assert (complete, "an event is longer than the limit of 10 bytes") == decode_within(
                pieces, max_event=10
            )


@given(
    wire=soups,
    cuts=places,
    max_line=st.integers(min_value=0, max_value=20),
    max_event=st.integers(min_value=0, max_value=10),
)
def test_limits_hold_alike_however_any_bytes_are_cut(
    wire: bytes, cuts: list[int], max_line: int, max_event: int
) -> None:
    whole = decode_within([wire], max_line=max_line, max_event=max_event)

    assert whole == decode_within(in_bytes(wire), max_line=max_line, max_event=max_event)
    assert whole == decode_within(in_pieces(wire, cuts), max_line=max_line, max_event=max_event)


def test_messages_before_an_overflow_come_first_and_those_after_never() -> None:
    wire = b"data: a\n\ndata: b\n\n" + b"x" * 21 + b"\n\ndata: c\n\n"
    decoder = Decoder(max_line=20)

    assert [message("a"), message("b")] == decoder.feed(wire)
    with pytest.raises(FramingError):
        decoder.feed(b"data: d\n\n")


def test_overflow_with_nothing_before_it_raises_in_the_same_call() -> None:
    with pytest.raises(FramingError):
        Decoder(max_line=20).feed(b"x" * 21)


def test_line_without_end_is_refused_as_soon_as_it_is_too_long() -> None:
    decoder = Decoder(max_line=20)
    decoder.feed(b": " + b"x" * 18)

    with pytest.raises(FramingError):
        decoder.feed(b"x")


def test_error_text_shows_nothing_of_the_input() -> None:
    with pytest.raises(FramingError, match=r"\Aa line is longer than the limit of 4 bytes\Z"):
        Decoder(max_line=4).feed(b"data: secret")


def test_every_event_has_the_whole_limit() -> None:
    assert ([message("0123456789")] * 50, "") == decode_within(
        [b"data: 0123456789\n\n" * 50], max_event=10
    )


@pytest.mark.parametrize("before", [b"", b"data: 0123456789\n", b"event: e\n"], ids=repr)
def test_heartbeats_without_blank_lines_never_add_up(before: bytes) -> None:
    decoder = Decoder(max_line=16, max_event=10)
    decoder.feed(before)
    for _ in range(2000):
        assert decoder.feed(b": heartbeat 123\n:\r\n") == []

    messages = decoder.feed(b"data\n\n" if b"data" not in before else b"\n")
    assert len(messages) == 1


def test_limits_default_to_megabytes() -> None:
    text = "x" * 2**22

    assert ([message(text), message(text)], None) == decode([encode(text), encode(text)])


@pytest.mark.parametrize("value", ["", "あ", "xyz"])
def test_memory_stays_near_the_limit_of_an_event(value: str) -> None:
    """However short the lines are: a Python object for each would take many times their size."""
    read = f"data: {value}\n".encode() * 100
    size = len(f"{value}\n".encode())
    decoder = Decoder(max_event=20_000)
    tracemalloc.start()
    try:
        for _ in range(19_900 // (size * 100)):
            decoder.feed(read)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held < 30_000


# The encoder

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"))
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"))
ids = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"))
delays = st.integers(min_value=0, max_value=MAX_RETRY_MS)


@given(
    data=texts, event=st.none() | words, id=st.none() | ids, retry=st.none() | delays, cuts=places
)
@example(data="", event="", id="", retry=0, cuts=[])
@example(data="\n\n", event=" ", id=" ", retry=MAX_RETRY_MS, cuts=[])
@example(data=" a\n: b\ndata: c\n\ufeff\0\u2028\x85", event=":", id=": ", retry=None, cuts=[7])
def test_what_is_encoded_is_decoded(
    data: str, event: str | None, id: str | None, retry: int | None, cuts: list[int]
) -> None:
    wire = encode(data, event=event, id=id, retry=retry)
    expected = Message(event or "message", data, id or "", retry)

    assert ([expected], None) == decode([wire])
    assert ([expected], None) == decode(in_pieces(wire, cuts))


@given(st.lists(st.tuples(texts, ids), max_size=5))
def test_encoded_events_follow_one_another(events: list[tuple[str, str]]) -> None:
    wire = b"".join(encode(data, id=name) for data, name in events)

    assert ([message(data, id=name) for data, name in events], None) == decode([wire])


def test_fields_that_are_not_given_are_not_sent() -> None:
    assert encode("a") == b"data: a\n\n"


def test_fields_come_before_the_data_and_the_id_after_it() -> None:
    wire = encode("a\nb", event="e", id="1", retry=5)

    assert wire == b"retry: 5\nevent: e\ndata: a\ndata: b\nid: 1\n\n"


def test_id_that_is_not_given_leaves_the_last_and_an_empty_one_resets_it() -> None:
    wire = encode("a", id="1") + encode("b") + encode("c", id="")

    assert [message("a", id="1"), message("b", id="1"), message("c")] == Decoder().feed(wire)


@pytest.mark.parametrize("text", ["\r", "a\rb", "a\r\nb", "a\n\r", "\ud800", "a\udfffb"], ids=ascii)
def test_data_that_cannot_be_carried_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"CR|surrogates"):
        encode(text)


@pytest.mark.parametrize("text", ["\r", "\n", "\r\n", "a\n", "data: a\n\n", "\ud800"], ids=ascii)
def test_event_that_cannot_be_carried_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"CR or LF|surrogates"):
        encode("a", event=text)


@pytest.mark.parametrize("text", ["\r", "\n", "1\n", "\0", "1\x002", "\ud800"], ids=ascii)
def test_id_that_cannot_be_carried_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"CR, LF or NUL|surrogates"):
        encode("a", id=text)


@pytest.mark.parametrize("retry", [-1, MAX_RETRY_MS + 1, 10**30])
def test_retry_out_of_range_is_refused(retry: int) -> None:
    with pytest.raises(ValueError, match="retry must be 0 to 2147483647 ms"):
        encode("a", retry=retry)
