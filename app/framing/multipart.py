"""`multipart/form-data` bodies (RFC 7578), parsed strictly and rendered anew. No I/O.

A body that another parser could read differently is refused, and what is sent on is rendered from
the parsed parts, with another boundary: a client cannot name one model here and another there.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ..errors import RequestError

MAX_PARTS: Final = 200
MAX_HEAD_BYTES: Final = 4096
"""The maximum bytes of the fields of one part."""

_BOUNDARY: Final = re.compile(r';\s*boundary=(?:"([^"\\]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_VALUE: Final = rb'"[^"\\\x00-\x1f\x7f]*"|[^\s";,\x00-\x1f\x7f]+'
_PARAMETER: Final = rb"\s*;\s*(name|filename\*?)=(" + _VALUE + rb")"
_parameters = re.compile(_PARAMETER)
_disposition = re.compile(rb"form-data((?:" + _PARAMETER + rb")+)\s*", re.IGNORECASE)
_NAME: Final = re.compile(rb'"?([\w.\[\]-]{1,80})"?', re.ASCII)
_CONTENT_TYPE: Final = re.compile(rb"[!-~][ -~]{0,199}")


class Part(NamedTuple):
    """One field of a form."""

    name: str
    head: bytes
    """Its `content-disposition`, and its `content-type` if it has one."""
    content: bytes | memoryview


def parse_form(body: bytes, content_type: str) -> list[Part]:
    """Parse a form; the contents of its parts are views of the body.

    Raises:
        RequestError: `invalid_request`, with the reason.
    """
    found = _BOUNDARY.findall(content_type)
    if len(found) != 1:
        raise _invalid("the content type has no boundary")
    delimiter = b"\r\n--" + "".join(found[0]).encode("latin-1", "replace")
    view, parts = memoryview(body), list[Part]()
    if not body.startswith(delimiter[2:]):
        raise _invalid("it does not begin with its boundary")
    at = len(delimiter) - 2
    while body[at : at + 2] != b"--":
        start = body.find(b"\r\n\r\n", at, at + MAX_HEAD_BYTES)
        end = body.find(delimiter, start + 4)
        if body[at : at + 2] != b"\r\n" or start < 0 or end < 0:
            raise _invalid(f"part {len(parts) + 1} has no end, or no head")
        name, head = _parse_head(body[at + 2 : start])
        parts.append(Part(name, head, view[start + 4 : end]))
        if len(parts) > MAX_PARTS:
            raise _invalid(f"it has more than {MAX_PARTS} parts")
        at = end + len(delimiter)
    if body[at + 2 : at + 6].strip():
        raise _invalid("it continues after its end")
    return parts


def render_form(parts: Iterable[Part], boundary: str) -> bytes:
    """Return a body of these parts; none of them may contain the boundary."""
    line = f"--{boundary}".encode()
    pieces: list[bytes | memoryview] = []
    for part in parts:
        pieces += (line, b"\r\n", part.head, b"\r\n\r\n", part.content, b"\r\n")
    return b"".join((*pieces, line, b"--\r\n"))


def text_part(name: str, text: str) -> Part:
    """Return a field with a text."""
    return Part(name, b'content-disposition: form-data; name="%b"' % name.encode(), text.encode())


def _parse_head(head: bytes) -> tuple[str, bytes]:
    """Return the name of a part, and its head as it is sent on."""
    lines = (line.partition(b":") for line in head.split(b"\r\n"))
    fields = [(name.lower(), value.strip()) for name, _, value in lines]
    known = dict(fields)
    if b"\\" in known.get(b"content-disposition", b""):  # an escape in RFC 7578, not in browsers
        raise _invalid("a name has a backslash, which servers read differently; leave it out")
    disposition = _disposition.fullmatch(known.get(b"content-disposition", b""))
    parameters = _parameters.findall(disposition[1]) if disposition else []
    values = dict(parameters)
    name = _NAME.fullmatch(values.get(b"name", b""))
    if name is None or not len(values) == len(parameters) or not len(known) == len(fields):
        raise _invalid("a part has no valid name in its content-disposition")
    rendered = b"content-disposition: form-data" + b"".join(
        b"; %b=%b" % parameter for parameter in parameters
    )
    if _CONTENT_TYPE.fullmatch(known.get(b"content-type", b"")):
        rendered += b"\r\ncontent-type: " + known[b"content-type"]
    return name[1].decode(), rendered


def _invalid(reason: str) -> RequestError:
    return RequestError("invalid_request", f"the body is not a valid form: {reason}")
