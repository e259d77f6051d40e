"""Escapes of Unicode line ends in JSON that is written on one line.

`str.splitlines` and line readers built on it, such as httpx's, also split at U+0085, U+2028
and U+2029. Unescaped, a model's text could forge a line and thereby an event.
"""

from typing import Final

_LINE_ENDS: Final = (
    ("\x85".encode(), rb"\u0085"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)


def escape_line_ends(json: bytes) -> bytes:
    """Return equivalent JSON with U+0085, U+2028 and U+2029 escaped; they only occur in strings."""
    if json.isascii():
        return json
    for raw, escaped in _LINE_ENDS:
        if raw in json:
            json = json.replace(raw, escaped)
    return json
