"""Line ends of Unicode in JSON that stands on one line.

`str.splitlines`, and readers of lines that are built on it, such as httpx's, end a line at
U+0085, U+2028 and U+2029 too. There a model's text could forge a line, and so an event.
"""

from typing import Final

_LINE_ENDS: Final = (
    ("\x85".encode(), rb"\u0085"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)


def escape_line_ends(json: bytes) -> bytes:
    """Return the same JSON with these characters as escapes: in JSON they are within strings."""
    if json.isascii():
        return json
    for raw, escaped in _LINE_ENDS:
        if raw in json:
            json = json.replace(raw, escaped)
    return json
