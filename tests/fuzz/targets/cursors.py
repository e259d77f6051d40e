"""Cursors: ids of frames in all formats, positions in lists, and what is read after them."""

from functools import cache

from app.dialects.client_format import frame_id, parse_frame_id
from app.dialects.client_formats import CLIENT_FORMATS
from app.errors import RequestError
from app.eventlog.listing import ListPosition, parse_position
from app.events import Event
from tests.dialects.clients import HEAD, STREAM
from tests.dialects.shapes import ANSWERS
from tests.fuzz.target import Target, check_refusal, split

LETTERS = {spoken.letter: name for name, spoken in CLIENT_FORMATS.items()}


@cache
def events() -> list[Event]:
    return [*HEAD, *ANSWERS[next(iter(ANSWERS))](6)]


@cache
def frames(name: str) -> list[bytes]:
    """Return the frames of a format, each as it is without `retry`."""
    return cut(b"".join(write(name, 0)))


def write(name: str, after: int) -> list[bytes]:
    writer = CLIENT_FORMATS[name].writer(STREAM, after=after, retry_ms=2000)
    found = events()[min(writer.begin, len(events())) :]
    return [writer.feed(event) for event in found]


def cut(body: bytes) -> list[bytes]:
    return [one.removeprefix(b"retry: 2000\n") for one in body.split(b"\n\n")[:-1]]


def check(data: bytes) -> None:
    choice, body = split(data)
    text = body.decode("latin-1").strip(" \t")
    check_position(text)
    shown_position = ListPosition(choice % 2 == 1, choice * 1e7 + len(text) / 7, STREAM)
    assert parse_position(str(shown_position)) == shown_position, "a shown position is read"
    letter = [*LETTERS][choice % len(LETTERS)]
    found = parse(text, letter)
    if found is None:
        return
    stream, number = found
    assert text.rpartition(".")[2].lstrip(letter).isdigit()
    assert stream is None or {letter} == {
        other for other in LETTERS if parse(text, other) is not None
    }, "an id belongs to one format"
    shown = frame_id(stream or STREAM, letter, number)
    assert (stream or STREAM, number) == parse(shown, letter)
    name = LETTERS[letter]
    whole = frames(name)
    assert whole[number:] == cut(b"".join(write(name, number))), "what follows a cursor is the rest"
    check_ids(name, letter, whole)


@cache
def ids(name: str) -> list[str]:
    lines = [one.rpartition(b"\n")[2] for one in frames(name)]
    return [line.removeprefix(b"id: ").decode() for line in lines if line.startswith(b"id: ")]


def check_ids(name: str, letter: str, whole: list[bytes]) -> None:
    assert [frame_id(STREAM, letter, n) for n in range(1, len(whole) + 1)] == ids(name)


def parse(text: str, letter: str) -> tuple[str | None, int] | None:
    try:
        return parse_frame_id(text, letter=letter)
    except RequestError as error:
        check_refusal(error.message, code=(error.code, "invalid_request"))
        return None


def check_position(text: str) -> None:
    position = parse_position(text)
    if position is not None:
        assert position == parse_position(str(position)), "a position is what it is shown as"
        assert position.stream or str(position) in ("e", "r")


TARGET = Target(
    check,
    seeds=(
        *(bytes([at]) + frame_id(STREAM, letter, at).encode() for at, letter in enumerate(LETTERS)),
        *(b"\x00" + b"7", b"\x01" + b"0", b"\x02" + b"9" * 16, b"\x00st_a.0003"),
        *(b"\x00e1234.5-st_a", b"\x00r1700000000.25-st_4fJ9qXw0V1cT8mYbR2nZkQ", b"\x00r"),
    ),
    tokens=(
        *(STREAM.encode(), b".", b"-", b"_", b"r", b"e", b"0", b"9" * 20, b"\xb2", b"\xa0", b" "),
        *(b"inf", b"nan", b"1e9", b"+1", b"\n", b"\x00", b"1.5"),
    ),
)
