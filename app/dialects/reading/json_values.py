"""JSON that a provider sent, before it is known what it is: decode it, look into it.

The look-ups give an empty value of the type asked for where the provider sent another
type, null, or nothing; a parser needs no other check. Strings may hold lone UTF-16
surrogates, which no event may: `text_or_none` and `clean` replace them.
"""

import json
import math
import re
from itertools import accumulate
from typing import Any, Final

import msgspec

from ...events import Raw
from .surrogates import well_formed

MAX_DEPTH: Final = 256
"""How deep objects and lists may be nested: a quarter of what the interpreter can follow, as
what was decoded here is encoded again deeper in the stack, and within other values."""

MAX_NAME: Final = 255

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_NO_BRACKET: Final = re.compile(r"[^][{}]+")
_STEPS: Final = {"{": 1, "[": 1, "}": -1, "]": -1}


def decode(text: str) -> Any:
    """Decode a JSON document.

    Raises:
        ValueError: it is not JSON, or nested too deeply.
    """
    if len(text) > 2 * MAX_DEPTH and _is_deep(text):
        raise ValueError("the JSON is nested too deeply")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        pass
    # msgspec refuses what the standard library takes: half a surrogate pair, which hosts
    # send when they cut an emoji in two, and the NaN and Infinity of Python servers.
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _is_deep(text: str) -> bool:
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    brackets = _NO_BRACKET.sub("", _STRING.sub("", text))
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_DEPTH


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list; an empty list for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def string(value: object) -> str:
    return value if isinstance(value, str) else ""


def text_or_none(value: object) -> str | None:
    """Return a well-formed text that is not empty, else None: for optional fields of events."""
    return well_formed(value) if isinstance(value, str) and value else None


def short(value: object) -> str | None:
    """Return the start of a provider's name for a model or an answer, which is repeated often."""
    return text_or_none(value[:MAX_NAME]) if isinstance(value, str) else None


def count(value: object) -> int | None:
    """Return a number of tokens or characters; None for what is negative or not whole."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
        return value
    return None


def size(value: Any) -> int:
    """Estimate what decoded JSON takes in memory, in bytes."""
    data = msgspec.json.encode(clean(value))
    return len(data) + 64 * (data.count(b",") + data.count(b"[") + data.count(b"{") + 1)


def make_raw(format: str, fields: dict[str, Any]) -> Raw:
    """Return a provider's own words for an event; equal objects make equal values."""
    data = msgspec.json.encode(clean(fields), order="deterministic")
    return Raw(format, data.decode())


def read_raw(raw: Raw | None, format: str) -> dict[str, Any] | None:
    """Return the object of `make_raw`; None for what is of another dialect, or none."""
    if raw is None or raw.format != format:
        return None
    try:
        value = decode(raw.data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def clean(value: Any) -> Any:
    """Return `value`, decoded JSON, such that it can be encoded again."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.loads(well_formed(json.dumps(value, ensure_ascii=False)))
    return value
