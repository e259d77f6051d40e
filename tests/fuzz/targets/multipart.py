"""Forms: what is taken reads the same in another parser once it is sent on."""

from collections.abc import Sequence
from email.parser import BytesParser
from email.policy import HTTP

from app.errors import RequestError
from app.framing.multipart import Part, parse_form, render_form, text_part
from tests.fuzz.target import Target, check_linear, check_refusal, split

BOUNDARY = "ses-9f2c"
SENT = "relay-boundary-1"
TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def check(data: bytes) -> None:
    _, body = split(data)
    check_type(body[:100].decode("latin-1"))
    for form in (body, wrap(body)):
        parts = parse(form)
        if parts is not None:
            check_sent(parts)
    check_linear(lambda grown: parse(wrap(grown)), body)


def parse(body: bytes, content_type: str = TYPE) -> list[Part] | None:
    try:
        return parse_form(body, content_type)
    except RequestError as error:
        check_refusal(error.message, code=(error.code, "invalid_request"))
        return None


def check_type(content_type: str) -> None:
    """Assert that any content type is refused, or names one boundary."""
    parse(b"--x--", content_type)


def check_sent(parts: Sequence[Part]) -> None:
    rendered = render_form(parts, SENT)
    if any(SENT.encode() in bytes(part.content) for part in parts):
        return
    again = parse(rendered, f"multipart/form-data; boundary={SENT}")
    assert again is not None
    assert [(one.name, one.head, bytes(one.content)) for one in parts] == [
        (one.name, one.head, bytes(one.content)) for one in again
    ]
    check_peer(parts, rendered)
    added = parse(render_form([*parts, text_part("model", "m")], SENT), f"a; boundary={SENT}")
    assert added is None or added[-1].name == "model"


def check_peer(parts: Sequence[Part], rendered: bytes) -> None:
    """Assert that the parser of Python's library reads the same names and contents."""
    head = f"content-type: multipart/form-data; boundary={SENT}\r\n\r\n".encode()
    if any(
        b"multipart/" in part.head.lower() or b"message/" in part.head.lower() for part in parts
    ):
        return  # it would read parts of parts
    message = BytesParser(policy=HTTP).parsebytes(head + rendered)
    if not parts:
        return
    assert message.is_multipart()
    read = [
        (part.get_param("name", header="content-disposition"), part.get_payload(decode=True))
        for part in message.iter_parts()
    ]
    assert [(part.name, bytes(part.content)) for part in parts] == read


def wrap(body: bytes) -> bytes:
    """Return a form in which the body is the content, and the head where it has one."""
    line = b"--" + BOUNDARY.encode()
    head, found, content = body.partition(b"\r\n\r\n")
    if not found:
        head, content = b'content-disposition: form-data; name="a"', body
    return b"%b\r\n%b\r\n\r\n%b\r\n%b--\r\n" % (line, head, content, line)


_LINE = b"--" + BOUNDARY.encode()
TARGET = Target(
    check,
    seeds=(
        b"\x00" + wrap(b"hello"),
        b"\x07"
        + _LINE
        + b'\r\ncontent-disposition: form-data; name="model"\r\n\r\nm\r\n'
        + _LINE
        + b'\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\n'
        b"Content-Type: audio/mpeg\r\n\r\n\x00\r\n\xff\r\n" + _LINE + b"--\r\n",
        b"\x3fContent-Disposition: form-data; name=a\r\nx: y\r\n\r\ncontent",
        b'\x01content-disposition: form-data; name="a"; filename*=x\r\n\r\n\r\n--',
        b"\x02multipart/form-data; boundary=x; boundary=y",
    ),
    tokens=(
        *(b"\r\n", b"\n", b"\r", b"\r\n\r\n", _LINE, _LINE + b"--", b"--", b'"', b"\\", b";", b":"),
        *(b'; name="a"', b"; filename=", b"filename*=", b"form-data", b"content-disposition: "),
        *(b"content-type: ", b" ", b"\t", b"\x00", b"\xff", b"=", b"boundary=", SENT.encode()),
    ),
)
