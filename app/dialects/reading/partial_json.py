"""Incremental check for completeness of JSON text that arrives in pieces, in linear time."""

import re
from typing import Final

from .json_values import decode

_SPACE: Final = " \t\r\n"
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+("?)', re.DOTALL)
"""A string, complete or truncated; the group is its closing quote."""
_MAX_BARE: Final = 5000
"""Characters of a number, which may continue even if it is complete."""


class Growing:
    """Checks whether a growing list of pieces is complete JSON.

    Brackets are counted over the pieces, and only text whose brackets balance is decoded.
    An object or a list balances once: more text than white space breaks it.
    """

    __slots__ = ("_bracketed", "_depth", "_inside", "_seen", "_settled", "_whole")

    def __init__(self) -> None:
        self._seen = 0
        self._depth = 0
        self._inside = ""
        """The open string at the end of the pieces: a quote, and a backslash if it ends in one."""
        self._bracketed: bool | None = None
        """Whether the text is an object, a list or a string; None before it has begun."""
        self._settled = False
        self._whole = False

    def is_whole(self, pieces: list[str]) -> bool:
        """Return whether the joined pieces are complete JSON."""
        if self._seen < len(pieces):
            added = "".join(pieces[self._seen :])
            self._seen = len(pieces)
            self._read(added, pieces)
        return self._whole

    def _read(self, added: str, pieces: list[str]) -> None:
        if not self._inside and not added.strip(_SPACE):
            return
        self._whole = False
        if self._settled:
            return
        if self._bracketed is None:
            self._bracketed = added.lstrip(_SPACE)[0] in '{["'
        bare, strings = _STRING.subn(r"\1", self._inside + added)
        self._inside = ""
        if bare.count('"') < strings:
            self._inside = '"\\' if bare.endswith("\\") else '"'
        self._depth += bare.count("{") + bare.count("[") - bare.count("}") - bare.count("]")
        if self._inside or self._depth > 0:
            return
        text = "".join(pieces)
        self._whole = _is_json(text)
        self._settled = self._bracketed or len(text) > _MAX_BARE


def _is_json(text: str) -> bool:
    try:
        decode(text)
    except ValueError:
        return False
    return True
