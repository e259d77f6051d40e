"""What is wrong with a setting, in one line that says where and what to do."""

import difflib
import re
from collections.abc import Iterable

import msgspec

from ..addresses import write_origin


class SettingsError(Exception):
    """A setting cannot be used; the text is one line that says where and what to do."""


def suggest(word: str, known: Iterable[str]) -> str:
    """Name what was probably meant, as the end of a sentence."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def check_origins(origins: Iterable[str], where: str, *, others: tuple[str, ...] = ()) -> None:
    """Refuse origins that no browser sends so, since they would match no page.

    `others` are words that may stand in their place.

    Raises:
        SettingsError: one of them.
    """
    for origin in origins:
        wanted = write_origin(origin)
        if origin == wanted or origin in others:
            continue
        what = "it" if "@" in origin else repr(origin)
        more = f", or {others[0]!r} for all" if others else ""
        told = (
            f"write {wanted!r}, as browsers send it"
            if wanted is not None
            else f"give the origin of a page, such as 'https://chat.example.com'{more}"
        )
        raise SettingsError(f"{where}: {what} cannot be used: {told}")


def reason(error: msgspec.ValidationError) -> tuple[str, str]:
    """Take msgspec's reason apart: the path within the value, and what is wrong there."""
    told, _, at = str(error).partition(" - at ")
    return at.strip("`").removeprefix("$"), _in_plain_words(told)


_KINDS = {
    **{"int": "a whole number", "float": "a number", "bool": "true or false"},
    **{"str": "a text", "array": "a list", "object": "a table"},
}
_EXPECTED = re.compile(
    r"Expected `(\w+)(?: \| null)?`( of length >= 1)?(?: ([<>]=?) ([\d.]+))?(?:, got .*)?"
)
_BOUNDS = {">=": "{} or more", "<=": "{} or less", ">": "more than {}", "<": "less than {}"}


def _in_plain_words(told: str) -> str:
    """Return what msgspec says of a value without the names of its types."""
    match = _EXPECTED.fullmatch(told)
    if match is None or match[1] not in _KINDS:
        return f"{told[0].lower()}{told[1:]}"
    if match[2]:
        return f"give {_KINDS[match[1]]} that is not empty"
    bound = f", {_BOUNDS[match[3]].format(match[4].removesuffix('.0'))}" if match[3] else ""
    return f"give {_KINDS[match[1]]}{bound}"
