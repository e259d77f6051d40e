"""Conversion of settings to their types; each error is one line with setting, fault and remedy."""

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from ..addresses import write_origin
from ..errors import suggest
from ..plugins import PluginError, Registry

T = TypeVar("T")

OLD_NAMES: Final = {
    "breaker_longest_pause_s": "breaker_max_pause_s",
    "gate_s": "status_wait_s",
    "max_requests_bytes": "max_request_memory_bytes",
}
"""The new names of renamed settings and keys of tables; also for the ends of variables."""
OTHER_WORDS: Final = {
    "api_key": "; a provider's key is in the variable that key_env of its [upstream.NAME] names",
    "fallbacks": "; fallbacks are the further targets of a [[route]]",
}
"""Hints for names of other programs, which resemble other settings or none."""


class SettingsError(Exception):
    """A setting is invalid; the message is one line with the setting, the fault and the remedy."""


def fail(message: str) -> NoReturn:
    """End the process with one line on stderr and exit code 2."""
    print(f"seseragi: {message}", file=sys.stderr)
    raise SystemExit(2)


def convert(value: Any, form: Any, place: str) -> Any:
    """Convert the value of the setting at `place`.

    Raises:
        SettingsError: it does not fit; the message has no value.
    """
    try:
        return msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        path, message = explain(error, form)
        raise SettingsError(f"{place}{path}: {message}") from None


def suggest_name(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return a hint for an unknown setting, as the end of a sentence; "" if there is none."""
    word = name.removeprefix(prefix).lower()
    new = OLD_NAMES.get(word, "")
    new = f"{prefix}{new.upper()}" if prefix else new
    if new in known:
        return f"; it was renamed: write {new!r}"
    return OTHER_WORDS.get(word) or suggest(name, known)


def same_fields(source: object, form: Any) -> dict[str, Any]:
    """Return the fields of a struct type that another object has by the same names."""
    return {name: getattr(source, name) for name in form.__struct_fields__ if hasattr(source, name)}


def convert_rows(rows: Any, form: Any, place: str, *, label: str = "") -> tuple[Any, ...]:
    """Convert the tables of an array; their places have the value of the key `label`."""
    if not isinstance(rows, list):
        raise SettingsError(f"{place}: write tables such as [[{place.rpartition(' ')[2]}]]")
    found = []
    for number, row in enumerate(rows, 1):
        name = row.get(label) if isinstance(row, dict) else None
        shown = f" ({name[:80]!r})" if isinstance(name, str) else ""
        found.append(convert(row, form, f"{place}[{number}]{shown}"))
    return tuple(found)


def explain(error: msgspec.ValidationError, form: Any) -> tuple[str, str]:
    """Return the path within a value that does not fit its type, and the remedy.

    The `description` of a type replaces msgspec's message.
    """
    message, _, path = str(error).partition(" - at ")
    path = path.strip("`").removeprefix("$")
    kinds, description = _look_up(form, path)
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", message, re.DOTALL):
        known = [field.name for kind in kinds for field in getattr(kind, "fields", ())]
        return path, f"unknown key {match[1]!r}{suggest_name(match[1], known)}"
    if match := re.fullmatch(r"Object missing required field `(.*)`", message):
        return path, f"missing key {match[1]!r}"
    if description:
        return path, description
    values = [value for kind in kinds for value in getattr(kind, "values", ())]
    if values:  # not msgspec's message, which has the value: maybe a key, by mistake
        return path, f"use {' or '.join(map(repr, values))}"
    return path, _simplify(message)


def find_part(registry: Registry[T], name: str, place: str) -> T:
    """Return the part that a setting names, loaded if it is of an installed package.

    Raises:
        SettingsError: there is none of this name, or it cannot be loaded.
    """
    try:
        return registry.find(name)
    except PluginError as error:
        raise SettingsError(f"{place}: {error}") from error.__cause__


def check_origins(
    origins: Iterable[str], where: str, *, others: tuple[str, ...] = ("null",)
) -> None:
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
        more = ", or '*' for all" if "*" in others else ""
        message = (
            f"write {wanted!r}, as browsers send it"
            if wanted is not None
            else f"give the origin of a page, such as 'https://chat.example.com'{more}"
        )
        raise SettingsError(f"{where}: {value} cannot be used: {message}")


def _look_up(form: Any, path: str) -> tuple[list[Any], str]:
    """Return the alternatives of the type at a path, and the closest description."""
    description = ""

    def flatten(kind: Any) -> Iterator[Any]:
        nonlocal description
        if isinstance(kind, msgspec.inspect.UnionType):
            for one in kind.types:
                yield from flatten(one)
        elif isinstance(kind, msgspec.inspect.Metadata):
            description = (kind.extra_json_schema or {}).get("description", description)
            yield from flatten(kind.type)
        else:
            yield kind

    kinds = list(flatten(msgspec.inspect.type_info(form)))
    for name in re.findall(r"\w+|\[", path.replace("...", "")):
        if name.isdecimal():
            continue
        below = [kind for one in kinds for kind in _list_below(one, name)]
        kinds = [kind for one in below for kind in flatten(one)]
    return kinds, description


def _list_below(kind: Any, name: str) -> list[Any]:
    """Return the type of a field, or of the items for "["."""
    items = [getattr(kind, one) for one in ("item_type", "value_type") if hasattr(kind, one)]
    fields = [field.type for field in getattr(kind, "fields", ()) if field.name == name]
    return items if name == "[" else fields


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a string",
    "array": "a list",
    "object": "a table",
}
_EXPECTED = re.compile(
    r"Expected `([\w |]+)`( of length >= 1)?(?: ([<>]=?) ([\d.]+))?(?:, got .*)?"
)
_BOUNDS = {">=": "{} or more", "<=": "{} or less", ">": "more than {}", "<": "less than {}"}


def _simplify(message: str) -> str:
    """Return msgspec's message without the names of its types."""
    match = _EXPECTED.fullmatch(message)
    kinds = match[1].removesuffix(" | null").split(" | ") if match else []
    if match is None or not _KINDS.keys() >= set(kinds):
        return f"{message[0].lower()}{message[1:]}"
    kind = " or ".join(_KINDS[kind] for kind in kinds)
    if match[2]:
        return f"give {kind} that is not empty"
    bound = f", {_BOUNDS[match[3]].format(match[4].removesuffix('.0'))}" if match[3] else ""
    return f"give {kind}{bound}"
