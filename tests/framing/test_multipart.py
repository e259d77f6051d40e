"""Forms: what is sent on has one reading, and what has two is refused."""

from collections.abc import Callable

import httpx2
import pytest

from app.errors import RequestError
from app.framing.multipart import MAX_PARTS, parse_form, render_form, text_part
from tests.dialects.cost import check_time

pytestmark = pytest.mark.pure

TYPE = "multipart/form-data; boundary=b"


def part(head: bytes, content: bytes = b"x") -> bytes:
    return b"--b\r\n" + head + b"\r\n\r\n" + content + b"\r\n"


def named(name: bytes, content: bytes = b"x") -> bytes:
    return part(b'Content-Disposition: form-data; name="' + name + b'"', content)


def file(name: bytes) -> bytes:
    return part(b'Content-Disposition: form-data; name="file"; filename="' + name + b'"')


END = b"--b--\r\n"


@pytest.mark.parametrize("boundary", ["b", '"b"', "b; charset=utf-8"])
@pytest.mark.parametrize("end", [b"--b--", END, b"--b--\r\n\r\n"])
def test_form_is_read_and_written_again(boundary: str, end: bytes):
    sound = bytes(range(256)) + b"\r\n--\r\n\r\n--B\r\n--b"[:-3]
    head = b'content-disposition: form-data; name="file"; filename="\xc3\xa9 %221%22.mp3"'
    whole = named(b"empty", b"") + named(b"a[]", b"1\r\n") + part(head + b"\r\nX: y", sound) + end
    parts = parse_form(whole, f"multipart/form-data; boundary={boundary}")

    assert [("empty", b""), ("a[]", b"1\r\n"), ("file", sound)] == [
        (one.name, bytes(one.content)) for one in parts
    ]
    assert head == parts[2].head
    again = render_form([text_part("model", "é"), *parts], "another")
    model, *rest = parse_form(again, "multipart/form-data;boundary=another")
    assert ("model", "é".encode()) == (model.name, bytes(model.content))
    assert parts == rest


def test_what_a_client_writes_is_read():
    request = httpx2.Request(
        "POST",
        "http://x",
        data={"model": "m", "language": "é"},
        files={"file": ("a b.wav", b"RIFF", "audio/wav")},
    )
    parts = parse_form(request.read(), request.headers["content-type"])

    assert ["model", "language", "file"] == [one.name for one in parts]
    assert b"content-type: audio/wav" in parts[2].head
    assert b'filename="a b.wav"' in parts[2].head


REFUSED: dict[str, bytes] = {
    "nothing": b"",
    "no boundary": b"model=m",
    "preamble": b"\r\n" + named(b"a") + END,
    "no end": named(b"a"),
    "cut": (named(b"a") + END)[:-9],
    "epilogue": named(b"a") + END + b"--c",
    "longer boundary": named(b"a").replace(b"--b\r\n", b"--bc\r\n") + END,
    "padded boundary": named(b"a").replace(b"--b\r\n", b"--b \r\n") + END,
    "no head": b"--b\r\n\r\nx\r\n" + END,
    "head without end": b'--b\r\ncontent-disposition: form-data; name="a"\r\n' + END,
    "no name": part(b"content-disposition: form-data") + END,
    "two names": part(b'content-disposition: form-data; name="a"; name="model"') + END,
    "two dispositions": part(b"\r\n".join([b'content-disposition: form-data; name="a"'] * 2)) + END,
    "escaped name": named(b"mod\\el") + END,
    "a file whose name ends in a browser's backslash": file(b"a\\") + END,
    "a file whose name hides another name": file(b'a\\"; name=\\"model') + END,
    "a path": file(b"C:\\dir\\a.mp3") + END,
    "other parameter": part(b'content-disposition: form-data; name="a"; x="b"') + END,
    "not a form": part(b'content-disposition: attachment; name="a"') + END,
    "bare line feeds": named(b"a").replace(b"\r", b"") + END,
    "long head": part(b"x: " + b"y" * 5000 + b'\r\ncontent-disposition: form-data; name="a"') + END,
    "many parts": named(b"a") * (MAX_PARTS + 1) + END,
}


@pytest.mark.parametrize("name", REFUSED)
def test_form_with_two_readings_is_refused(name: str):
    with pytest.raises(RequestError) as refused:
        parse_form(REFUSED[name], TYPE)

    assert "invalid_request" == refused.value.code


def test_a_backslash_is_named_in_the_refusal():
    with pytest.raises(RequestError, match=r"a name has a backslash.*leave it out"):
        parse_form(file(b"a\\b.mp3") + END, TYPE)


@pytest.mark.parametrize(
    "given", ["", "; boundary=", "; boundary=b; boundary=c", f"; boundary={'b' * 71}"]
)
def test_form_needs_one_boundary(given: str):
    with pytest.raises(RequestError):
        parse_form(named(b"a") + END, f"multipart/form-data{given}")


@pytest.mark.parametrize(
    "make",
    [
        lambda n: b"--b\r\n" * n,
        lambda n: b"--b\r\n" + b"\r\n" * n,
        lambda n: named(b"a", b"\r\n--" * n) + END,
        lambda n: part(b'content-disposition: form-data; name="' + b'\\"' * n) + END,
    ],
)
def test_forms_cost_no_more_than_their_bytes(make: Callable[[int], bytes]):
    def work(size: int) -> Callable[[], object]:
        body = make(size)
        return lambda: parse_form(body, TYPE)

    check_time(work, 100_000)
