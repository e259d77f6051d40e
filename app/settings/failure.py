"""Error messages for invalid settings: one line with the setting, the fault and the remedy."""

import difflib
import re
from collections.abc import Iterable

import msgspec

from ..addresses import write_origin


class SettingsError(Exception):
    """A setting is invalid; the message is one line with the setting, the fault and the remedy."""


def suggest(word: str, known: Iterable[str]) -> str:
    """Return a suggestion for a misspelled word, as the end of a sentence; "" if none is close."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def check_origins(origins: Iterable[str], where: str, *, others: tuple[str, ...] = ()) -> None:
    """Refuse origins that differ from the form that browsers send: they would match no page.

    `others` are the special values that are accepted too.

    Raises:
        SettingsError: an origin is invalid.
    """
    for origin in origins:
        wanted = write_origin(origin)
        if origin == wanted or origin in others:
            continue
        value = "it" if "@" in origin else repr(origin)
        more = f", or {others[0]!r} for all" if others else ""
        message = (
            f"write {wanted!r}, as browsers send it"
            if wanted is not None
            else f"give the origin of a page, such as 'https://chat.example.com'{more}"
        )
        raise SettingsError(f"{where}: {value} cannot be used: {message}")


def reason(error: msgspec.ValidationError) -> tuple[str, str]:
    """Split msgspec's message into the path within the value and the reason."""
    message, _, at = str(error).partition(" - at ")
    return at.strip("`").removeprefix("$"), _in_plain_words(message)


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "array": "a list",
    "object": "a table",
}
_EXPECTED = re.compile(
    r"Expected `(\w+)(?: \| null)?`( of length >= 1)?(?: ([<>]=?) ([\d.]+))?(?:, got .*)?"
)
_BOUNDS = {">=": "{} or more", "<=": "{} or less", ">": "more than {}", "<": "less than {}"}


def _in_plain_words(message: str) -> str:
    """Return msgspec's reason without the names of its types."""
    match = _EXPECTED.fullmatch(message)
    if match is None or match[1] not in _KINDS:
        return f"{message[0].lower()}{message[1:]}"
    if match[2]:
        return f"give {_KINDS[match[1]]} that is not empty"
    bound = f", {_BOUNDS[match[3]].format(match[4].removesuffix('.0'))}" if match[3] else ""
    return f"give {_KINDS[match[1]]}{bound}"
