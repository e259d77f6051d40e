"""What is wrong with a setting, in one line that says where and what to do."""

import difflib
from collections.abc import Iterable

import msgspec


class SettingsError(Exception):
    """A setting cannot be used; the text is one line that says where and what to do."""


def suggest(word: str, known: Iterable[str]) -> str:
    """Name what was probably meant, as the end of a sentence."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def reason(error: msgspec.ValidationError) -> tuple[str, str]:
    """Take msgspec's reason apart: the path within the value, and what is wrong there."""
    told, _, at = str(error).partition(" - at ")
    return at.strip("`").removeprefix("$"), f"{told[0].lower()}{told[1:]}"
